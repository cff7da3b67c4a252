#!/usr/bin/env python3
"""What a long prompt costs those who generate, and what the scheduler tells.

    serve_scheduler_test.py PATH_TO_WINNOW PATH_TO_ENGINE_TEST
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from serve_process import ROOT, Server, wait_until

sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

WINNOW = ""
ENGINE_TEST = ""
PROMPT_TOKENS = 16 << 10
TRIES = 3


class LongPromptTest(unittest.TestCase):

    def setUp(self):
        self.prompt = make_record("niah", PROMPT_TOKENS, 1, 0).prompt

    def gaps_beside_it(self, server: Server) -> list[float]:
        """Seconds between tokens of a stream while a prompt is read that no
        cache knows, and some before it."""
        self.num_asked = getattr(self, "num_asked", 0) + 1
        prompt = f"the man {self.num_asked} {self.prompt}"
        stream = server.open_stream(prompt="the man", max_tokens=14_000,
                                    ignore_eos=True)
        gaps, last, told = [], time.monotonic(), []

        def ask():
            told.append(server.complete(prompt=prompt, max_tokens=1)["usage"])

        asks = threading.Thread(target=ask)
        while not told:
            read = stream.recv(1 << 16)
            self.assertTrue(read)
            gaps.append(time.monotonic() - last)
            last += gaps[-1]
            if len(gaps) == 100:
                asks.start()
            if b"[DONE]" in read:  # A machine that is slower with prompts.
                break
        asks.join()
        stream.close()
        self.assertGreater(told[0]["prompt_tokens"], PROMPT_TOKENS // 2)
        self.assertLess(told[0]["prompt_tokens_details"]["cached_tokens"], 64)
        return gaps

    def test_a_long_prompt_does_not_freeze_a_stream(self):
        flags = ["--dtype", "auto", "--max-model-len", "32K",
                 "--max-num-seqs", "2"]
        server = Server(WINNOW, *flags, "--max-inter-token-time", "0")
        gaps = self.gaps_beside_it(server)
        self.assertEqual(server.end(), 0)
        frozen, usual = max(gaps), statistics.median(gaps[10:100])
        if frozen < 20 * usual:
            self.skipTest(f"a prompt holds up nobody: {frozen}, {usual}")
        # What a machine can keep to at all.
        bound = max(frozen / 10, 5 * usual)
        server = Server(WINNOW, *flags, "--max-inter-token-time",
                        f"{1000 * bound:.3f}")
        # At first it does not know what rows cost; and a machine that others
        # use stalls at times.
        longest = []
        while len(longest) < TRIES and (
                not longest or longest[-1] >= frozen / 2):
            longest.append(max(self.gaps_beside_it(server)))
        self.assertLess(longest[-1], frozen / 2,
                        f"bound {bound}, usual {usual}, longest {longest}")
        self.assertEqual(server.end(), 0)

    def test_steps_are_bounded_unasked(self):
        server = Server(WINNOW, "--max-model-len", "8K")
        stream = server.open_stream(prompt="the man", max_tokens=8000,
                                    ignore_eos=True)
        server.complete(prompt="the man has a dog", max_tokens=1)
        self.assertGreater(server.metric("winnow:bounded_steps_total",
                                         'chunks="yes"'), 0)
        stream.close()
        self.assertEqual(server.end(), 0)

    def test_a_bound_that_nothing_keeps_starves_nobody(self):
        server = Server(WINNOW, "--max-model-len", "8K",
                        "--max-inter-token-time", "0.001")
        stream = server.open_stream(prompt="the man", max_tokens=8000,
                                    ignore_eos=True)
        prompt = " ".join(self.prompt.split()[:2000])
        usage = server.complete(prompt=prompt, max_tokens=4)["usage"]
        self.assertEqual(usage["completion_tokens"], 4)
        stream.close()
        self.assertEqual(server.end(), 0)


class TraceTest(unittest.TestCase):

    def test_what_is_recorded_is_decided_again(self):
        words = make_record("niah", 4096, 1, 0).context.split()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.jsonl"
            server = Server(WINNOW, "--scheduler-trace", str(path),
                            "--device-kv", "9MiB", "--host-kv", "64MiB",
                            "--max-num-seqs", "8",
                            "--max-num-batched-tokens", "256",
                            "--max-inter-token-time", "5")
            for _ in range(16):  # Little is expected of the next ones.
                server.complete(prompt="the man", max_tokens=1)
            clients = [threading.Thread(
                target=server.stream, kwargs={
                    "prompt": " ".join(words[20 * i:25 * i + 200]),
                    "max_tokens": 400, "ignore_eos": True, "priority": i % 3})
                for i in range(16)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            server.complete(504, prompt="the man", max_tokens=1400, n=4,
                            ignore_eos=True, timeout=0.1)
            self.assertGreater(server.metric("winnow:bounded_steps_total",
                                             'chunks="yes"'), 0)
            self.assertGreaterEqual(
                server.metric("winnow:step_time_margin"), 1)
            self.assertEqual(server.end(), 0)
            lines = [json.loads(line)
                     for line in path.read_text().splitlines()]
            made = [line for line in lines if line["decision"] == "schedule"]
            self.assertTrue(any(line["cost"]["row_ms"] for line in made))
            self.assertTrue(any(line.get("victim") for line in lines),
                            "nobody gave way")
            self.assertTrue(any(line.get("expired") for line in lines),
                            "nobody was late")
            replay = subprocess.run(
                [ENGINE_TEST, "--gtest_filter=ScheduleTraceTest."
                 "ARecordedTraceIsDecidedAgainAsItWas"],
                env={**os.environ, "WINNOW_SCHEDULER_TRACE": str(path)},
                capture_output=True, text=True, timeout=120)
            self.assertEqual(replay.returncode, 0, replay.stdout[-2000:])

    def test_a_file_that_is_full_is_told_and_grows_no_more(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.jsonl"
            server = Server(WINNOW, "--scheduler-trace", str(path),
                            "--max-scheduler-trace-size", "8KiB")
            server.complete(prompt="the man", max_tokens=64, ignore_eos=True)
            told = [line for line in server.lines
                    if "--max-scheduler-trace-size" in line]
            self.assertEqual(len(told), 1, server.lines)
            text = path.read_text()
            self.assertLessEqual(len(text), 8 << 10)
            for line in text.splitlines():
                json.loads(line)
            server.complete(prompt="the man", max_tokens=64, ignore_eos=True)
            self.assertEqual(path.read_text(), text)
            self.assertEqual(server.end(), 0)

    def test_a_file_that_cannot_be_is_told_at_start(self):
        with self.assertRaisesRegex(AssertionError,
                                    "--scheduler-trace /nowhere/x: "):
            Server(WINNOW, "--scheduler-trace", "/nowhere/x")

    def test_a_disk_that_is_full_ends_the_trace_alone(self):
        server = Server(WINNOW, "--scheduler-trace", "/dev/full")
        for _ in range(2):
            server.complete(prompt="the man", max_tokens=8)
        wait_until(lambda: any("--scheduler-trace /dev/full: " in line
                               for line in server.lines), "it is told")
        self.assertEqual(server.end(), 0)
        told = [line for line in server.lines if "warning: --scheduler" in line]
        self.assertEqual(len(told), 1)


if __name__ == "__main__":
    ENGINE_TEST = sys.argv.pop(2)
    WINNOW = sys.argv.pop(1)
    unittest.main()
