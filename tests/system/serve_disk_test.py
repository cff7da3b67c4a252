#!/usr/bin/env python3
"""`winnow serve --kv-disk`: prompts that outlive the server, however it ends,
and a disk that fails while it runs.

    serve_disk_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from serve_process import MODEL, Server, wait_until

WINNOW = ""
PAGE_TOKENS = 32


class SilentDisk:
    """While it is entered, the server's thread for the disk stands still, as
    beside a disk that never answers."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
    WAIT_ALL = 0x40000000

    def __init__(self, server: Server):
        tasks = Path(f"/proc/{server.process.pid}/task")
        self.thread = next(int(task.name) for task in tasks.iterdir()
                           if (task / "comm").read_text() == "winnow-disk\n")

    def trace(self, request: int) -> bool:
        ptrace = ctypes.CDLL(None).ptrace
        ptrace.argtypes = [ctypes.c_long] * 4
        return ptrace(request, self.thread, 0, 0) == 0

    def __enter__(self):
        if not self.trace(self.SEIZE):
            raise unittest.SkipTest("no process may stop another's thread")
        assert self.trace(self.INTERRUPT)
        os.waitpid(self.thread, self.WAIT_ALL)
        return self

    def __exit__(self, *_):
        self.trace(self.DETACH)

    def has_ended(self) -> bool:
        """Whoever stopped it has to ask, or the process lingers."""
        return os.waitpid(self.thread, self.WAIT_ALL | os.WNOHANG)[0] != 0


class ServeDiskTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.kept = Path(folder.name, "kv")

    def start(self, *flags: str, **options: str) -> Server:
        # Bits are then those of who computed all of the prompt.
        return Server(WINNOW, "--kv-disk", str(self.kept), "--kv-disk-size",
                      "64MiB", "--batch-invariant", *flags, **options)

    def ask(self, server: Server, word="day", **more) -> tuple:
        """What it answered, and how many of the prompt's tokens were there."""
        answer = server.complete(prompt=f"{word} " * 300, max_tokens=8,
                                 ignore_eos=True, logprobs=2, **more)
        usage = answer["usage"]
        self.assertGreater(usage["prompt_tokens"], 3 * PAGE_TOKENS)
        return ([(choice["text"], choice["logprobs"]) for choice
                 in answer["choices"]],
                usage["prompt_tokens_details"]["cached_tokens"],
                # All whole pages, but for the last token.
                (usage["prompt_tokens"] - 1) // PAGE_TOKENS * PAGE_TOKENS)

    def assert_cold(self, asked: tuple):
        self.assertEqual(asked[1], 0)

    def assert_warm(self, asked: tuple, before: tuple):
        answer, cached, whole = asked
        self.assertEqual(cached, whole)
        self.assertEqual(answer, before[0])

    def await_written(self, server: Server):
        """While nobody asks: no page waits to be copied, none is under way."""
        def is_written():
            text = server.ask("GET", "/metrics")[2]
            figures = dict(line.rsplit(" ", 1) for line in text.splitlines()
                           if not line.startswith("#"))

            def figure(*words):
                return next(float(value) for name, value in figures.items()
                            if all(word in name for word in words))

            disk = ["winnow:kv_tier_bytes", 'tier="disk"']
            return (figure("vllm:kv_cache_usage_perc") == 0
                    and figure(*disk, 'state="held"') == 0
                    and figure(*disk, 'state="idle"') > 0)
        wait_until(is_written, "all is written")

    def lines_of_the_disk(self, server: Server) -> list:
        return [line for line in map(json.loads, filter(
            lambda line: line.startswith("{"), list(server.lines)))
            if line["event"] == "kv_disk"]

    def test_one_that_was_killed_comes_back_warm(self):
        server = self.start()
        first = self.ask(server)
        self.assert_cold(first)
        self.await_written(server)
        # In the middle of something else.
        client = server.open_stream(prompt="night " * 500, max_tokens=2000,
                                    ignore_eos=True)
        server.process.kill()
        self.assertEqual(server.wait(), -signal.SIGKILL)
        client.close()
        server = self.start()
        self.assert_warm(self.ask(server), first)
        self.assertEqual(self.lines_of_the_disk(server), [])
        self.assertEqual(server.end(), 0)

    def test_one_that_is_told_to_end_writes_first(self):
        server = self.start()
        first = self.ask(server)
        self.assertEqual(server.end(), 0)
        server = self.start()
        self.assert_warm(self.ask(server), first)
        self.assertEqual(self.lines_of_the_disk(server), [])
        self.assertEqual(server.end(), 0)

    def test_a_second_signal_does_not_wait_for_the_disk(self):
        server = self.start()
        first = self.ask(server)
        self.await_written(server)
        client = server.open_stream(prompt="night " * 500, max_tokens=2000,
                                    ignore_eos=True)
        self.assertEqual(server.end(signal.SIGTERM, signal.SIGTERM), 130)
        client.close()
        server = self.start()
        self.assert_warm(self.ask(server), first)
        self.assertEqual(server.end(), 0)

    def test_one_that_is_not_to_wait_ends_all_the_same(self):
        server = self.start("--kv-disk-drain-timeout", "0")
        first = self.ask(server)
        self.assertEqual(server.end(), 0)
        # Whatever there is of it.
        server = self.start()
        again = self.ask(server)
        self.assertEqual(again[0], first[0])
        self.assertEqual(server.end(), 0)

    def test_a_disk_that_never_answers_holds_up_no_end(self):
        server = self.start("--kv-disk-drain-timeout", "1")
        first = self.ask(server)
        self.await_written(server)
        with SilentDisk(server) as disk:
            self.assert_cold(self.ask(server, cache_salt="unwritten"))
            told = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            wait_until(disk.has_ended, "the server has ended", 20)
            self.assertLess(time.monotonic() - told, 10)
        self.assertEqual(server.wait(), 0)
        self.assertIn("--kv-disk-drain-timeout",
                      self.lines_of_the_disk(server)[-1]["message"])
        server = self.start()
        self.assert_warm(self.ask(server), first)
        self.assertEqual(server.end(), 0)

    def test_a_folder_is_one_servers(self):
        server = self.start()
        before = self.ask(server)
        done = subprocess.run(
            [WINNOW, "serve", MODEL, "--port", "0", "--dtype", "float32",
             "--kv-disk", self.kept, "--kv-disk-size", "64MiB"],
            text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(f"{self.kept}: another process keeps its KV there",
                      done.stderr)
        # It did the first no harm.
        self.assertEqual(self.ask(server)[0], before[0])
        self.assertEqual(server.end(), 0)
        server = self.start()
        self.assert_warm(self.ask(server), before)
        self.assertEqual(server.end(), 0)

    def test_tenants_are_apart(self):
        server = self.start()
        first = self.ask(server, cache_salt="one")
        self.assertEqual(server.end(), 0)
        server = self.start()
        for other in [{}, {"cache_salt": "other"}]:
            asked = self.ask(server, **other)
            self.assert_cold(asked)
            self.assertEqual(asked[0], first[0])
        self.assert_warm(self.ask(server, cache_salt="one"), first)
        self.assertEqual(server.end(), 0)

    def test_a_disk_that_takes_no_more(self):
        server = self.start()
        process = server.process.pid
        limits = resource.prlimit(process, resource.RLIMIT_FSIZE)
        # From now on each write to a file ends with an error.
        resource.prlimit(process, resource.RLIMIT_FSIZE, (0, limits[1]))
        self.assert_cold(self.ask(server))
        wait_until(lambda: self.lines_of_the_disk(server), "it says so")
        line = self.lines_of_the_disk(server)[0]
        self.assertEqual(line["level"], "warning")
        for words in [str(self.kept), "cannot write", "pages of KV"]:
            self.assertIn(words, line["message"])
        self.assertNotIn("day", line["message"])
        # It goes on, and so does the disk once it can.
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        resource.prlimit(process, resource.RLIMIT_FSIZE, limits)
        night = self.ask(server, "night")
        self.assertEqual(server.end(), 0)
        server = self.start()
        self.assert_warm(self.ask(server, "night"), night)
        self.assertEqual(server.end(), 0)

    def test_a_disk_that_has_lost_what_it_held(self):
        server = self.start()
        first = self.ask(server)
        self.assertEqual(server.end(), 0)
        server = self.start()
        os.truncate(self.kept / "blocks", 0)
        asked = self.ask(server)
        self.assert_cold(asked)
        self.assertEqual(asked[0], first[0])
        wait_until(lambda: self.lines_of_the_disk(server), "it says so")
        self.assertIn("cannot read",
                      self.lines_of_the_disk(server)[0]["message"])
        # What was computed again is written again.
        self.assertEqual(server.end(), 0)
        server = self.start()
        self.assert_warm(self.ask(server), first)
        self.assertEqual(server.end(), 0)

    def test_a_folder_that_changes_while_it_runs(self):
        server = self.start()
        first = self.ask(server)
        self.kept.chmod(0o500)
        for file in self.kept.iterdir():
            file.chmod(0o400)
        night = self.ask(server, "night")
        # What it holds open stays its own.
        shutil.rmtree(self.kept)
        self.assertEqual(self.ask(server)[0], first[0])
        self.assertEqual(self.ask(server, "night")[0], night[0])
        self.ask(server, "noon")
        self.assertEqual(server.end(), 0)
        server = self.start()
        asked = self.ask(server)
        self.assert_cold(asked)
        self.assertEqual(asked[0], first[0])
        self.assertEqual(server.end(), 0)

    def test_weights_that_change_while_it_runs_leave_nothing(self):
        model = self.kept.parent / "model"
        shutil.copytree(MODEL, model)
        weights = model / "model.safetensors"
        whole = weights.read_bytes()
        time.sleep(0.2)  # Nobody takes the file for being written.
        changed = bytearray(whole)
        # Behind the header: every byte of the last layers' weights.
        for at in range(len(changed) // 2, len(changed), 2):
            changed[at] ^= 0x55

        def write(content: bytes):
            with weights.open("r+b") as file:
                file.write(content)

        def start() -> Server:
            # As stored, so that the weights are read where they are mapped.
            return self.start("--dtype", "bfloat16",
                              model=str(model),
                              XDG_CACHE_HOME=str(self.kept.parent / "cache"))

        server = start()
        before = self.ask(server, cache_salt="before")
        self.await_written(server)
        write(changed)
        self.assert_cold(self.ask(server, cache_salt="day"))
        wait_until(lambda: self.lines_of_the_disk(server), "it says so")
        self.assert_cold(self.ask(server, cache_salt="night"))
        self.assertEqual(server.end(), 0)
        write(whole)
        lines = self.lines_of_the_disk(server)
        self.assertEqual(len(lines), 1, lines)
        for words in [str(weights), "has changed", "no more KV is kept",
                      "start again"]:
            self.assertIn(words, lines[0]["message"])

        server = start()
        self.assert_warm(self.ask(server, cache_salt="before"), before)
        day = self.ask(server, cache_salt="day")
        self.assert_cold(day)
        self.assert_cold(self.ask(server, cache_salt="night"))
        self.assertEqual(server.end(), 0)
        server = start()
        self.assert_warm(self.ask(server, cache_salt="day"), day)
        # It is told at the end at the latest: nothing waits longer.
        write(changed)
        os.utime(weights, ns=(0, 0))
        self.assert_cold(self.ask(server, cache_salt="noon"))
        self.assertEqual(server.end(), 0)
        write(whole)
        self.assertEqual(len(self.lines_of_the_disk(server)), 1)
        server = start()
        self.assert_cold(self.ask(server, cache_salt="noon"))
        self.assertEqual(server.end(), 0)

    def test_what_cannot_be(self):
        for flags, status, words in [
                (["--kv-disk-size", "1GiB"], 2,
                 ["--kv-disk-size needs --kv-disk"]),
                (["--kv-disk", self.kept, "--kv-disk-size", "much"], 2,
                 ["--kv-disk-size", "much"]),
                (["--kv-disk", self.kept, "--kv-disk-drain-timeout", "-1"], 2,
                 ["--kv-disk-drain-timeout", "-1"]),
                (["--kv-disk", self.kept / "missing/kv"], 1,
                 ["cannot make the folder", "missing/kv"])]:
            with self.subTest(flags):
                done = subprocess.run(
                    [WINNOW, "serve", MODEL, "--port", "0", *flags], text=True,
                    capture_output=True, timeout=120)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
