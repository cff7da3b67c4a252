#!/usr/bin/env python3
"""Writes the first block of C++ below a heading of a document to a file.

    scripts/code_block.py FILE.md "HEADING" OUT

So that what a document shows is what a test compiles. Lines of OUT are those of
the document, which the compiler's messages then name.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def code_block(text: str, heading: str) -> tuple[int, str]:
    """The block's first line, counted from 1, and the block."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text,
                      re.M | re.S)
    if not found:
        raise SystemExit(f"code_block: no heading \"{heading}\"")
    block = re.search(r"^```cpp\n(.*?)^```$", found[1], re.M | re.S)
    if not block:
        raise SystemExit(f"code_block: no ```cpp below \"{heading}\"")
    return 1 + text[:found.start(1) + block.start(1)].count("\n"), block[1]


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    document, heading, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    line, block = code_block(document.read_text(), heading)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(f'#line {line} "{document.resolve()}"\n{block}')
    return 0


if __name__ == "__main__":
    sys.exit(main())
