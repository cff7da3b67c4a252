#!/usr/bin/env python3
"""Runs the conformance suite on a GPU under compute-sanitizer.

    sanitize.py PROGRAM [--tools memcheck,racecheck,initcheck,synccheck]
                [--filter FILTER] [--limit SECONDS] [--logs FOLDER]

PROGRAM is backend_cuda_test (or another test program of GoogleTest). A tool has
every so many of a test's rounds, as it slows kernels down, so that each ends
within two minutes on an H200; where the limit ends it, the tests that it had
not reached are named. Exits with 1 where a tool has found something, a test
failed, or a limit was met.

compute-sanitizer is $COMPUTE_SANITIZER, that of PATH or of a toolkit under
/usr/local, or the one that `scripts/bootstrap sanitizer` puts into
.tools/sanitizer (28 MB, to be carried with PROGRAM to a machine without).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Of a test's rounds a tool has every so many-th (WINNOW_SEED_STEP).
SEED_STEPS = {"memcheck": 6, "racecheck": 20, "initcheck": 6, "synccheck": 6}
OPTIONS = {"racecheck": ["--racecheck-report", "all"]}
# Whose work is too much for a slow device: as src/backend/cuda/emulated has it.
SLOW = ("*.BitsDoNotDependOnTheWorkAtHand/*:*.DrawsByProbability/*"
        ":*/ReadConformanceTest.BitsDoNotDependOnChunks/*")
FOUND = 86  # what compute-sanitizer exits with where it has found something


def find_sanitizer() -> str | None:
    candidates = [os.environ.get("COMPUTE_SANITIZER"),
                  shutil.which("compute-sanitizer"),
                  *sorted(map(str, Path("/usr/local").glob(
                      "cuda*/bin/compute-sanitizer")), reverse=True),
                  str(ROOT / ".tools/sanitizer/compute-sanitizer")]
    return next((c for c in candidates if c and os.access(c, os.X_OK)), None)


def run(command: list[str], environment: dict[str, str], limit: float,
        log: Path) -> int | None:
    """The exit status; None where the limit ended it."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out,
                                   stderr=subprocess.STDOUT, env=environment,
                                   start_new_session=True)
        try:
            return process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return None


def verdict(status: int | None, text: str) -> tuple[bool, str]:
    """Whether all is well, and what is said of it."""
    begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)
    passed = re.findall(r"^\[       OK \] (\S+)", text, re.M)
    failed = re.findall(r"^\[  FAILED  \] (\S+)[^\n]* \(\d+ ms\)", text, re.M)
    found = [int(n) for n in re.findall(r"ERROR SUMMARY: (\d+) error", text)]
    found += [int(n) for n in re.findall(
        r"RACECHECK SUMMARY: (\d+) hazard", text)]
    said = f"{len(passed)} tests passed, {len(failed)} failed"
    if found:
        said += f", {sum(found)} findings"
    if status is None:
        return False, said + f"; the limit ended it in {(begun or ['none'])[-1]}"
    if status == 0 and not failed and found and passed:
        return sum(found) == 0, said
    why = "findings" if status == FOUND else f"status {status}"
    return False, f"{said}; {why}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--tools", default=",".join(SEED_STEPS))
    parser.add_argument("--filter", default=f"-{SLOW}")
    parser.add_argument("--limit", type=float, default=150)
    parser.add_argument("--logs", type=Path, default=Path("."))
    given = parser.parse_args()
    sanitizer = find_sanitizer()
    if sanitizer is None:
        sys.exit("sanitize: no compute-sanitizer: set COMPUTE_SANITIZER, or "
                 "run scripts/bootstrap sanitizer")
    print(f"sanitize: {sanitizer}", flush=True)
    given.logs.mkdir(parents=True, exist_ok=True)
    all_is_well = True
    for tool in given.tools.split(","):
        environment = dict(os.environ)
        environment.setdefault("WINNOW_SEED_STEP",
                               str(SEED_STEPS.get(tool, 6)))
        command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND),
                   *OPTIONS.get(tool, []), str(given.program.resolve()),
                   f"--gtest_filter={given.filter}"]
        log = given.logs / f"sanitize-{tool}.log"
        start = time.monotonic()
        status = run(command, environment, given.limit, log)
        took = time.monotonic() - start
        is_well, said = verdict(status, log.read_text(errors="replace"))
        all_is_well = all_is_well and is_well
        mark = "ok" if is_well else "NOT"
        print(f"{tool:<10} {mark:<4} {took:6.1f} s  {said}  ({log})",
              flush=True)
    return 0 if all_is_well else 1


if __name__ == "__main__":
    sys.exit(main())
