#!/usr/bin/env python3
"""Shows that the tests can fail: plants each bug of tests/mutants/ in turn.

    scripts/mutants.py [--only FOLDER] [--at COMMIT] [--jobs N]

A mutant is a unified diff, tests/mutants/MODULE/NOUN/NAME.patch, whose first
line is `# test: PROGRAM FILTER`: that test program, with that filter of
GoogleTest, must pass without the bug and fail, stop or hang with it.

Works on copies of the tree under build/mutants, one for each of two or more
workers, and never writes into the checkout. A copy lies as deep as the
checkout's own build folders do, so that ccache knows what was compiled there.
Each source is compiled alone: a bug costs one, and the first run all of them.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests/mutants"
WORK = ROOT / "build/mutants"
LONG_AGO = 946684800  # 2000-01-01: older than whatever is built from it
HEADER = re.compile(r"# test: (\w+) (\S+)\n# ")
# Rust without its slow last steps: a bug is none of the optimiser's.
QUICKLY = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1",
           "CARGO_PROFILE_RELEASE_LTO": "off",
           "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
           "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1", "CARGO_INCREMENTAL": "1"}
# Whose libraries of others take minutes, and no compiler cache knows them.
DEAR = {"text_test"}
# A hang counts as caught; no test takes this many times as long as before.
SLOWDOWN, LEAST_LIMIT_S = 20, 30


@dataclass
class Mutant:
    path: Path
    name: str
    program: str
    filter: str


@dataclass
class Verdict:
    mutant: Mutant
    caught: bool
    how: str
    seconds: float


class Broken(Exception):
    """Something fails without a bug."""


def run(*command: str | Path, cwd: Path, timeout: float | None = None,
        **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], cwd=cwd, text=True,
                          capture_output=True, timeout=timeout,
                          errors="replace", env=os.environ | environment)


def read_mutants(only: str) -> list[Mutant]:
    mutants = []
    for path in sorted(PATCHES.rglob("*.patch")):
        name = str(path.relative_to(PATCHES).with_suffix(""))
        if not (name + "/").startswith(only.rstrip("/") + "/") and only:
            continue
        match = HEADER.match(path.read_text())
        if not match:
            sys.exit(f"mutants: {name}: must begin with the lines '# test: "
                     "PROGRAM FILTER' and '# what the bug is'")
        mutants.append(Mutant(path, name, match[1], match[2]))
    return mutants


def sources_at(commit: str | None) -> dict[str, bytes]:
    """Every file of the checkout as it stands, or as it was at a commit."""
    if commit is None:
        listed = run("git", "ls-files", "-z", "--cached", "--others",
                     "--exclude-standard", cwd=ROOT).stdout.split("\0")
        return {name: (ROOT / name).read_bytes() for name in listed
                if name and (ROOT / name).is_file()}
    folder = WORK / "commit"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True,
                            capture_output=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=packed, check=True)
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


class Tree:
    """One copy of the sources with a build folder of its own."""

    def __init__(self, index: int, sources: dict[str, bytes], jobs: int):
        self.root = WORK / f"tree{index}"
        self.build_folder = self.root / "build/release"
        self.sources = sources
        self.jobs = jobs
        self.programs: dict[str, Path] = {}  # built without a bug
        self.seconds: dict[tuple[str, str], float] = {}  # of a passing filter

    def prepare(self) -> None:
        """Brings the copy up to date: an earlier run may have left a bug."""
        is_new = not self.build_folder.exists()
        for path in self.root.rglob("*"):
            relative = path.relative_to(self.root)
            if relative.parts[0] == "build" or not path.is_file():
                continue
            if str(relative) not in self.sources:
                path.unlink()
        for name, content in self.sources.items():
            path = self.root / name
            if path.is_file() and path.read_bytes() == content:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            if os.access(ROOT / name, os.X_OK):
                path.chmod(0o755)
            if is_new:
                os.utime(path, (LONG_AGO, LONG_AGO))
        self.must(run("cmake", "-S", self.root, "-B", self.build_folder, "-G",
                      "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                      f"-DWINNOW_ONEDNN_DIR={ROOT / 'build/onednn'}",
                      cwd=self.root), "configure")

    @staticmethod
    def must(done: subprocess.CompletedProcess, what: str) -> None:
        if done.returncode != 0:
            raise Broken(f"FAILS WITHOUT A BUG: {what}\n"
                         f"{(done.stdout + done.stderr)[-4000:]}")

    def build(self, program: str) -> subprocess.CompletedProcess:
        return run("cmake", "--build", self.build_folder, "-j", str(self.jobs),
                   "--target", program, cwd=self.root,
                   **QUICKLY)

    def test(self, program: str, only: str,
             limit_s: float) -> subprocess.CompletedProcess:
        return run(self.programs[program], f"--gtest_filter={only}",
                   "--gtest_fail_fast", cwd=self.root, timeout=limit_s)

    def require_pass(self, mutant: Mutant) -> None:
        """The test without the bug, once: it passes, and so long it takes."""
        key = (mutant.program, mutant.filter)
        if key in self.seconds:
            return
        # What stands there may have been built with the bug before.
        self.must(self.build(mutant.program), f"building {mutant.program}")
        self.programs[mutant.program] = next(
            path for path in self.build_folder.rglob(mutant.program)
            if path.is_file())
        start = time.monotonic()
        done = self.test(*key, limit_s=600)
        self.must(done, f"{mutant.program} {mutant.filter}")
        if re.search(r"\[=+\] 0 tests", done.stdout):
            raise Broken(f"NO TEST: {mutant.program} {mutant.filter}")
        self.seconds[key] = time.monotonic() - start

    def try_mutant(self, mutant: Mutant) -> tuple[bool, str]:
        """Whether the bug is caught, and by what; or why it is no mutant."""
        # Outside of a repository, git takes a patch for what it is.
        applied = run("git", "apply", mutant.path, cwd=self.root,
                      GIT_CEILING_DIRECTORIES=str(WORK))
        if applied.returncode != 0:
            return False, f"NO LONGER APPLIES: {applied.stderr.strip()}"
        try:
            return self.judge(mutant)
        finally:
            for name in re.findall(r"^\+\+\+ b/(\S+)",
                                   mutant.path.read_text(), re.M):
                (self.root / name).write_bytes(self.sources[name])

    def judge(self, mutant: Mutant) -> tuple[bool, str]:
        built = self.build(mutant.program)
        if built.returncode != 0:
            return False, f"DOES NOT BUILD:\n{built.stdout[-2000:]}"
        key = (mutant.program, mutant.filter)
        limit_s = LEAST_LIMIT_S + SLOWDOWN * self.seconds[key]
        try:
            done = self.test(*key, limit_s=limit_s)
        except subprocess.TimeoutExpired:
            return True, f"no end within {limit_s:.0f} s"
        if done.returncode == 0:
            return False, f"SURVIVES {mutant.filter}"
        begun = re.findall(r"\[ RUN +\] (\S+)", done.stdout)
        if done.returncode < 0:
            return True, f"{begun[-1]} (stopped)" if begun else "stopped"
        failed = re.search(r"\[ +FAILED +\] ([^\s,]+)", done.stdout)
        return True, failed[1] if failed else f"exit {done.returncode}"


class Run:
    """Deals the folders of mutants to workers, and keeps the verdicts."""

    def __init__(self, mutants: list[Mutant]):
        self.lock = threading.Lock()
        self.folders: dict[str, list[Mutant]] = {}
        for mutant in mutants:
            folder = mutant.name.rsplit("/", 1)[0]
            self.folders.setdefault(folder, []).append(mutant)
        self.owners: dict[str, Tree] = {}  # of the dear programs
        self.total = len(mutants)
        self.verdicts: list[Verdict] = []
        self.broken: list[str] = []

    def take_folder(self, tree: Tree) -> list[Mutant]:
        """The next folder, rather one whose program the tree has built."""
        def is_free(program: str) -> bool:
            return self.owners.get(program, tree) is tree

        with self.lock:
            programs = {name: mutants[0].program
                        for name, mutants in self.folders.items()}
            free = [name for name in programs if is_free(programs[name])]
            if not free or self.broken:
                return []
            best = max(free, key=lambda name: (
                programs[name] in tree.programs, programs[name] in DEAR,
                len(self.folders[name])))
            if programs[best] in DEAR:
                self.owners[programs[best]] = tree
            return self.folders.pop(best)

    def work(self, tree: Tree) -> None:
        try:
            tree.prepare()
            while folder := self.take_folder(tree):
                for mutant in folder:
                    self.judge(tree, mutant)
        except Broken as error:
            with self.lock:
                self.broken.append(str(error))

    def judge(self, tree: Tree, mutant: Mutant) -> None:
        start = time.monotonic()
        try:
            tree.require_pass(mutant)
            start = time.monotonic()
            caught, how = tree.try_mutant(mutant)
        except Broken as error:
            caught, how = False, str(error)
        verdict = Verdict(mutant, caught, how, time.monotonic() - start)
        with self.lock:
            self.verdicts.append(verdict)
            print(f"[{len(self.verdicts)}/{self.total}] {mutant.name}: {how} "
                  f"({verdict.seconds:.0f} s)", file=sys.stderr, flush=True)


def print_table(verdicts: list[Verdict]) -> None:
    rows = [(v.mutant.name, v.mutant.program, v.how.split("\n")[0],
             f"{v.seconds:.1f}")
            for v in sorted(verdicts, key=lambda v: v.mutant.name)]
    rows.insert(0, ("mutant", "program", "caught by", "seconds"))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width)
                        for cell, width in zip(row, widths)).rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="FOLDER",
                        help="of tests/mutants: backend, backend/read")
    parser.add_argument("--at", metavar="COMMIT",
                        help="sources of a commit, not of the working tree")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    mutants = read_mutants(options.only)
    if not mutants:
        sys.exit(f"mutants: none in tests/mutants/{options.only}")
    start = time.monotonic()
    WORK.mkdir(parents=True, exist_ok=True)
    lock = (WORK / "lock").open("w")  # held until the process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"mutants: another run works in {WORK}")
    sources = sources_at(options.at)
    whole = Run(mutants)
    num_trees = min(options.jobs, len(whole.folders))
    threads = [threading.Thread(target=whole.work, args=[
        Tree(i, sources, max(1, options.jobs // num_trees))])
        for i in range(num_trees)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print_table(whole.verdicts)
    for error in whole.broken:
        print(f"mutants: {error}", file=sys.stderr)
    num_caught = sum(verdict.caught for verdict in whole.verdicts)
    print(f"{num_caught} of {whole.total} caught, in "
          f"{time.monotonic() - start:.0f} s")
    return int(num_caught != whole.total)


if __name__ == "__main__":
    sys.exit(main())
