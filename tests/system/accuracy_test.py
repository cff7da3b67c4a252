#!/usr/bin/env python3
"""lab/accuracy through a real program.

    accuracy_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WINNOW = ""


def accuracy(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "lab/accuracy", ROOT / "lab/models/winnow-lab",
         *map(str, arguments)],
        capture_output=True, text=True, timeout=240)


class AccuracyTest(unittest.TestCase):
    def test_rows_take_the_place_of_those_that_were_there(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "accuracy.json"
            old = {"task": "vt", "length": 1024, "seed": 1000, "n": 7,
                   "exact": 0.5, "exact_interval": [0.1, 0.9],
                   "free_token_accuracy": 0.25}
            other = {**old, "length": 2048}
            out.write_text(json.dumps({"rows": [other, old]}))
            ran = accuracy("--winnow", WINNOW, "--lengths", "1K", "--tasks",
                           "vt", "--out", out, "--", "--limit", "5")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            rows = json.loads(out.read_text())["rows"]
            self.assertEqual([row["length"] for row in rows], [1024, 2048])
            self.assertEqual(rows[1], other)
            self.assertEqual(rows[0]["n"], 5)
            self.assertEqual(rows[0]["questions_a_document"], 5)
            self.assertGreater(rows[0]["free_token_accuracy"], 0.9)
            self.assertEqual(set(rows[0]) - set(old),
                             {"questions_a_document", "token_accuracy",
                              "commit", "on"})
            table = accuracy("--table", "--out", out).stdout.splitlines()
            self.assertEqual(table[0], "| task | 1K | 2K |")
            self.assertTrue(
                table[2].endswith("| 0.250 / 0.50 (0.10-0.90) |"), table[2])

    def test_what_is_wrong_is_said_and_nothing_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "accuracy.json"
            ran = accuracy("--tasks", "vt,nope", "--out", out)
            self.assertEqual(ran.returncode, 2)
            self.assertIn("--tasks: nope is none of niah,", ran.stderr)
            ran = accuracy("--lengths", "4X", "--out", out)
            self.assertEqual(ran.returncode, 2)
            self.assertIn("--lengths: not a whole number: '4X'", ran.stderr)
            ran = accuracy("--winnow", WINNOW, "--lengths", "1K", "--tasks",
                           "vt", "--out", out, "--", "--limit", "0")
            self.assertEqual(ran.returncode, 2)
            self.assertIn("--limit", ran.stderr)
            self.assertFalse(out.exists())


if __name__ == "__main__":
    WINNOW = sys.argv.pop()
    unittest.main()
