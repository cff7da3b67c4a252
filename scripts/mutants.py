#!/usr/bin/env python3
"""Shows that the oracle tests can fail: plants each bug of tests/mutants/.

    scripts/mutants.py [PATTERN]    only the patches whose path has PATTERN

A patch is a unified diff against the repository with a first line
`# test: REGEX`; ctest's tests of that name must pass without it and at least
one must fail with it. Works on a copy of the tree under build/mutants.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build/mutants/tree"
BUILD = ROOT / "build/mutants/build"
JOBS = str(os.cpu_count() or 1)


def run(*command: str | Path, cwd: Path = TREE) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], cwd=cwd, text=True,
                          capture_output=True)


def must(done: subprocess.CompletedProcess, what: str) -> None:
    if done.returncode != 0:
        sys.exit(f"mutants: {what} failed:\n{done.stdout}{done.stderr}")


def copy_tree() -> None:
    """Brings the copy up to date; unchanged files keep their times."""
    listed = run("git", "ls-files", "-z", "--cached", "--others",
                 "--exclude-standard", cwd=ROOT).stdout.split("\0")
    wanted = {name for name in listed if name and (ROOT / name).is_file()}
    for old in [p for p in TREE.rglob("*") if p.is_file()]:
        if str(old.relative_to(TREE)) not in wanted:
            old.unlink()
    for name in wanted:
        source, target = ROOT / name, TREE / name
        if (not target.exists()
                or source.read_bytes() != target.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def build(targets: list[str]) -> subprocess.CompletedProcess:
    return run("cmake", "--build", BUILD, "-j", JOBS, "--target", *targets)


def targets_of(regex: str) -> list[str]:
    """The test programs that hold the tests of that name."""
    shown = run("ctest", "--test-dir", BUILD, "-R", regex,
                "--show-only=json-v1")
    tests = json.loads(shown.stdout)["tests"]
    return sorted({Path(test["command"][0]).name for test in tests})


def passes(regex: str) -> bool:
    return run("ctest", "--test-dir", BUILD, "-R", regex, "-j", JOBS,
               "--no-tests=error").returncode == 0


def check(patch: Path) -> str | None:
    """Why the mutant is not a proof, or None where it is one."""
    header = patch.read_text().split("\n", 1)[0]
    match = re.fullmatch(r"# test: (.+)", header)
    if not match:
        return "the first line must be '# test: REGEX'"
    regex = match[1]
    targets = targets_of(regex)
    if not targets:
        return f"no test is named {regex}"
    if not passes(regex):
        return f"{regex} fails without the bug"
    applied = run("git", "apply", "--unsafe-paths", "--directory",
                  TREE.relative_to(ROOT), patch, cwd=ROOT)
    if applied.returncode != 0:
        return f"does not apply: {applied.stderr.strip()}"
    try:
        built = build(targets)
        if built.returncode != 0:
            return f"does not build:\n{built.stdout[-2000:]}"
        return f"{regex} passes with the bug" if passes(regex) else None
    finally:
        copy_tree()
        must(build(targets), "the build without the bug")


def main() -> int:
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    patches = [p for p in sorted((ROOT / "tests/mutants").rglob("*.patch"))
               if pattern in str(p)]
    TREE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    must(run("cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja",
             "-DCMAKE_BUILD_TYPE=Release",
             f"-DWINNOW_ONEDNN_DIR={ROOT / 'build/onednn'}"), "configure")
    print("mutants: building without a bug", flush=True)
    must(build(["all"]), "the build")
    num_failed = 0
    for patch in patches:
        reason = check(patch)
        num_failed += reason is not None
        name = patch.relative_to(ROOT / "tests/mutants")
        print(f"{name}: {'caught' if reason is None else reason}", flush=True)
    print(f"{len(patches) - num_failed} passed, {num_failed} failed")
    return int(num_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
