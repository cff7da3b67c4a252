#!/usr/bin/env python3
"""Prints how near a backend came to float64, verb by verb.

    closeness_table.py REPORT

REPORT is what backend_cuda_test (or another program with the conformance
suite) wrote for --gtest_output=json:REPORT. A row is a test on one backend: how
many numbers were compared, and of the one that came nearest to its tolerance
its error, that tolerance and their quotient (src/backend/conformance/closeness.h).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FORM = "{:<58} {:<20} {:>12} {:>10} {:>10} {:>6}"


def rows_of(report: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            if float(test.get("compared", 0)) == 0:
                continue
            name = suite["name"].split("/")[-1].removesuffix("ConformanceTest")
            test_name, _, backend = test["name"].partition("/")
            if "error_share" not in test:
                continue
            rows.append((f"{name} {test_name}", backend,
                         f"{float(test['compared']):.0f}",
                         f"{float(test['largest_error']):.2e}",
                         f"{float(test['tolerance']):.2e}",
                         f"{float(test['error_share']):.2f}"))
    return rows


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    rows = rows_of(json.loads(Path(sys.argv[1]).read_text()))
    print(FORM.format("test", "backend", "compared", "error", "tolerance",
                      "share"))
    for row in rows:
        print(FORM.format(*row))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
