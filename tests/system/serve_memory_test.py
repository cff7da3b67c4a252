#!/usr/bin/env python3
"""A server whose memory ends while it runs: whoever asks for more than there is
is told so, nobody else hears of it, and all is well when it has come back.

    serve_memory_test.py PATH_TO_WINNOW

The limit is one of address space, set on the process while it serves.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from sanitized import is_sanitized
from serve_process import Server, wait_until

WINNOW = ""
MEBIBYTE = 1 << 20
WORDS = "the man has a dog and the dog has a bone "
LACK = "memory does not suffice"


def address_space(server: Server) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


class Limit:
    """What the process may take beyond what it has, while it is entered."""

    def __init__(self, server: Server, num_bytes: int):
        self.server, self.num_bytes = server, num_bytes

    def set(self, most: int):
        pid = self.server.process.pid
        hard = resource.prlimit(pid, resource.RLIMIT_AS)[1]
        resource.prlimit(pid, resource.RLIMIT_AS, (most, hard))

    def __enter__(self):
        self.set(address_space(self.server) + self.num_bytes)

    def __exit__(self, *_):
        self.set(resource.RLIM_INFINITY)


def bodies(num_words: int) -> list:
    """(path, body) of requests that are in order where there is memory."""
    text = WORDS * num_words
    chat = [{"role": "user", "content": text}]
    short = {"max_tokens": 4, "temperature": 0}
    return [("/v1/completions", {"prompt": text, **short}),
            ("/v1/completions", {"prompt": WORDS, "n": 4, **short,
                                 "user": text}),
            ("/v1/completions", {"prompt": WORDS, **short, "stream": True,
                                 "guided_regex": "[a-z ]{1,40}"}),
            ("/v1/chat/completions", {"messages": chat, **short}),
            ("/v1/messages", {"messages": chat, **short}),
            ("/v1/responses", {"input": text, "max_output_tokens": 4}),
            ("/tokenize", {"prompt": text, "return_pieces": True}),
            ("/detokenize", {"tokens": [5] * (num_words * 10)})]


class MemoryTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if is_sanitized(WINNOW):
            raise unittest.SkipTest("a sanitizer takes terabytes of it")
        with tempfile.TemporaryDirectory() as folder:
            template = Path(folder) / "chat.jinja"
            template.write_text("{{ messages[0].content }}")
            cls.server = Server(WINNOW, "--max-body-size", "64MiB",
                                "--max-num-seqs", "8", "--chat-template",
                                str(template))
        cls.expected = cls.answer()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.end() == 0

    @classmethod
    def answer(cls) -> str:
        return cls.server.complete(prompt=WORDS, max_tokens=100,
                                   ignore_eos=True)["choices"][0]["text"]

    def assert_well(self):
        """No wait: whatever was refused has left nothing behind."""
        self.assertEqual(self.answer(), self.expected)
        for path, body in bodies(3):
            status, _, text = self.server.ask("POST", path, body)
            self.assertEqual(status, 200, f"{path}: {text[:300]}")
        wait_until(lambda: self.server.metric("vllm:num_requests_running") == 0,
                   "nobody runs")

    def assert_told(self, status: int, text: str, path: str):
        """In the words and the shape of an error of its route."""
        error = json.loads(text)["error"]
        self.assertIn(LACK, error["message"])
        self.assertIn(status, (500, 503), text)
        self.assertTrue(error["type"], text)
        if not path.startswith("/v1/messages"):
            self.assertIsNone(error["code"])

    def test_a_body_that_memory_cannot_hold(self):
        with Limit(self.server, 16 * MEBIBYTE):
            body = b'{"prompt": "%s"}' % (b"a" * (40 * MEBIBYTE))
            status, _, text = self.server.ask("POST", "/v1/completions", body)
            self.assertEqual(status, 503)
            self.assert_told(status, text, "/v1/completions")
            self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        self.assert_well()

    def test_a_text_that_memory_cannot_encode(self):
        with Limit(self.server, 64 * MEBIBYTE):
            for path, body in bodies(15_000):
                with self.subTest(path=path, keys=sorted(body)):
                    status, _, text = self.server.ask("POST", path, body)
                    if status not in (200, 400):
                        self.assert_told(status, text, path)
            status, _, text = self.server.ask("POST", "/tokenize",
                                              {"prompt": WORDS * 15_000})
            self.assertEqual(status, 503, text[:300])
            self.assert_told(status, text, "/tokenize")
        self.assert_well()

    def test_whoever_runs_goes_on(self):
        """Beside requests that are refused one after the other."""
        told = []
        with self.server.open_stream(prompt=WORDS, max_tokens=1500,
                                     ignore_eos=True) as stream:
            with Limit(self.server, 0):
                answers = [self.server.ask("POST", path, body)
                           for path, body in bodies(4_000) for _ in range(2)]
                told = [text for status, _, text in answers if status == 503]
            stream.settimeout(60)
            got = b""
            while b"data: [DONE]" not in got:
                piece = stream.recv(1 << 16)
                self.assertTrue(piece, got[-300:])
                got += piece
        self.assertGreater(len(told), 8)
        events = [json.loads(line[6:]) for line in re.findall(
            r"(?m)^data: \{.*\}", got.decode())]
        text = "".join(event["choices"][0]["text"] for event in events
                       if event["choices"])
        whole = self.server.complete(prompt=WORDS, max_tokens=1500,
                                     ignore_eos=True)["choices"][0]["text"]
        self.assertEqual(text, whole)
        self.assert_well()

    def test_many_at_once_whatever_there_is(self):
        """Whatever runs short first. A connection may end without a word where
        there is not even memory for one, and never the server."""
        for mebibytes in [0, 4, 64, 256, 1200]:
            with self.subTest(mebibytes=mebibytes):
                told = []

                def ask(path, body, told=told):
                    try:
                        told.append((path, *self.server.ask("POST", path,
                                                            body)[::2]))
                    except (ConnectionError, OSError) as error:
                        told.append((path, 0, str(error)))

                with Limit(self.server, mebibytes * MEBIBYTE):
                    clients = [threading.Thread(target=ask, args=each)
                               for each in bodies(300) + bodies(4_000)]
                    for client in clients:
                        client.start()
                    for client in clients:
                        client.join()
                for path, status, text in told:
                    if status >= 500:
                        self.assert_told(status, text, path)
                    else:
                        self.assertIn(status, (0, 200, 400), text[:300])
                self.assertLess(sum(status == 0 for _, status, _ in told), 3,
                                told)
                self.assert_well()


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
