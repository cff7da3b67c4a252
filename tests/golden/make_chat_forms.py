"""Renders chat/forms/*.jinja and chat/expressions.txt as transformers does.

    python -m venv venv && venv/bin/pip install -r requirements-chat.txt
    venv/bin/python make_chat_forms.py            writes chat/*.json
    venv/bin/python make_chat_forms.py --check    renders again and compares
    venv/bin/python make_chat_forms.py --show FORM CONVERSATION

Made with transformers 5.24.0 (apply_chat_template of an otherwise empty
tokenizer) and jinja2 3.1.6. README.md describes the files.
"""

import argparse
import copy
import datetime
import json
import pathlib
import sys
from typing import Any

import tokenizers
import transformers
from transformers.utils import chat_template_utils

from chat_conversations import CONVERSATIONS

NOW = datetime.datetime(2026, 3, 7, 9, 5, 3)
FOLDER = pathlib.Path(__file__).resolve().parent / "chat"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
# What a template reads as content where it is not a text.
PARTS = ("llama_guard", "smolvlm")
BOTH = (
    "apertus command_a gemma3 glm46 glm5 kimi_k2 lfm2 llama4 minimax "
    "mistral_v7 pixtral qwen35 recursion_and_cycles smollm3 step3"
).split()
# Of chat/expressions.txt.
VALUES = {
    "s": "Hello World",
    "u": "Žižka 日本 👩‍💻 ß",
    "n": None,
    "i": 7,
    "f": 2.5,
    "l": [3, 1, 2],
    "ls": ["b", "A", "c"],
    "e": [],
    "d": {"b": 1, "a": 2, "items": 3},
    "dd": [{"n": "x", "v": {"w": 1}}, {"n": "Y", "v": {"w": 0}}, {"n": "z"}],
    "t": True,
    "big": 12345678901234567890,
    "x1": 1e22,
    "x2": 1e-7,
    "x3": 0.1,
    "x4": 100000.0,
    "ml": "a\nb\n\n c\r\nd",
    "h": "<a href=\"x\">T's</a> &amp;",
}


class Clock(datetime.datetime):
    """A datetime whose now() is always NOW."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return NOW


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One that has special tokens and nothing else."""
    model = tokenizers.models.WordLevel({"x": 0}, unk_token="x")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model), **TOKENS
    )


def in_form(content: Any, form: str) -> Any:
    """A content as Winnow gives it to a template that reads this form."""
    if form in PARTS and isinstance(content, str):
        return [{"type": "text", "text": content}]
    if form in (*PARTS, *BOTH) or not isinstance(content, list):
        return content
    return "".join(part["text"] for part in content)


def rendered(
    chat: transformers.PreTrainedTokenizerFast, form: str, name: str
) -> str | None:
    """None where it raises."""
    given = {"add_generation_prompt": True, **CONVERSATIONS[name]}
    given = copy.deepcopy(given)
    messages = given.pop("messages")
    for message in messages:
        message["content"] = in_form(message["content"], form)
    source = (FOLDER / "forms" / f"{form}.jinja").read_text(encoding="utf-8")
    try:
        return chat.apply_chat_template(
            messages, chat_template=source, tokenize=False, **given
        )
    except Exception:  # Whatever Python raises, no prompt comes of it.
        return None


def hashed(text: str | None) -> str | None:
    """FNV-1a of 64 bits, in hexadecimal."""
    if text is None:
        return None
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{state:016x}"


def forms_file() -> str:
    chat = tokenizer()
    names = sorted(path.stem for path in (FOLDER / "forms").glob("*.jinja"))
    forms = {
        form: [hashed(rendered(chat, form, name)) for name in CONVERSATIONS]
        for form in names
    }
    told = [
        {"name": name, "given": {"add_generation_prompt": True, **given}}
        for name, given in CONVERSATIONS.items()
    ]
    lines = ",\n".join(
        f"  {json.dumps(form)}: {json.dumps(hashes)}"
        for form, hashes in forms.items()
    )
    return (
        f'{{\n "now": "{NOW.isoformat()}",\n "tokens": {json.dumps(TOKENS)},\n'
        f' "conversations": {json.dumps(told, ensure_ascii=False)},\n'
        f' "forms": {{\n{lines}\n }}\n}}\n'
    )


def expression(line: str) -> str:
    """The template of a line: an expression, or a template in one line."""
    is_whole = any(mark in line for mark in ("{%", "{{", "{#"))
    text = line if is_whole else "{{ " + line + " }}"
    return text.replace("⏎", "\n").replace("␍", "\r")


def expressions_file() -> str:
    lines = (FOLDER / "expressions.txt").read_text(encoding="utf-8")
    told = []
    for line in lines.splitlines():
        template = expression(line)
        try:
            compiled = chat_template_utils._compile_jinja_template(template)
            text = compiled.render(**copy.deepcopy(VALUES))
        except Exception:  # Whatever Python raises.
            text = None
        told.append(json.dumps([template, text], ensure_ascii=False))
    values = json.dumps(VALUES, ensure_ascii=False)
    body = ",\n".join(told)
    return (
        f'{{"now": "{NOW.isoformat()}",\n"values": {values},\n'
        f'"expressions": [\n{body}\n]}}\n'
    )


def main() -> int:
    """Writes or checks all files; 1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--show", nargs=2, metavar=("FORM", "CONVERSATION"))
    flags = parser.parse_args()
    chat_template_utils.datetime = Clock
    if flags.show:
        print(rendered(tokenizer(), *flags.show))
        return 0
    status = 0
    for name, text in (
        ("forms.json", forms_file()),
        ("expressions.json", expressions_file()),
    ):
        path = FOLDER / name
        if not flags.check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"chat/{name} differs", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
