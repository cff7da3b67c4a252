#!/usr/bin/env python3
"""Makes the C++ source that holds the page, and the policy that names it.

    embed_page.py page.html page_html.cc
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from pathlib import Path

DELIMITER = "winnow_page"

SOURCE = """// Made by src/serve/api/embed_page.py of src/serve/api/page.html.
#include "serve/api/page.h"

namespace winnow {{

const std::string_view kPageHtml = R"{delimiter}({html}){delimiter}";
const std::string_view kPageScriptHash = "{script}";
const std::string_view kPageStyleHash = "{style}";

}}  // namespace winnow
"""


def hash_of(html: str, tag: str) -> str:
    """Of the only element of its kind, as a Content-Security-Policy has it."""
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
    if len(found) != 1 or html.count(f"<{tag}") != 1:
        sys.exit(f"page: must have one <{tag}>, has {html.count(f'<{tag}')}")
    digest = hashlib.sha256(found[0].encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def main() -> None:
    html = Path(sys.argv[1]).read_text(encoding="utf-8")
    if f"){DELIMITER}\"" in html:
        sys.exit("page: must not have the literal's own end")
    Path(sys.argv[2]).write_text(
        SOURCE.format(delimiter=DELIMITER, html=html,
                      script=hash_of(html, "script"),
                      style=hash_of(html, "style")),
        encoding="utf-8")


if __name__ == "__main__":
    main()
