#!/usr/bin/env python3
"""Rewrites CUDA sources as C++ that runs on the emulated device.

    rewrite.py SOURCE OUTPUT

Three things that no header can give a C++ compiler become calls: launches
(`kernel<<<...>>>(...)`), variables in shared memory, and PTX instructions.
What it does not understand ends it with a message. Lines stay where they are.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

NAMESPACE = "::winnow::emulated"
OPENING, CLOSING = "([{", ")]}"


class Unknown(Exception):
    """Something that is not emulated."""


def end_of(text: str, start: int) -> int:
    """The index behind the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] in OPENING:
            depth += 1
        elif text[i] in CLOSING:
            depth -= 1
            if depth == 0:
                return i + 1
    raise Unknown(f"no end: {text[start:start + 60]!r}")


def split(text: str, separator: str) -> list[str]:
    """Parts between separators that no bracket or literal encloses."""
    parts, depth, begin, quoted = [], 0, 0, False
    for i, char in enumerate(text):
        if char == '"' and text[i - 1:i] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif char in OPENING:
            depth += 1
        elif char in CLOSING:
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    parts.append(text[begin:])
    return parts


def begin_of_kernel(text: str, end: int) -> int:
    """Where the name, perhaps with template arguments, begins."""
    i = len(text[:end].rstrip())
    if text[i - 1] == ">":
        depth = 0
        while True:
            i -= 1
            depth += {">": 1, "<": -1}.get(text[i], 0)
            if depth == 0:
                break
    return i - len(re.search(r"[\w:]+$", text[:i])[0])


def rewrite_launches(text: str) -> str:
    while (at := text.find("<<<")) >= 0:
        begin = begin_of_kernel(text, at)
        end = at + 3
        while text[end:end + 3] != ">>>":
            end = end_of(text, end) if text[end] in OPENING else end + 1
        text = (f"{text[:begin]}{NAMESPACE}::Configure({text[begin:at]}, "
                f"{text[at + 3:end]}){text[end + 3:]}")
    return text


def rewrite_shared(text: str) -> str:
    text = re.sub(
        r"extern __shared__ (?:__align__\(\d+\) )?([\w:]+) (\w+)\[\];",
        rf"auto* \2 = {NAMESPACE}::DynamicShared<\1>();", text)

    def declared(match: re.Match) -> str:
        line = text.count("\n", 0, match.start()) + 1
        return (f"auto& {match[2]} = {NAMESPACE}::DeclaredShared<"
                f"{match[1]}{match[3]}>({line});")

    text = re.sub(r"__shared__ ([^;=()]+?) (\w+)((?:\[[^;]*\])?);", declared,
                  text)
    if "__shared__" in text:
        raise Unknown("a declaration with __shared__")
    return text


def operands_of(section: str) -> list[tuple[str, str]]:
    """(constraint, expression) of `"r"(a), "+f"(b)`."""
    operands = []
    for part in split(section, ","):
        match = re.fullmatch(r'\s*"([=+]?[a-z])"\s*\((.*)\)\s*', part, re.S)
        if match:
            operands.append((match[1], match[2]))
        elif part.strip():
            raise Unknown(f"operand {part!r}")
    return operands


def call_of(statement: str) -> str:
    """A call for what stands in asm's parentheses."""
    sections = split(statement, ":")
    template = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', sections[0]))
    operands = [operand for section in sections[1:3]
                for operand in operands_of(section)]
    name, _, rest = template.strip().removesuffix(";").partition(" ")
    if ";" in rest:
        raise Unknown(f"several instructions: {template}")
    arguments = []
    for i, part in enumerate(split(rest, ",") if rest else []):
        def expression(match: re.Match) -> str:
            constraint, value = operands[int(match[1])]
            is_target = i == 0 and constraint[0] in "=+"
            return f"&({value})" if is_target else f"({value})"

        part = part.strip()
        if part[0] == "[":
            part = part[1:-1]
        arguments.append(re.sub(r"%(\d+)", expression, part))
    name = re.sub(r"\W", "_", name)
    return f"{NAMESPACE}::ptx::{name}({', '.join(arguments)})"


def rewrite_instructions(text: str) -> str:
    pattern = re.compile(r"\basm(?: volatile)?\s*(?=\()")
    while match := pattern.search(text):
        end = end_of(text, match.end())
        statement = text[match.end() + 1:end - 1]
        call = call_of(statement) + "\n" * statement.count("\n")
        text = text[:match.start()] + call + text[end:]
    return text


def rewrite(text: str) -> str:
    return rewrite_instructions(rewrite_shared(rewrite_launches(text)))


def main() -> int:
    source, output = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        text = rewrite(source.read_text())
    except Unknown as error:
        print(f"{source}: not emulated: {error}", file=sys.stderr)
        return 1
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f'#line 1 "{source}"\n{text}')
    return 0


if __name__ == "__main__":
    sys.exit(main())
