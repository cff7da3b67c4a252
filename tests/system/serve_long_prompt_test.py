#!/usr/bin/env python3
"""What a prompt of megabytes costs those who did not send it.

    serve_long_prompt_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from serve_process import MODEL, Server

WINNOW = ""
COMPLETIONS = "/v1/completions"
# More at once than the server has threads for connections.
NUM_LONG = 5
# Deadlines far below what it takes to encode one of them on any machine.
SOON_S = 0.1


def byte_tokenizer() -> dict:
    """A token a byte, in the alphabet of byte-level vocabularies."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    letters = [chr(c) for c in printable]
    letters += [chr(0x100 + i) for i in range(256 - len(printable))]
    bytes_as_they_are = {"type": "ByteLevel", "add_prefix_space": False,
                         "trim_offsets": False, "use_regex": False}
    return {"version": "1.0", "added_tokens": [], "normalizer": None,
            "pre_tokenizer": bytes_as_they_are, "post_processor": None,
            "decoder": bytes_as_they_are,
            "model": {"type": "BPE", "merges": [],
                      "vocab": {c: i for i, c in enumerate(letters)}}}


def words(num_bytes: int) -> str:
    """No two beginnings alike, so that no cache of words knows them."""
    draw = random.Random(3)
    return " ".join(draw.randbytes(4).hex() for _ in range(num_bytes // 9))


class LongPromptTest(unittest.TestCase):
    """What is told at once is told in less time than the long prompt takes, in
    the same minute: how fast the machine is, and what else it does, changes
    both."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(WINNOW)
        cls.long = json.dumps({"prompt": words(5_000_000)}).encode()
        cls.longer = json.dumps({"prompt": words(15_000_000)}).encode()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.end() == 0

    def seconds_of(self, method, path, body, server=None):
        """Of one answer of 200, from its question on."""
        sent = time.monotonic()
        status, _, text = (server or self.server).ask(method, path, body)
        self.assertEqual(status, 200, text[:1000])
        return time.monotonic() - sent

    def send_long(self, enough=lambda: True):
        """Clients that ask until it is enough, and what they were answered:
        status, text, seconds."""
        answers = []

        def ask():
            asked = False
            while not asked or not enough():
                sent = time.monotonic()
                status, _, text = self.server.ask("POST", "/tokenize",
                                                 self.long)
                answers.append((status, text, time.monotonic() - sent))
                asked = True

        clients = [threading.Thread(target=ask) for _ in range(NUM_LONG)]
        for client in clients:
            client.start()
        return clients, answers

    def test_nobody_else_waits_for_a_prompt_of_megabytes(self):
        clients, answers = self.send_long()
        slowest, num_asked = 0.0, 0
        while not answers:
            for method, path, body in [
                    ("GET", "/health", None), ("GET", "/metrics", None),
                    ("POST", "/tokenize", {"prompt": "x"})]:
                slowest = max(slowest, self.seconds_of(method, path, body))
            num_asked += 1
        for client in clients:
            client.join()
        self.assertLess(slowest, min(took for _, _, took in answers) / 2)
        self.assertGreater(num_asked, 0)
        self.assertEqual({status for status, _, _ in answers}, {200})
        self.assertEqual(len({text for _, text, _ in answers}), 1)

    def test_a_deadline_is_told_beside_it(self):
        ended = threading.Event()
        sent = time.monotonic()
        busy = self.server.open_stream(prompt="The code", max_tokens=4000,
                                       ignore_eos=True, timeout=2)
        clients, answers = self.send_long(ended.is_set)
        told = b""
        while b"[DONE]" not in told:
            chunk = busy.recv(1 << 16)
            self.assertTrue(chunk, told[-1000:])
            told += chunk
        late = time.monotonic() - sent - 2
        ended.set()
        busy.close()
        for client in clients:
            client.join()
        self.assertIn(b"timeout (2 s)", told)
        self.assertLess(late, min(took for _, _, took in answers))

    def test_what_no_context_holds_is_refused_unencoded(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in Path(MODEL).iterdir():
                # Its special tokens would be tokens of several bytes.
                if not path.name.startswith("tokenizer"):
                    (Path(folder) / path.name).symlink_to(path)
            (Path(folder) / "tokenizer.json").write_text(
                json.dumps(byte_tokenizer()))
            server = Server(WINNOW, "--max-model-len", "1K", model=folder)
        encoding = self.seconds_of("POST", "/tokenize",
                                   {"prompt": "a" * 5_000_000}, server)
        for length in [1025, 5_000_000]:
            sent = time.monotonic()
            status, _, text = server.ask("POST", COMPLETIONS, {
                "prompt": ["a", "a" * length], "max_tokens": 1})
            self.assertEqual(status, 400, text)
            self.assertIn(f"its {length} bytes are {length} tokens", text)
            self.assertLess(time.monotonic() - sent, encoding / 2)
            self.assertEqual(json.loads(text)["error"]["code"],
                             "context_length_exceeded")
        usage = server.complete(prompt="a" * 1024, max_tokens=1)["usage"]
        self.assertEqual(usage["prompt_tokens"], 1024)
        count = server.complete(prompt="a" * 5000, path="/tokenize")["count"]
        self.assertEqual(count, 5000)
        self.assertEqual(server.end(), 0)

    def test_its_own_deadline_is_told_while_it_is_encoded(self):
        body = json.loads(self.longer) | {"timeout": SOON_S, "max_tokens": 1}
        body = json.dumps(body).encode()
        server = Server(WINNOW, "--max-model-len", "128K", "--device-kv", "16MiB")
        encoding = self.seconds_of("POST", "/tokenize", self.longer, server)
        sent = time.monotonic()
        status, headers, text = server.ask("POST", COMPLETIONS, body)
        self.assertEqual(status, 504, text)
        self.assertEqual(headers["x-should-retry"], "false")
        self.assertIn(f"timeout ({SOON_S} s)", text)
        self.assertLess(time.monotonic() - sent, encoding)
        self.assertEqual(server.end(), 0)

    def test_who_waits_for_a_thread_is_told_too_and_counted_once(self):
        server = Server(WINNOW, "--max-model-len", "128K", "--device-kv",
                        "16MiB", "--request-timeout", str(SOON_S))
        body = json.dumps(json.loads(self.long) | {"max_tokens": 1}).encode()
        told = []

        def ask():
            status, _, text = server.ask("POST", COMPLETIONS, body)
            told.append((status, f"--request-timeout ({SOON_S} s)" in text))

        clients = [threading.Thread(target=ask) for _ in range(NUM_LONG)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(told, [(504, True)] * NUM_LONG)
        time.sleep(1)  # What was begun has come to its end.
        answers = {kind: server.metric("winnow:http_answers_total",
                                       f'status="{kind}"')
                   for kind in ("4xx", "5xx")}
        self.assertEqual(answers, {"4xx": 0, "5xx": NUM_LONG})
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
