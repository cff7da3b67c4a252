"""What the tests of the program as its users meet it share.

A script of tests takes the program's path before unittest's own arguments.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import own_cache  # noqa: F401
from sanitized import allowed_seconds

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # For lab.

MODEL = str(ROOT / "lab/models/winnow-lab")
LONGEST = json.loads(Path(MODEL, "config.json").read_text())[
    "max_position_embeddings"]
USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


class ProgramCase(unittest.TestCase):
    """A test with a folder of its own."""

    program = ""  # its path

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_error(self, done, status: int, *words: str):
        """One line on standard error that has the words, nothing else."""
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("winnow: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def copy_of_model(self) -> Path:
        copy = self.folder / "model"
        shutil.copytree(MODEL, copy)
        copy.chmod(0o755)
        for path in copy.iterdir():
            path.chmod(0o644)
        return copy


def winnow(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([ProgramCase.program, *map(str, arguments)],
                          text=True, capture_output=True,
                          timeout=allowed_seconds(ProgramCase.program, 240),
                          **options)


def run_tests():
    ProgramCase.program = sys.argv.pop(1)
    unittest.main()
