"""What sources say twice that may be compiled as one (cmake/WinnowModule.cmake):
names of their unnamed namespaces, which lint.py asks for."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
# Said at the margin: all up to a name and what comes behind it.
SAID = re.compile(r"^(?!#|//|\}|template|static_assert|using namespace)"
                  r"[^\s;{=(][^\n;{=(]*?(?<![:\w])(\w+)(?: final)? ?"
                  r"([(=;{\[]|:(?!:))", re.M)


def joined_sources(module: Path) -> list[list[Path]]:
    """What may be compiled as one, by a module's CMakeLists.txt: its library's
    sources and its tests', without those that are compiled alone."""
    text = (module / "CMakeLists.txt").read_text()
    for name in re.findall(r"^include\(\$\{PROJECT_SOURCE_DIR\}/(.*?)\)", text,
                           re.M):
        text += (ROOT / name).read_text()
    alone = " ".join(re.findall(
        r"^(?:set_source_files_properties|winnow_needs_onednn)\((.*?)\)", text,
        re.M | re.S))
    call = re.search(r"^winnow_module\(\s*NAME (.*?)\)$", text, re.M | re.S)
    groups = []
    for start, end in (("SOURCES", "DEPS"), ("TESTS", "TEST_DEPS")):
        _, found, named = call[1].partition(f" {start} ") if call else ("",) * 3
        if not found or (start == "SOURCES" and " ALONE" in call[1]):
            continue
        named = named.partition(f" {end} ")[0]
        for variable, value in re.findall(r"^set\((\w+)(.*?)\)", text,
                                          re.M | re.S):
            named = named.replace(f"${{{variable}}}", value)
        named = named.replace("${PROJECT_SOURCE_DIR}/", "@")
        groups.append([
            ROOT / name[1:] if name[0] == "@" else module / name
            for name in re.findall(
                r"(?<![\w/.])@?(?:\.\./)*\w[\w/]*\.cc\b", named)
            if not re.search(rf"(?<![\w/]){re.escape(name)}", alone)])
    return groups


def parameters(rest: str) -> str:
    depth = 1
    for end, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return rest[:end]
    return rest


def said_unnamed(text: str) -> set[tuple[str, str]]:
    """The names, each of a function with its parameters: another one may have
    its name. Aliases may be said twice, and are left out."""
    said = set()
    for body in UNNAMED.findall(text):
        for match in SAID.finditer(body):
            if match[0].startswith(("using ", "namespace ")):
                continue
            what = parameters(body[match.end():]) if match[2] == "(" else ""
            said.add((match[1], " ".join(what.split())))
    return said


def said_twice(sources: dict[Path, str]) -> list[str]:
    """Findings in the sources of one module, by their texts."""
    findings, first = [], {}
    for path, text in sorted(sources.items()):
        for name, what in sorted(said_unnamed(text)):
            other = first.setdefault((name, what), path)
            if other != path:
                findings.append(
                    f"{path}:1: {name} stands in the unnamed namespace of "
                    f"{other.name}, too, and both may be compiled as one")
    return findings
