#!/usr/bin/env python3
"""`winnow generate --kv-disk`, killed in the middle of anything, asked again.

    disk_kill_test.py PATH_TO_WINNOW

Kills 6 processes, or as many as the environment's WINNOW_PROGRAM_KILLS says.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

WINNOW = ""
MODEL = str(ROOT / "lab/models/winnow-lab")
NUM_KILLS = int(os.environ.get("WINNOW_PROGRAM_KILLS", "6"))
# The disk holds fewer texts than there are, so that one process writes over
# what another one wrote; those of one process fit.
NUM_TEXTS, TEXTS_AT_ONCE = 6, 3
DISK_SIZE = "10MiB"


class DiskKillTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.random = random.Random(11)
        for text in range(NUM_TEXTS):
            prompt = make_record("niah", 1024, 9, text).prompt
            (self.folder / f"text{text}").write_text(prompt)

    def command(self, texts: list[int], has_disk: bool = True) -> list[str]:
        """What is written of a text is under way while the next one is read."""
        arguments = []
        for text in texts:
            arguments += ["--prompt-file", self.folder / f"text{text}"]
        if has_disk:
            arguments += ["--kv-disk", self.folder / "kv", "--kv-disk-size",
                          DISK_SIZE]
        return [str(part) for part in (
            WINNOW, "generate", MODEL, *arguments, "--max-num-seqs", "1",
            "--max-tokens", "8", "--logprobs", "2", "--batch-invariant",
            "--json", "--quiet")]

    def ask(self, texts: list[int], has_disk: bool = True) -> list[dict]:
        done = subprocess.run(self.command(texts, has_disk), text=True,
                              capture_output=True, timeout=240)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def kill_at_any_time(self, texts: list[int], most_seconds: float) -> bool:
        """False where it had ended by then."""
        process = subprocess.Popen(self.command(texts),
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        time.sleep(self.random.uniform(0, most_seconds))
        process.kill()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(errors, b"")
        return process.returncode != 0

    def any_texts(self) -> list[int]:
        return self.random.sample(range(NUM_TEXTS), TEXTS_AT_ONCE)

    def ask_for_what_is_right(self, texts: list[int]) -> list[bool]:
        """Whether each begins with pages of the disk."""
        answers = self.ask(texts)
        self.assertEqual([answer["logprobs"] for answer in answers],
                         [self.expected[text] for text in texts])
        return [answer["kv"]["fetched_bytes"] > 0 for answer in answers]

    def test_what_killed_ones_leave_is_whole(self):
        self.expected = [
            answer["logprobs"]
            for answer in self.ask(list(range(NUM_TEXTS)), has_disk=False)]
        start = time.monotonic()
        self.assertFalse(any(self.ask_for_what_is_right(self.any_texts())))
        seconds = time.monotonic() - start
        num_killed, num_found = 0, 0
        for attempt in range(20 * NUM_KILLS):
            if num_killed == NUM_KILLS:
                break
            with self.subTest(attempt=attempt):
                if attempt % 4 == 3:  # One that makes the folder.
                    shutil.rmtree(self.folder / "kv")
                if not self.kill_at_any_time(self.any_texts(), seconds):
                    continue
                num_killed += 1
                num_found += sum(self.ask_for_what_is_right(self.any_texts()))
            if num_killed % 20 == 0:
                print(f"{num_killed} of {NUM_KILLS} kills", flush=True)
        # Else nothing was shown.
        self.assertEqual(num_killed, NUM_KILLS)
        self.assertGreater(num_found, 0)
        texts = self.any_texts()
        self.ask_for_what_is_right(texts)
        self.assertTrue(all(self.ask_for_what_is_right(texts)))


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
