#!/usr/bin/env python3
"""A prompt's tokens are the same whoever is beside it.

    serve_batch_test.py PATH_TO_WINNOW

Alone; and among 64 streams of a device that holds a few of them, so that they
give way and come back, while neighbours leave in the middle.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import unittest

from serve_process import ROOT, Server, wait_until

sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

WINNOW = ""
NUM_STREAMS = 64
NUM_PROMPTS = 8
# Every fourth leaves, so that each prompt is beside those that do.
LEAVES = 4
COMPLETIONS = "/v1/completions"
# 96 pages of 32 tokens, of which a stream wants 5 to 11.
CROWDED = ["--device-kv", "9MiB", "--host-kv", "64MiB", "--max-num-seqs", "64"]


def make_asks() -> list[dict]:
    """Greedy ones and, of the same prompts, ones that are drawn."""
    text = make_record("niah", 4096, 1, 0).context.split()
    draw = random.Random(5)
    asks = []
    for i in range(NUM_PROMPTS):
        first = draw.randrange(len(text) - 300)
        words = text[first:first + draw.randrange(40, 260)]
        asks.append({"prompt": " ".join(words), "max_tokens": 96,
                     "ignore_eos": True, "seed": i,
                     "temperature": 0 if i % 2 == 0 else 1})
    return asks


class BatchTest(unittest.TestCase):

    def crowd(self, server: Server, asks: list[dict]) -> dict[int, str]:
        """What each that stayed was told."""
        told, faults = {}, []

        def stay(i: int):
            try:
                told[i] = "".join(event["choices"][0]["text"] for event in
                                  server.stream(**asks[i % NUM_PROMPTS]))
            except Exception as fault:  # Said by the test's own thread.
                faults.append(f"{i}: {fault!r}")

        def leave(i: int):
            try:
                client = server.open_stream(**asks[i % NUM_PROMPTS])
                seen = b""
                while seen.count(b"data: ") < i % 29:
                    seen += client.recv(1 << 12)
                client.close()
            except Exception as fault:
                faults.append(f"{i}: {fault!r}")

        clients = [threading.Thread(
            target=leave if (i + i // NUM_PROMPTS) % LEAVES == 0 else stay,
            args=(i,)) for i in range(NUM_STREAMS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(faults, [])
        return told

    def check(self, *flags: str):
        asks = make_asks()
        server = Server(WINNOW, *flags, "--max-num-seqs", "1")
        alone = [server.complete(**ask)["choices"][0]["text"] for ask in asks]
        self.assertEqual(server.end(), 0)
        self.assertEqual(len(set(alone)), NUM_PROMPTS)
        server = Server(WINNOW, *flags, *CROWDED)
        # Behind so many short answers little is expected of the next ones, so
        # that more start than have room to end.
        for _ in range(NUM_STREAMS):
            server.complete(prompt="the man", max_tokens=1)
        for _ in range(2):  # The second time with what the first has left.
            told = self.crowd(server, asks)
            self.assertEqual(len(told), NUM_STREAMS - NUM_STREAMS // LEAVES)
            for i, text in told.items():
                self.assertEqual(text, alone[i % NUM_PROMPTS],
                                 json.dumps(asks[i % NUM_PROMPTS])[:200])
        wait_until(lambda: server.metric("vllm:num_requests_running") == 0,
                   "all have left")
        self.assertGreater(server.metric("vllm:num_preemptions_total"), 0)
        self.assertGreater(
            server.metric("vllm:request_success_total",
                          'finished_reason="abort"'), 0)
        self.assertEqual(server.end(), 0)

    def test_float32(self):
        self.check("--dtype", "float32")

    def test_bfloat16_batch_invariant(self):
        self.check("--dtype", "bfloat16", "--batch-invariant")

    def test_bfloat16_batch_invariant_by_a_selector(self):
        self.check("--dtype", "bfloat16", "--batch-invariant", "--select",
                   "quest:budget=128")


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
