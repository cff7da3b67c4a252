"""Renders the chat templates of tests/golden/chat/ as transformers does.

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python make_chat.py            writes chat/*.json
    venv/bin/python make_chat.py --check    renders again and compares

Made with transformers 5.17.0 (its sandbox with trim_blocks, lstrip_blocks, loop
controls and its own tojson, raise_exception, strftime_now) and jinja2 3.1.6.
The clock that strftime_now reads is set to NOW. README.md describes the files.
"""

import argparse
import copy
import datetime
import json
import pathlib
import sys
from typing import Any

import jinja2
from transformers.utils import chat_template_utils

import chat_cases

NOW = datetime.datetime(2026, 3, 7, 9, 5, 3)
FOLDER = pathlib.Path(__file__).resolve().parent / "chat"


class Clock(datetime.datetime):
    """A datetime whose now() is always NOW."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return NOW


def render(template: str, variables: dict[str, Any]) -> dict[str, str]:
    """{"text": ...}, or {"error": message} where the template raises."""
    given = copy.deepcopy(variables)
    messages = given.pop("messages")
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            [messages], chat_template=template, **given
        )
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error)}
    return {"text": texts[0]}


def make_file(name: str) -> str:
    """The text of chat/<name>.json."""
    template = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    cases = [
        {"name": case, "variables": variables, **render(template, variables)}
        for case, variables in chat_cases.CASES[name].items()
    ]
    golden = {"now": NOW.isoformat(), "cases": cases}
    return json.dumps(golden, ensure_ascii=False, indent=1) + "\n"


def main() -> int:
    """Writes or checks all files; 1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    chat_template_utils.datetime = Clock
    status = 0
    for name in chat_cases.CASES:
        text, path = make_file(name), FOLDER / f"{name}.json"
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"chat/{name}.json differs", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
