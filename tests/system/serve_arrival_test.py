#!/usr/bin/env python3
"""A request's time begins with its first byte, and its body's memory ends with
it.

    serve_arrival_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import sys
import time
import unittest

from serve_process import Server, wait_until

WINNOW = ""
LIMIT_S = 0.5
TOLD = f"--request-timeout ({LIMIT_S} s) must suffice for the whole answer"


def head_of(path: str, framing: str) -> bytes:
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n"
            "\r\n").encode()


def read_all(client) -> bytes:
    """Until the server closes, or cuts off."""
    told = b""
    try:
        while piece := client.recv(1 << 16):
            told += piece
    except ConnectionResetError:
        pass
    return told


def chunks(body: bytes, chunk_bytes: int) -> bytes:
    pieces = [body[i:i + chunk_bytes] for i in range(0, len(body), chunk_bytes)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece)
                    for piece in pieces) + b"0\r\n\r\n"


class RequestTimeoutTest(unittest.TestCase):
    """--request-timeout, far below the times for headers and bodies."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(WINNOW, "--request-timeout", str(LIMIT_S),
                            "--max-body-size", "200KiB",
                            "--max-bodies-size", "200KiB")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.end() == 0

    def assert_late(self, told: bytes, sent_at: float):
        head, _, body = told.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 504 "), told)
        self.assertIn(b"x-should-retry: false", head)
        self.assertIn(TOLD, json.loads(body)["error"]["message"])
        self.assertGreaterEqual(time.monotonic() - sent_at, LIMIT_S)

    def test_who_stalls_is_told(self):
        for sent in [head_of("/v1/completions", "Content-Length: 1000") + b"{",
                     head_of("/v1/messages", "Content-Length: 1000"),
                     head_of("/tokenize", "Content-Length: 200000")
                     + b" " * 150_000,
                     head_of("/tokenize", "Transfer-Encoding: chunked")
                     + b"3e8\r\n" + b" " * 1000 + b"\r\n",
                     b"POST /tokenize HTTP/1.1\r\nHost: local"]:
            with self.subTest(sent=sent[:80]), self.server.connect() as client:
                sent_at = time.monotonic()
                client.sendall(sent)
                self.assert_late(read_all(client), sent_at)

    def test_who_is_slow_is_told_in_its_midst(self):
        with self.server.connect() as client:
            sent_at = time.monotonic()
            client.sendall(head_of("/tokenize", "Content-Length: 100000"))
            client.settimeout(LIMIT_S / 20)
            told = b""
            while not told:
                client.sendall(b" ")
                try:
                    told = client.recv(1 << 16)
                except TimeoutError:
                    continue
            client.settimeout(60)
            self.assert_late(told + read_all(client), sent_at)

    def test_the_next_request_has_a_time_of_its_own(self):
        """On one connection, behind a pause and behind another request."""
        ask = head_of("/tokenize", "Content-Length: 15") + b'{"prompt": "x"}'
        with self.server.connect() as client:
            for pause in [0, LIMIT_S / 2, LIMIT_S / 2, LIMIT_S, LIMIT_S]:
                time.sleep(pause)
                client.sendall(ask)
                self.assertTrue(client.recv(1 << 16).startswith(
                    b"HTTP/1.1 200 "))
            sent_at = time.monotonic()
            client.sendall(ask + ask[:-1])
            told = read_all(client)
            self.assertTrue(told.startswith(b"HTTP/1.1 200 "), told)
            self.assert_late(told[told.rindex(b"HTTP/1.1"):], sent_at)

    def test_the_room_of_who_is_late_comes_back(self):
        with self.server.connect() as client:
            client.sendall(head_of("/tokenize", "Content-Length: 200000")
                           + b" " * 190_000)
            self.assertIn(TOLD.encode(), read_all(client))
        body = json.dumps({"prompt": "x", "user": "u" * 180_000}).encode()
        wait_until(lambda: self.server.ask("POST", "/tokenize", body)[0] == 200,
                   "there is room again")


class OwnTimeoutTest(unittest.TestCase):

    def test_it_counts_from_the_first_byte(self):
        server = Server(WINNOW)
        ask = {"prompt": "x", "max_tokens": 1}
        asked_at = time.monotonic()
        server.complete(**ask)
        limit_s = max(0.5, 20 * (time.monotonic() - asked_at))
        body = json.dumps(ask | {"timeout": limit_s}).encode()
        head = head_of("/v1/completions", f"Content-Length: {len(body)}\r\n"
                       "Connection: close")
        # Twice the limit, since the server may see the first byte late.
        for pause, status in [(0, 200), (2 * limit_s, 504)]:
            with server.connect() as client:
                client.sendall(head + body[:10])
                time.sleep(pause)
                client.sendall(body[10:])
                told = read_all(client)
                self.assertTrue(told.startswith(b"HTTP/1.1 %d " % status), told)
        self.assertIn(b"timeout (", told)
        self.assertEqual(server.end(), 0)
        lines = [json.loads(line) for line in server.lines
                 if line.startswith("{")]
        late = [line for line in lines if line["status"] == 504]
        self.assertEqual(len(late), 1, lines)
        self.assertGreaterEqual(late[0]["total_ms"], 1000 * limit_s)


class ChunksTest(unittest.TestCase):

    def test_one_alone_may_have_all_of_the_room(self):
        """However it comes: what grows holds no more than has come."""
        server = Server(WINNOW, "--max-body-size", "300000B",
                        "--max-bodies-size", "300000B")
        body = json.dumps({"prompt": "x"}).encode().ljust(300_000)
        for chunk_bytes in [100, 5000, 300_000]:
            with server.connect() as client:
                client.sendall(head_of("/tokenize", "Transfer-Encoding: "
                                       "chunked\r\nConnection: close")
                               + chunks(body, chunk_bytes))
                told = read_all(client)
                self.assertTrue(told.startswith(b"HTTP/1.1 200 "), told)
        self.assertEqual(server.ask("POST", "/tokenize", body)[0], 200)
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
