#!/usr/bin/env python3
"""Makes the C++ source that holds a text.

    embed_text.py FILE HEADER NAME SOURCE
"""

from __future__ import annotations

import sys
from pathlib import Path

DELIMITER = "winnow_text"

SOURCE = """// Made by src/serve/api/embed_text.py of {file}.
#include "{header}"

namespace winnow {{

const std::string_view {name} = R"{delimiter}({text}){delimiter}";

}}  // namespace winnow
"""


def main() -> None:
    file, header, name, source = sys.argv[1:]
    text = Path(file).read_text(encoding="utf-8")
    if f"){DELIMITER}\"" in text:
        sys.exit(f"{file}: must not have the literal's own end")
    Path(source).write_text(
        SOURCE.format(delimiter=DELIMITER, file=Path(file).name, header=header,
                      name=name, text=text),
        encoding="utf-8")


if __name__ == "__main__":
    main()
