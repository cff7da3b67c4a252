#!/usr/bin/env python3
"""HTTP as its older and plainer clients speak it, and how many of them the
system's limits let in.

    serve_http_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import http.client
import json
import resource
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from scripted_model import write_scripted_model
from serve_process import Server

WINNOW = ""
SCRIPTS = {"greet": ["Hello", ", ", "you", "!"]}
# What `winnow bench serve` asks at once where nothing is said.
BENCH_PROMPTS = 1000


def read_all(client) -> bytes:
    told = b""
    while piece := client.recv(1 << 16):
        told += piece
    return told


def with_open_files(soft: int, hard: int) -> dict:
    return {"preexec_fn": lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (soft, hard))}


class ServeHttpTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = cls.folder.name
        write_scripted_model(Path(cls.model), SCRIPTS, "{{ messages }}")
        cls.server = Server(WINNOW, "--served-model-name", "org/name",
                            "--max-num-seqs", "2", model=cls.model)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        cls.folder.cleanup()
        assert status == 0, status

    def test_a_model_is_named_in_the_path(self):
        for path in ["/v1/models/org/name", "/v1/models/org%2Fname",
                     "/v1/models/%6Frg%2fname?x=%zz"]:
            status, _, text = self.server.ask("GET", path)
            self.assertEqual((status, json.loads(text)["id"]),
                             (200, "org/name"), path)
        for path, status in [("/v1/models/", 404), ("/v1/models//", 404),
                             ("/v1/models/org%252Fname", 404),
                             ("/v1/models/org%2Fname%00", 404),
                             ("/v1/models/%2e%2e%2forg/name", 404),
                             ("/v1/models/org%2", 400), ("/%zz", 400)]:
            got, _, text = self.server.ask("GET", path)
            self.assertEqual(got, status, path)
            self.assertEqual(set(json.loads(text)["error"]),
                             {"message", "type", "param", "code"})
        self.assertEqual(json.loads(self.server.ask(
            "GET", "/v1/models/")[2])["error"]["code"], "model_not_found")

    def test_a_head_is_a_get_without_its_body(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port,
                                                timeout=60)
        for path in ["/health", "/", "/v1/models", "/nowhere", "/v1/models/"]:
            told = []
            for method in ["GET", "HEAD"]:
                connection.request(method, path)
                answer = connection.getresponse()
                body = answer.read()
                self.assertEqual(bool(body), method == "GET")
                told.append((answer.status, {
                    name: value for name, value in answer.getheaders()
                    if name.lower() != "x-request-id"}))
            self.assertEqual(*told)
            self.assertGreater(int(told[1][1]["Content-Length"]), 0)
        connection.request("HEAD", "/v1/completions")
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.getheader("Allow"),
                          answer.read()), (405, "POST", b""))
        connection.close()

    def test_a_stream_to_an_older_client(self):
        body = json.dumps({"prompt": "greet", "stream": True}).encode()
        with self.server.connect() as client:
            client.sendall(b"POST /v1/completions HTTP/1.0\r\nHost: localhost"
                           b"\r\nConnection: keep-alive\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
            head, _, told = read_all(client).partition(b"\r\n\r\n")
        self.assertNotIn(b"chunked", head)
        self.assertIn(b"Connection: close", head)
        events = told.decode().split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        self.assertEqual("".join(
            json.loads(event[6:])["choices"][0]["text"]
            for event in events[:-2] if event.startswith("data: ")),
            "Hello, you!")

    def test_usage_in_each_event(self):
        options = {"include_usage": True, "continuous_usage_stats": True}
        long = "greet" * 100
        for path, asked in [("/v1/completions", {"prompt": long}),
                            ("/v1/chat/completions", {"messages": [
                                {"role": "user", "content": long}]})]:
            self.server.complete(path=path, **asked)
            cached = {event["usage"]["prompt_tokens_details"]["cached_tokens"]
                      for event in self.server.stream(
                          path, stream_options=options, **asked)}
            self.assertEqual(len(cached), 1, cached)
            self.assertGreaterEqual(cached.pop(), 96)
        events = self.server.stream(prompt="greet", n=2, stream_options=options)
        whole = self.server.complete(prompt="greet", n=2)["usage"]
        last = {}
        for event in events[:-1]:
            usage, index = event["usage"], event["choices"][0]["index"]
            self.assertEqual(usage["prompt_tokens"], whole["prompt_tokens"])
            self.assertGreaterEqual(usage["completion_tokens"],
                                    last.get(index, 0))
            last[index] = usage["completion_tokens"]
        self.assertEqual(sum(last.values()), whole["completion_tokens"])
        self.assertEqual(events[-1]["usage"]["completion_tokens"],
                         whole["completion_tokens"])
        # Alone it asks for nothing.
        alone = self.server.stream(prompt="greet", stream_options={
            "continuous_usage_stats": True})
        self.assertFalse(any("usage" in event for event in alone))

    def test_a_thousand_at_once_are_taken_in(self):
        """As the bench asks, unless it is told otherwise."""
        statuses = []

        def ask(num_times: int):
            for _ in range(num_times):
                statuses.append(self.server.ask("POST", "/v1/completions", {
                    "prompt": ["greet"] * 25, "max_tokens": 1})[0])

        # All of them wait together: the threads' requests have 25 prompts each.
        threads = [threading.Thread(target=ask, args=[1])
                   for _ in range(BENCH_PROMPTS // 25)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(statuses), {200})


class OpenFilesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = folder.name
        write_scripted_model(Path(self.model), SCRIPTS, "")

    def limit_of(self, server: Server) -> tuple:
        return resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)

    def test_a_low_limit_is_raised_for_the_connections(self):
        server = Server(WINNOW, "--max-connections", "300", model=self.model,
                        popen=with_open_files(64, 1024))
        soft, hard = self.limit_of(server)
        self.assertGreaterEqual(soft, 300 + 64)
        self.assertEqual(hard, 1024)
        clients = [server.connect() for _ in range(300)]
        clients[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertTrue(clients[-1].recv(64).startswith(b"HTTP/1.1 200"))
        for client in clients:
            client.close()
        self.assertEqual(server.end(), 0)

    def test_what_it_cannot_keep_it_refuses(self):
        done = subprocess.run(
            [WINNOW, "serve", self.model, "--port", "0", "--max-connections",
             "1000"], text=True, capture_output=True, timeout=60,
            **with_open_files(64, 1024))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in ["--max-connections", "1024", "is 1000"]:
            self.assertIn(word, done.stderr)

    def test_the_default_is_what_it_can_keep(self):
        server = Server(WINNOW, model=self.model,
                        popen=with_open_files(64, 1024))
        self.assertEqual(self.limit_of(server), (1024, 1024))
        self.assertTrue(any("--max-connections is" in line
                            for line in server.lines), server.lines)
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
