"""What sanitize.py makes of what compute-sanitizer says, by one that is none."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("sanitize.py")
# Says what it was asked, and then what the test wants to have been said.
FAKE = """#!/bin/sh
echo "asked: $* step $WINNOW_SEED_STEP"
{body}
"""
PASSED = """echo '[ RUN      ] A.b/Cuda'
echo '[       OK ] A.b/Cuda (3 ms)'
"""


class SanitizeTest(unittest.TestCase):
    def sanitize(self, body: str, *flags: str) -> tuple[int, str, str]:
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder) / "compute-sanitizer"
            fake.write_text(FAKE.format(body=body))
            fake.chmod(0o755)
            done = subprocess.run(
                [sys.executable, SCRIPT, "/bin/true", "--logs", folder, *flags],
                env={**os.environ, "COMPUTE_SANITIZER": str(fake)},
                capture_output=True, text=True, check=False)
            logs = "".join(log.read_text() for log in
                           sorted(Path(folder).glob("*.log")))
            return done.returncode, done.stdout, logs

    def test_all_four_tools_run(self) -> None:
        summary = "echo '========= ERROR SUMMARY: 0 errors'"
        status, said, logs = self.sanitize(PASSED + summary)
        self.assertEqual(status, 0, said)
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
            self.assertIn(f"--tool {tool}", logs)
            self.assertRegex(said, f"{tool} +ok .*1 tests passed")
        self.assertIn("step 20", logs)

    def test_a_finding_is_a_failure(self) -> None:
        status, said, _ = self.sanitize(
            PASSED + "echo '========= ERROR SUMMARY: 3 errors'; exit 86",
            "--tools", "memcheck")
        self.assertEqual(status, 1)
        self.assertRegex(said, "memcheck +NOT .*3 findings")

    def test_a_hazard_is_a_failure(self) -> None:
        hazards = "echo '========= RACECHECK SUMMARY: 2 hazards displayed'"
        status, said, _ = self.sanitize(PASSED + hazards, "--tools",
                                        "racecheck")
        self.assertEqual(status, 1)
        self.assertIn("2 findings", said)

    def test_a_test_that_fails_is_a_failure(self) -> None:
        status, said, _ = self.sanitize(
            "echo '[  FAILED  ] A.b/Cuda (3 ms)';"
            "echo '========= ERROR SUMMARY: 0 errors'; exit 1",
            "--tools", "synccheck")
        self.assertEqual(status, 1)
        self.assertIn("1 failed", said)

    def test_a_device_that_is_not_there_is_a_failure(self) -> None:
        status, said, _ = self.sanitize("exit 255", "--tools", "initcheck")
        self.assertEqual(status, 1)
        self.assertIn("status 255", said)

    def test_the_limit_names_the_test_that_it_ended(self) -> None:
        status, said, _ = self.sanitize(
            PASSED + "echo '[ RUN      ] C.d/Cuda'; sleep 30", "--tools",
            "memcheck", "--limit", "1")
        self.assertEqual(status, 1)
        self.assertIn("the limit ended it in C.d/Cuda", said)


if __name__ == "__main__":
    unittest.main()
