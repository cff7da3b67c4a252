#!/usr/bin/env python3
"""Writes what is made from the program's own help: its manual page and its
completion for bash, zsh and fish.

    documents.py WINNOW FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import completion
import man_page
import program_help


def main() -> int:
    winnow, folder = sys.argv[1], Path(sys.argv[2])
    try:
        program = program_help.read_program(winnow)
    except program_help.HelpError as error:
        print(f"documents: {error}", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"winnow.1": man_page.man_page(program),
                       "winnow.bash": completion.bash(program),
                       "_winnow": completion.zsh(program),
                       "winnow.fish": completion.fish(program)}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
