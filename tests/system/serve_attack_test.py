#!/usr/bin/env python3
"""What a server must bear from those who do not mean it well: groups of attacks
on connections, framing, JSON, numbers and templates, over real connections.

    serve_attack_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from scripted_model import write_scripted_model
from serve_process import Server, wait_until

WINNOW = ""
COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
ROUTES = [COMPLETIONS, CHAT, "/v1/responses", "/v1/messages",
          "/v1/messages/count_tokens", "/tokenize", "/detokenize",
          "/v1/embeddings"]
# A template that raises, and one whose time is the caller's to choose.
TEMPLATE = ("{% for m in messages %}{% if m.content == 'raise' %}"
            "{{ raise_exception('no such thing') }}{% endif %}{{ m.content }}"
            "{% endfor %}{% for i in range(turns | default(0)) %}"
            "{% for j in range(100000) %}{% endfor %}{% endfor %}")
SCRIPTS = {"go": ["one", " two", " three"]}
NUM_CONNECTIONS = int(os.environ.get("WINNOW_CONNECTIONS", "2000"))
# Reset, not closed: nothing lingers.
RESET = struct.pack("ii", 1, 0)


USER = {"role": "user", "content": "go"}
CALL = {"id": "c", "type": "function",
        "function": {"name": "f", "arguments": '{"a": 1}'}}
COMMON = {"model": "m", "temperature": 0.5, "top_p": 0.9, "seed": 3,
          "logit_bias": {"5": 1}, "priority": 1, "cache_salt": "s",
          "stream": False, "stop_token_ids": [6]}
BODIES = {
    COMPLETIONS: {**COMMON, "prompt": ["go", "go"], "max_tokens": 2,
                  "stop": ["x"], "n": 2, "logprobs": 2},
    CHAT: {**COMMON, "max_completion_tokens": 2, "logprobs": True,
           "top_logprobs": 1, "chat_template_kwargs": {"turns": 1},
           "messages": [USER, {"role": "assistant", "tool_calls": [CALL]},
                        {"role": "tool", "tool_call_id": "c",
                         "content": [{"type": "text", "text": "x"}]}, USER]},
    "/v1/responses": {**COMMON, "instructions": "x", "max_output_tokens": 2,
                      "include": ["message.output_text.logprobs"],
                      "text": {"format": {"type": "text"}},
                      "input": [{**USER, "type": "message"}, {
                          "type": "function_call", "call_id": "c",
                          "name": "f", "arguments": "{}"}, {
                          "type": "function_call_output", "call_id": "c",
                          "output": "x"}, USER]},
    "/v1/messages": {**COMMON, "max_tokens": 2, "system": "x",
                     "stop_sequences": ["y"], "messages": [USER, {
                         "role": "assistant", "content": [{
                             "type": "tool_use", "id": "c", "name": "f",
                             "input": {"a": 1}}]}, {
                         "role": "user", "content": [{
                             "type": "tool_result", "tool_use_id": "c",
                             "content": "x"}, {"type": "text",
                                               "text": "go"}]}]},
    "/tokenize": {"prompt": "go"},
    "/detokenize": {"tokens": [3, 4, 5]},
}
WRONG = [None, True, 0, -1, 2**31, 2**64, 1e308, 0.5, "", "x" * 300, "\x00",
         "\ud800", [], [[]], {}, {"a": []}, [None], ["x"], [{}]]


def replace_a_value(value, draw: random.Random):
    """Somewhere in it: at any depth, or a name of its own."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = draw.choice(keys)
    deeper = isinstance(value[key], (dict, list)) and value[key]
    if deeper and draw.random() < 0.7:
        replace_a_value(value[key], draw)
    elif isinstance(value, dict) and draw.random() < 0.1:
        value[draw.choice(["tools", "unheard", "", key + "x"])] = value[key]
    else:
        value[key] = draw.choice(WRONG)


def post(body: bytes, path: str = COMPLETIONS, head: bytes = b"") -> bytes:
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n"
            % (path.encode(), len(body), head)) + body


def read_all(client: socket.socket) -> bytes:
    """Until the server closes; what came before a reset."""
    data = b""
    try:
        while piece := client.recv(1 << 16):
            data += piece
    except ConnectionError:
        pass
    return data


class AttackTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_scripted_model(Path(cls.folder.name), SCRIPTS, TEMPLATE)
        cls.server = Server(
            WINNOW, "--served-model-name", "m", "--max-body-size", "1MiB",
            "--header-timeout", "2", "--idle-timeout", "2",
            "--write-timeout", "1", "--max-connections", "64",
            model=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        cls.folder.cleanup()
        assert status == 0, status

    def setUp(self):
        self.num_open = self.descriptors()
        self.num_threads = self.threads()

    def tearDown(self):
        """Whatever came: it answers, and holds nothing of it."""
        self.assert_well()
        wait_until(lambda: self.descriptors() <= self.num_open + 1,
                   "its descriptors are closed")
        wait_until(lambda: self.threads() <= self.num_threads,
                   "its threads have ended")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.server.process.pid}/task"))

    def assert_well(self):
        answer = self.server.complete(prompt="go")
        self.assertEqual(answer["choices"][0]["text"], "one two three")

    def exchange(self, data: bytes, close_writing=False) -> bytes:
        """What comes back until the server closes."""
        with self.server.connect() as client:
            client.sendall(data)
            if close_writing:
                client.shutdown(socket.SHUT_WR)
            return read_all(client)

    def refused(self, body, status=400, path=COMPLETIONS) -> str:
        got, _, text = self.server.ask("POST", path, body)
        self.assertEqual(got, status, text[:300])
        return text

    # Connections.

    def test_a_reader_that_stops_reading_is_cut_off(self):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", self.server.port))
        client.settimeout(30)
        asked = 20000
        sender = threading.Thread(target=self.send_what_goes, args=[
            client, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * asked])
        sender.start()
        sender.join(30)
        self.assertFalse(sender.is_alive())
        got = read_all(client)
        self.assertLess(got.count(b"HTTP/1.1 200"), asked)
        client.close()

    @staticmethod
    def send_what_goes(client: socket.socket, data: bytes):
        try:
            client.sendall(data)
        except OSError:
            pass

    def test_a_reader_of_a_stream_that_stops_ends_it(self):
        labels = 'finished_reason="abort"'
        name = "vllm:request_success_total"
        before = self.server.metric(name, labels)
        # More than sockets hold, 4 MiB at most.
        body = json.dumps({"prompt": ["go"] * 32, "max_tokens": 4090,
                           "stream": True, "ignore_eos": True,
                           "logprobs": 20}).encode()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", self.server.port))
            client.sendall(post(body))
            wait_until(lambda: self.server.metric(name, labels) > before,
                       "it is cancelled")
            wait_until(lambda: self.server.metric(
                "vllm:kv_cache_usage_perc") == 0, "its pages are free")
            self.assertNotIn(b"[DONE]", read_all(client))

    def test_a_stream_that_is_cut_at_each_byte(self):
        whole = post(b'{"prompt": "go", "stream": true}')

        def read(client: socket.socket, most: int) -> int:
            """So much of the stream, or all: its chunks differ each time."""
            client.sendall(whole)
            told = b""
            while len(told) < most and not told.endswith(b"\r\n0\r\n\r\n"):
                told += client.recv(most - len(told))
            return len(told)

        with self.server.connect() as client:
            length = read(client, 1 << 16)
        for cut in range(length):
            with self.server.connect() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                read(client, cut)
        wait_until(lambda: self.server.metric(
            "vllm:num_requests_running") == 0, "none runs")
        self.assertEqual(self.server.metric("vllm:kv_cache_usage_perc"), 0)

    def test_a_body_that_stalls_is_cut_off(self):
        with self.server.connect() as client:
            client.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                           b"1000\r\n\r\n{" % COMPLETIONS.encode())
            started = time.monotonic()
            self.assertEqual(read_all(client), b"")
            self.assertLess(time.monotonic() - started, 10)

    def test_a_connection_that_says_nothing_is_cut_off(self):
        with self.server.connect() as client:
            started = time.monotonic()
            self.assertEqual(read_all(client), b"")
            self.assertLess(time.monotonic() - started, 10)

    def test_half_closed_counts_as_gone(self):
        """At once, when its request need not have begun, and in its midst."""
        def counts() -> tuple[float, float]:
            return (self.server.metric("winnow:requests_started_total"),
                    self.server.metric("vllm:request_success_total",
                                       'finished_reason="abort"'))

        body = json.dumps({"prompt": "go", "max_tokens": 4000, "stream": True,
                           "ignore_eos": True}).encode()
        for num_read in [0, 100]:
            before = counts()
            with self.server.connect() as client:
                client.sendall(post(body))
                self.assertEqual(num_read > 0, bool(client.recv(num_read)))
                client.shutdown(socket.SHUT_WR)
                self.assertNotIn(b"[DONE]", read_all(client))

            def is_over() -> bool:
                started, aborted = (now - then for now, then
                                    in zip(counts(), before))
                return started == aborted and (num_read == 0 or aborted == 1)

            wait_until(is_over, "it is cancelled")

    def test_bytes_behind_a_body_do_not_hide_the_end(self):
        """Old clients send them, and clients that ask again at once."""
        # Choices enough that they outlast the server's looks for the end,
        # which are 250 ms apart.
        num_choices = 32
        body = json.dumps({"prompt": ["go"] * num_choices, "max_tokens": 4000,
                           "ignore_eos": True}).encode()
        for behind in [b"\r\n", b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n"]:
            aborted = self.server.metric("vllm:request_success_total",
                                         'finished_reason="abort"')
            with self.server.connect() as client:
                client.sendall(post(body))
                wait_until(lambda: self.server.metric(
                    "vllm:num_requests_running") >= 1, "it runs")
                client.sendall(behind)
            wait_until(lambda: self.server.metric(
                "vllm:request_success_total", 'finished_reason="abort"') ==
                aborted + num_choices, "all choices are cancelled")

    def test_no_more_connections_than_allowed(self):
        clients = []
        try:
            for _ in range(80):
                clients.append(self.server.connect())
            turned_away = read_all(clients[-1])
            self.assertTrue(turned_away.startswith(
                b"HTTP/1.1 503 Service Unavailable"), turned_away)
            self.assertIn(b"Retry-After: 1", turned_away)
        finally:
            for client in clients:
                client.close()
        wait_until(self.answers, "there is room again")

    def answers(self) -> bool:
        try:
            return self.server.ask("GET", "/health")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def test_connections_that_come_and_go(self):
        """Opened and reset, at once or in the middle of a stream."""
        body = json.dumps({"prompt": "go", "max_tokens": 50, "stream": True,
                           "ignore_eos": True}).encode()
        whole = post(body)
        for number in range(NUM_CONNECTIONS):
            with self.server.connect() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                if number % 4 == 0:
                    client.sendall(whole[:number % len(whole)])
                if number % 40 == 0:
                    client.sendall(whole[number % len(whole):])
                    client.recv(1 + number % 2000 // 8)
            if number % 1000 == 0:
                self.assertLessEqual(self.descriptors(), self.num_open + 64)
        wait_until(lambda: self.server.metric(
            "vllm:num_requests_running") == 0, "none runs")
        wait_until(lambda: self.server.metric(
            "vllm:kv_cache_usage_perc") == 0, "its pages are free")

    # Framing.

    def test_what_may_be_read_two_ways_is_refused(self):
        """Smuggling: a server before this one might see another request."""
        hidden = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
        line = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
        for name, data in {
                "two ways": line + b"Content-Length: 4\r\nTransfer-Encoding: "
                            b"chunked\r\n\r\n0\r\n\r\n" + hidden,
                "two lengths": line + b"Content-Length: 2\r\nContent-Length: "
                               b"40\r\n\r\n{}" + hidden,
                "a list of lengths": line + b"Content-Length: 2, 40\r\n\r\n{}"
                                     + hidden,
                "a signed length": line + b"Content-Length: +2\r\n\r\n{}"
                                   + hidden,
                "a length that is none": line + b"Content-Length: 0x2\r\n\r\n"
                                         b"{}" + hidden,
                "chunked and more": line + b"Transfer-Encoding: chunked, "
                                    b"identity\r\n\r\n0\r\n\r\n" + hidden,
                "a chunk's length": line + b"Transfer-Encoding: chunked\r\n"
                                    b"\r\n0x2\r\n{}\r\n0\r\n\r\n" + hidden,
                "compressed chunks": line + b"Transfer-Encoding: gzip, chunked"
                                     b"\r\n\r\n0\r\n\r\n" + hidden,
                "a compressed body": line + b"Content-Encoding: gzip\r\n"
                                     b"Content-Length: 2\r\n\r\n{}" + hidden,
                "two hosts": line + b"Host: elsewhere\r\nContent-Length: 2"
                             b"\r\n\r\n{}" + hidden,
                "no host": b"GET /version HTTP/1.1\r\n\r\n" + hidden,
                "two keys": b"GET /version HTTP/1.1\r\nHost: localhost\r\n"
                            b"Authorization: a\r\nAuthorization: b\r\n\r\n"
                            + hidden,
                "a space before the colon": line + b"Content-Length : 2\r\n"
                                            b"\r\n{}" + hidden,
                "a line without a name": line + b": x\r\n\r\n" + hidden,
                "a zero byte": line + b"X: a\x00b\r\n\r\n" + hidden,
                "no version": b"GET /version\r\n\r\n" + hidden}.items():
            with self.subTest(name):
                answer = self.exchange(data, close_writing=False)
                self.assertFalse(answer.count(b"HTTP/1.1 200"), answer)
                self.assertLessEqual(answer.count(b"HTTP/1.1 "), 1, answer)

    def test_a_target_may_have_its_host(self):
        for target, status in [(b"http://localhost:1/version", b"200"),
                               (b"HTTP://127.0.0.1/version?x", b"200"),
                               (b"http://evil.example/version", b"403"),
                               (b"http://u@localhost/version", b"400")]:
            answer = self.exchange(b"\r\nGET %s HTTP/1.1\r\nHost: localhost"
                                   b"\r\n\r\n\r\n" % target)
            self.assertEqual(re.findall(rb"HTTP/1\.1 (\d+) ", answer),
                             [status], target)
        # Its host is whose page may ask.
        answer = self.exchange(b"POST http://localhost:1/tokenize HTTP/1.1\r\n"
                               b"Host: a\r\nOrigin: http://a\r\n\r\n")
        self.assertIn(b"HTTP/1.1 403 ", answer)

    def test_requests_in_a_row_are_answered_in_order(self):
        paths = [b"/health", b"/version", b"/nowhere", b"/health"]
        data = b"".join(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path
                        for path in paths)
        answer = self.exchange(data)
        statuses = re.findall(rb"HTTP/1\.1 (\d+) ", answer)
        self.assertEqual(statuses, [b"200", b"200", b"404", b"200"])

    def test_a_body_in_small_chunks(self):
        body = json.dumps({"prompt": "go", "user": "x" * 100_000}).encode()
        head = (b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n" % COMPLETIONS.encode())
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        answer = self.exchange(head + chunks + b"0\r\n\r\n")
        self.assertIn(b"one two three", answer)
        endless = head + b"1\r\nx\r\n" * (2 << 20)
        with self.server.connect() as client:
            self.send_what_goes(client, endless)
            self.assertIn(b"HTTP/1.1 413", read_all(client))

    def test_lengths_that_lie(self):
        line = b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % COMPLETIONS.encode()
        for length in [10**9, 2**63, 2**64, 10**40]:
            answer = self.exchange(line + b"Content-Length: %d\r\n\r\n{"
                                   % length, close_writing=True)
            self.assertRegex(answer, rb"^(HTTP/1.1 4(13|00) |$)")
        many = line + b"X: y\r\n" * 100_000
        with self.server.connect() as client:
            self.send_what_goes(client, many)
            self.assertRegex(read_all(client), rb"^(HTTP/1.1 431 |$)")

    # What is asked.

    def test_json_that_is_meant_to_hurt(self):
        deep = b"[" * 200_000
        for body in [b'{"prompt":"a","x":' + deep, b"\x00", b"\xef\xbb\xbf",
                     b'{"prompt":"\\udc00\\ud800"}', b'{"prompt":"\x01"}',
                     b'{"prompt":"a"}{"prompt":"b"}', b'{"prompt":+1}',
                     b'{"prompt":"go","n":1e999}', b'{"prompt":Infinity}',
                     b"{" + b'"a":1,' * 100_000, b'{"prompt":"' + b"a" * 10**6]:
            for path in ROUTES:
                self.refused(body, path=path)
        # Names by the thousand, and a zero among the letters, are none.
        names = ",".join(f'"k{i}":0' for i in range(50_000))
        status, headers, _ = self.server.ask(
            "POST", COMPLETIONS, b'{"prompt":"go",' + names.encode() + b"}")
        self.assertEqual(status, 200)
        self.assertLess(len(headers["X-Winnow-Ignored-Fields"]), 2000)
        self.assertEqual(self.server.ask(
            "POST", COMPLETIONS, b'{"prompt":"a\\u0000b"}')[0], 200)

    def test_tools_that_are_meant_to_hurt(self):
        def tools(value, path=CHAT):
            return self.refused(json.dumps({
                "messages": [{"role": "user", "content": "go"}],
                "input": "go", "max_tokens": 5, "tools": value}), path=path)

        for path in [CHAT, "/v1/responses", "/v1/messages"]:
            for value in [[{}] * 129, [[]], {"a": 1}, "x", [None], [{
                    "type": "function", "name": "a\"}\n", "input_schema": {},
                    "function": {"name": "a\"}\n"}}]]:
                tools(value, path)
        call = {"id": "c", "type": "function", "function": {"name": "f"}}
        for arguments in ["[" * 100_000, "{}{}", "{\"a\":1}\x00", "nul"]:
            call["function"]["arguments"] = arguments
            self.refused(json.dumps({"messages": [
                {"role": "assistant", "tool_calls": [call]}]}), path=CHAT)

    def test_bodies_that_went_wrong_get_no_5xx(self):
        """Valid ones of every route, with a value or some bytes replaced."""
        draw = random.Random(11)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port,
                                                timeout=60)
        seen = set()
        for _ in range(1500):
            path = draw.choice(sorted(BODIES))
            body = json.loads(json.dumps(BODIES[path]))
            replace_a_value(body, draw)
            data = bytearray(json.dumps(body).encode())
            if draw.random() < 0.3:
                at = draw.randrange(len(data))
                data[at:at + draw.randrange(3)] = draw.randbytes(
                    draw.randrange(3))
            connection.request("POST", path, bytes(data))
            answer = connection.getresponse()
            text = answer.read()
            self.assertLess(answer.status, 500, (path, bytes(data), text))
            if answer.status == 400:
                error = json.loads(text)["error"]
                self.assertTrue(error["message"], data)
            seen.add(answer.status)
        connection.close()
        self.assertEqual(seen, {200, 400, 404})

    def test_numbers_at_their_ends(self):
        for field, good, bad in [
                ("temperature", [1e-9, 0], [-1e-9, 1e9]),
                ("seed", [-2**63, 2**63 - 1], [2**63, -2**63 - 1, 0.5]),
                ("n", [1], [0, -1, 10_000, 2**31, 2**63, 2**64]),
                ("max_tokens", [1, 4096], [0, 4097, 2**31, 2**63, 10**30]),
                ("top_p", [1e-9, 1], [-1e-9, 1.0001]),
                ("min_tokens", [2], [3, -1, 2**31, 2**63]),
                ("timeout", [3600], [-1, "1"]),
                ("top_k", [-1, 2**31 - 1], [2**31]),
                ("priority", [-2**31, 2**31 - 1], [2**31, 0.5, "high"]),
                ("min_p", [0, 1], [1.5]), ("logprobs", [20], [21, 2**63]),
                ("stop", ["a" * 4096, ["b"] * 64],
                 ["", ["c"] * 100_000, "d" * 5000]),
                ("prompt", [[0], [63]], [[64], [-1], [2**31], [2**63], []])]:
            for value in good:
                body = {"prompt": "go", "max_tokens": 2, field: value}
                self.assertEqual(self.server.ask("POST", COMPLETIONS, body)[0],
                                 200, f"{field}={str(value)[:40]}")
            for value in bad:
                body = {"prompt": "go", "max_tokens": 2, field: value}
                self.refused(body)

        # There are 16 where nothing is said.
        self.refused({"prompt": "go", "min_tokens": 17})

    def test_the_context_ends_where_it_says(self):
        """The last token is never fed: 4096 take a prompt of 4095 and two."""
        ids = [3]
        for length, most, status in [(4095, 2, 200), (4096, 1, 200),
                                     (4095, 3, 400), (4096, 2, 400),
                                     (4097, 1, 400)]:
            got, _, text = self.server.ask(
                "POST", COMPLETIONS,
                {"prompt": ids * length, "max_tokens": most})
            self.assertEqual(got, status, text[:300])
            if status == 400:
                self.assertEqual(json.loads(text)["error"]["code"],
                                 "context_length_exceeded")

    def test_a_template_fails_for_its_request_alone(self):
        for path, body in [
                (CHAT, {"messages": [{"role": "user", "content": "raise"}]}),
                ("/v1/responses", {"input": "raise"}),
                ("/v1/messages", {"max_tokens": 1, "messages": [
                    {"role": "user", "content": "raise"}]})]:
            text = self.refused(body, path=path)
            self.assertIn("no such thing", text)
            self.assertNotIn(self.folder.name, text)
        long = {"messages": [{"role": "user", "content": "go"}],
                "chat_template_kwargs": {"turns": 100_000}}
        started = time.monotonic()
        self.assertIn("steps", self.refused(long, path=CHAT))
        self.assertLess(time.monotonic() - started, 20)
        own = {**long, "chat_template": "{{ messages }}"}
        self.assertIn("templates are code", self.refused(own, path=CHAT))

    # Who asks.

    def test_no_page_of_another_site_may_ask(self):
        for method, path in [("GET", "/v1/models"), ("POST", COMPLETIONS),
                             ("OPTIONS", COMPLETIONS)]:
            _, headers, _ = self.server.ask(
                method, path, {"prompt": "go"} if method == "POST" else None,
                headers={"Origin": "http://elsewhere",
                         "Access-Control-Request-Method": "POST"})
            for name in headers:
                self.assertFalse(name.lower().startswith("access-control"))

    def test_what_a_page_of_another_site_sends_is_not_done(self):
        """A browser sends a POST of plain text without asking first."""
        own = f"http://127.0.0.1:{self.server.port}"
        foreign = [{"Origin": "http://elsewhere"}, {"Origin": "null"},
                   {"Origin": "http://127.0.0.1:1"},
                   {"Origin": own.replace("127.0.0.1", "localhost")},
                   {"Sec-Fetch-Site": "cross-site"},
                   {"Sec-Fetch-Site": "same-site"}]
        before = self.server.metric("vllm:generation_tokens_total")
        for path, body in BODIES.items():
            for page in foreign:
                status, _, text = self.server.ask(
                    "POST", path, body,
                    {**page, "Content-Type": "text/plain"})
                self.assertEqual(status, 403, text)
                self.assertIn("--allowed-origins", text)
        self.assertEqual(self.server.metric("vllm:generation_tokens_total"),
                         before)
        for page in [{}, {"Origin": own}, {"Sec-Fetch-Site": "none"},
                     {"Origin": own, "Sec-Fetch-Site": "same-origin"}]:
            status, _, text = self.server.ask("POST", COMPLETIONS,
                                              {"prompt": "go"}, page)
            self.assertEqual(status, 200, text)
        # Refused before any of its body is there.
        with self.server.connect() as client:
            client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                           b"Origin: http://elsewhere\r\n"
                           b"Content-Length: 100000\r\n\r\n")
            self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 403"))

    def test_it_listens_where_it_says(self):
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", self.server.port), 5)

    def test_errors_tell_nothing_of_the_machine(self):
        for method, path, body in [
                ("POST", CHAT, {"messages": []}), ("POST", "/../etc", b""),
                ("GET", "/%00%ff/" + "a" * 200, None),
                ("POST", "/detokenize", {"tokens": [10**9]}),
                ("POST", "/tokenize", b"\xff"), ("PUT", COMPLETIONS, b"x")]:
            status, _, text = self.server.ask(method, path, body)
            self.assertIn(status, [400, 404, 405], text)
            for word in ["0x7f", self.folder.name, "/work", "/home", "/root",
                         "terminate", ".cc"]:
                self.assertNotIn(word, text)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
