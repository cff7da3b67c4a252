#!/usr/bin/env python3
"""Keeps figures in bench/results/, with commit, CPU and date.

    bench/report.py NAME FILE.json...    each under its own name
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True,
                          text=True, check=True).stdout.strip()


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def keep(name: str, figures: dict) -> Path:
    """Writes DATE-COMMIT[-NAME].json and returns its path."""
    now = datetime.datetime.now(datetime.timezone.utc)
    stem = f"{now:%Y-%m-%d}-{git('rev-parse', '--short', 'HEAD')}"
    path = ROOT / "bench/results" / f"{stem}{'-' if name else ''}{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {"date": now.isoformat(), "commit": git("rev-parse", "HEAD"),
              "cpu": cpu_name(), "cpus": len(os.sched_getaffinity(0)),
              **figures}
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


def main() -> int:
    if len(sys.argv) < 3:
        print(f"usage: {sys.argv[0]} NAME FILE.json...", file=sys.stderr)
        return 2
    files = [Path(name) for name in sys.argv[2:]]
    figures = {path.stem: json.loads(path.read_text()) for path in files}
    print(f"kept in {keep(sys.argv[1], figures)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
