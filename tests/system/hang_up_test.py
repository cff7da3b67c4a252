#!/usr/bin/env python3
"""SIGHUP, which a terminal that closes sends: as SIGTERM, and under nohup
nothing.

    hang_up_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import unittest

from program_case import INTERRUPTED, MODEL, ProgramCase
from serve_process import Server

PAGE_TOKENS = 32


def ignore_hang_ups():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


class HangUpTest(ProgramCase):

    def test_a_server_answers_who_waits_and_writes_to_its_disk(self):
        flags = ["--kv-disk", str(self.folder / "kv"), "--kv-disk-size",
                 "64MiB"]
        server = Server(self.program, *flags)
        client = server.open_stream(prompt="night " * 100, max_tokens=150,
                                    ignore_eos=True)
        # A shell passes on what it got, and a session's end sends another.
        for _ in range(3):
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.02)
        text = b""
        while piece := client.recv(1 << 16):
            text += piece
        client.close()
        self.assertIn(b"[DONE]", text)
        self.assertEqual(server.wait(), 0)
        server = Server(self.program, *flags)
        usage = server.complete(prompt="night " * 100, max_tokens=1)["usage"]
        self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"],
                                usage["prompt_tokens"] - PAGE_TOKENS)
        self.assertEqual(server.end(), 0)

    def test_another_signal_behind_it_ends_at_once(self):
        server = Server(self.program)
        client = server.open_stream(prompt="The", max_tokens=4000,
                                    ignore_eos=True)
        self.assertEqual(server.end(signal.SIGHUP, signal.SIGTERM), INTERRUPTED)
        client.close()

    def test_what_nohup_starts_outlives_its_terminal(self):
        server = Server(self.program, popen={"preexec_fn": ignore_hang_ups})
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        server.complete(prompt="The", max_tokens=1)
        self.assertEqual(server.end(), 0)

    def generate(self, **options) -> subprocess.Popen:
        process = subprocess.Popen(
            [self.program, "generate", MODEL, "--prompt", "The", "--max-tokens",
             "400", "--max-model-len", "1K", "--threads", "1", "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        process.stdout.read(1)  # Something is generated.
        process.send_signal(signal.SIGHUP)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        return process

    def test_generate_writes_what_there_is(self):
        process = self.generate()
        self.assertEqual(process.wait(60), INTERRUPTED)
        process = self.generate(preexec_fn=ignore_hang_ups)
        self.assertEqual(process.wait(60), 0)


if __name__ == "__main__":
    ProgramCase.program = sys.argv.pop(1)
    unittest.main()
