#!/usr/bin/env python3
"""What encoding takes is bounded, and ends where its client leaves.

    serve_encoding_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from serve_long_prompt_test import words
from serve_process import Server, wait_until

WINNOW = ""
NUM_LEAVING = 8
# Within the steps that a template may take, and some tenths of a second.
SLOW_TEMPLATE = (
    "{% set sum = namespace(n=0) %}{% for i in range(1900) %}"
    "{% for j in range(500) %}{% set sum.n = sum.n + j %}{% endfor %}"
    "{% endfor %}{{ messages[0].content }}")


PLAIN_TEMPLATE = "{% for each in messages %}{{ each.content }}{% endfor %}"


def serve_with_template(template: str, *flags: str) -> Server:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.jinja"
        path.write_text(template)
        return Server(WINNOW, "--chat-template", str(path), *flags)


def send(server: Server, path: str, body: bytes):
    """A client that has asked and not yet read."""
    client = server.connect()
    client.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\n"
                   b"Content-Length: %d\r\n\r\n" % (path.encode(), len(body))
                   + body)
    return client


class BoundTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = serve_with_template(PLAIN_TEMPLATE,
                                         "--max-encoding-size", "100KiB")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.end() == 0

    def test_a_text_that_is_too_long_is_refused(self):
        text = words(102_500)
        self.assertGreater(len(text), 100 << 10)
        chat = [{"role": "user", "content": text}]
        for path, field, body in [
                ("/v1/completions", "prompt", {"prompt": text}),
                ("/v1/completions", "prompt",
                 {"prompt": [text[:60_000], text[60_000:]]}),
                ("/tokenize", "prompt", {"prompt": text}),
                ("/tokenize", "messages", {"messages": chat}),
                ("/v1/chat/completions", "messages", {"messages": chat}),
                ("/v1/responses", "input", {"input": text}),
                ("/v1/messages", "messages",
                 {"messages": chat, "max_tokens": 1}),
                ("/v1/messages/count_tokens", "messages",
                 {"messages": chat})]:
            with self.subTest(path=path, field=field):
                status, _, answer = self.server.ask("POST", path, body)
                self.assertEqual(status, 400, answer)
                message = json.loads(answer)["error"]["message"]
                self.assertIn(f"field {field}: text must be at most 102400 "
                              "bytes (--max-encoding-size), is 1", message)

    def test_what_is_long_in_its_body_alone_is_not(self):
        escaped = "".join(f"\\u{ord(c):04x}" for c in "the man " * 3000)
        for body in ['{"prompt": "%s"}' % escaped,
                     json.dumps({"prompt": words(102_000)}),
                     json.dumps({"prompt": "the man", "user": "u" * 200_000})]:
            status, _, answer = self.server.ask("POST", "/tokenize",
                                                body.encode())
            self.assertEqual(status, 200, answer)

    def test_all_who_wait_for_others_are_answered(self):
        told = []
        body = json.dumps({"prompt": words(90_000)}).encode()

        def ask():
            told.append(self.server.ask("POST", "/tokenize", body)[::2])

        clients = [threading.Thread(target=ask) for _ in range(20)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(len(told), 20)
        self.assertEqual(len(set(told)), 1)
        self.assertEqual(told[0][0], 200)

    def test_a_text_may_be_as_long_as_a_body(self):
        server = serve_with_template(
            "{% for i in range(100) %}{{ messages[0].content }}{% endfor %}",
            "--max-body-size", "200KiB")
        chat = [{"role": "user", "content": words(10_000)}]
        status, _, answer = server.ask("POST", "/tokenize", {"messages": chat})
        self.assertEqual(status, 400, answer)
        self.assertIn("text must be at most 204800 bytes "
                      "(--max-encoding-size)", answer)
        self.assertEqual(server.end(), 0)

    def test_a_wrong_size_is_refused_at_start(self):
        with self.assertRaisesRegex(AssertionError, "--max-encoding-size: "):
            Server(WINNOW, "--max-encoding-size", "many")
        with self.assertRaisesRegex(AssertionError, "must be at least 1B"):
            Server(WINNOW, "--max-encoding-size", "0B")


class BodiesTest(unittest.TestCase):
    """What long bodies hold together is bounded, from their first byte on."""

    def setUp(self):
        self.server = Server(WINNOW, "--max-body-size", "200KiB",
                             "--max-bodies-size", "300KiB")

    def tearDown(self):
        self.assertEqual(self.server.end(), 0)

    def ask(self, num_bytes: int, path: str = "/tokenize"):
        body = json.dumps({"prompt": "x", "user": "u" * num_bytes}).encode()
        return self.server.ask("POST", path, body)

    def stalled(self, num_bytes: int):
        """A client that stops before its body's end."""
        client = self.server.connect()
        client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                       b"Content-Length: 200000\r\n\r\n" + b" " * num_bytes)
        return client

    def stalled_in_chunks(self, num_bytes: int):
        client = self.server.connect()
        client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(num_bytes // 10_000):
            client.sendall(b"2710\r\n" + b" " * 10_000 + b"\r\n")
        return client

    def fill(self, stalled):
        """Two that hold all but a little. Whoever asks while they still send
        takes room from them, so one of them may be refused: then again, and
        later."""
        for pause in (0.1, 0.3, 1, 3, 9):
            clients = []
            for _ in range(2):
                with contextlib.suppress(OSError):  # refused meanwhile
                    clients.append(stalled(150_000))
            time.sleep(pause)
            if all(self.ask(100_000)[0] == 503 for _ in range(3)):
                return clients
            for client in clients:
                client.close()
        raise AssertionError("two that stall never held what they have sent")

    def test_who_finds_no_room_is_told_to_come_again(self):
        self.assertEqual(self.ask(150_000)[0], 200)
        clients = self.fill(self.stalled)
        for path in ["/tokenize", "/v1/completions", "/v1/messages"]:
            status, headers, answer = self.ask(100_000, path)
            self.assertEqual(status, 503, answer)
            self.assertEqual(headers["Retry-After"], "1")
            error = json.loads(answer)["error"]
            self.assertIn("at most 307200 bytes together (--max-bodies-size)",
                          error["message"])
            self.assertIn("type", error)
        # Short ones need none.
        self.assertEqual(self.ask(1000)[0], 200)
        clients.pop().close()
        wait_until(lambda: self.ask(100_000)[0] == 200, "one has left")
        clients.pop().close()

    def test_a_body_in_chunks_counts_too(self):
        clients = self.fill(self.stalled_in_chunks)
        for client in clients:
            client.close()
        wait_until(lambda: self.ask(190_000)[0] == 200, "they have left")

    def test_all_of_it_comes_back(self):
        told = []

        def ask():
            told.append(self.ask(120_000)[0])

        for _ in range(3):
            clients = [threading.Thread(target=ask) for _ in range(12)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
        self.assertLessEqual(set(told), {200, 503})
        self.assertIn(200, told)
        for _ in range(4):
            self.assertEqual(self.ask(190_000)[0], 200)

    def test_a_bound_below_one_body_is_refused_at_start(self):
        with self.assertRaisesRegex(
                AssertionError, "--max-bodies-size must be at least "
                "--max-body-size"):
            Server(WINNOW, "--max-body-size", "2MiB", "--max-bodies-size",
                   "1MiB")


class LeavingTest(unittest.TestCase):

    def test_who_leaves_never_reaches_the_engine(self):
        server = serve_with_template(SLOW_TEMPLATE)
        chat = json.dumps({"messages": [{"role": "user", "content": "the man"}],
                           "max_tokens": 1}).encode()
        self.assertEqual(
            server.ask("POST", "/v1/chat/completions", chat)[0], 200)
        leaving = [send(server, "/v1/chat/completions", chat)
                   for _ in range(NUM_LEAVING)]
        time.sleep(0.02)  # Some of them are being rendered.
        for client in leaving:
            client.close()
        # Who comes behind them waits for what has begun.
        answers = [server.ask("POST", "/v1/chat/completions", chat)[0]
                   for _ in range(2)]
        self.assertEqual(answers, [200] * 2)
        self.assertEqual(server.metric("winnow:requests_started_total"), 3)
        self.assertEqual(server.end(), 0)
        lines = [json.loads(line) for line in server.lines
                 if line.startswith("{")]
        left = [line for line in lines if line["status"] == 0]
        self.assertEqual(len(left), NUM_LEAVING)
        self.assertTrue(all("encode_ms" not in line for line in left), left)

    def test_who_waits_behind_one_that_left_is_served_sooner(self):
        long = json.dumps({"prompt": words(4_000_000)}).encode()
        next_one = json.dumps({"prompt": words(70_000)}).encode()
        # Nothing long is encoded beside it.
        server = Server(WINNOW, "--max-encoding-size", f"{len(long)}B")

        def seconds_of(body: bytes) -> float:
            sent = time.monotonic()
            self.assertEqual(server.ask("POST", "/tokenize", body)[0], 200)
            return time.monotonic() - sent

        whole = min(seconds_of(long) for _ in range(2))
        waited = []
        for _ in range(3):
            client = send(server, "/tokenize", long)
            time.sleep(whole / 8)
            client.close()
            waited.append(seconds_of(next_one))
        self.assertLess(min(waited), whole / 2, f"whole: {whole}, {waited}")
        self.assertEqual(server.end(), 0)

    def test_who_left_the_queue_holds_nobody_up(self):
        long = json.dumps({"prompt": words(4_000_000)}).encode()
        next_one = json.dumps({"prompt": words(70_000)}).encode()
        size = len(long) + len(next_one)
        server = Server(WINNOW, "--max-encoding-size", f"{size}B")
        told = []

        def ask(name: str, body: bytes):
            status = server.ask("POST", "/tokenize", body)[0]
            told.append((name, status))

        sent = time.monotonic()
        ask("alone", long)
        moment = (time.monotonic() - sent) / 10
        told.clear()
        first = threading.Thread(target=ask, args=("first", long))
        first.start()
        time.sleep(moment)
        leaving = send(server, "/tokenize", long)  # It has no room beside it.
        time.sleep(moment)
        behind = threading.Thread(target=ask, args=("behind", next_one))
        behind.start()
        time.sleep(moment)
        leaving.close()
        behind.join()
        first.join()
        self.assertEqual(told, [("behind", 200), ("first", 200)])
        self.assertEqual(server.end(), 0)


class WaitingTest(unittest.TestCase):

    def test_deadlines_are_told_while_others_are_encoded(self):
        long = json.dumps({"prompt": words(4_000_000)}).encode()
        server = Server(WINNOW, "--max-encoding-size", f"{len(long)}B",
                        "--request-timeout", "0.1")
        told = []

        def ask():
            told.append(server.ask("POST", "/tokenize", long)[::2])

        clients = [threading.Thread(target=ask) for _ in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        late = [text for status, text in told if status == 504]
        # One may be encoded in time; those that wait for it are told.
        self.assertGreaterEqual(len(late), 1, [status for status, _ in told])
        for text in late:
            self.assertIn("--request-timeout (0.1 s)", text)
        wait_until(lambda: server.ask("POST", "/tokenize",
                                      {"prompt": "x"})[0] == 200,
                   "short requests are answered")
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
