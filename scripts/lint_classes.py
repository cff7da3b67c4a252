"""Limits of a class: its number of methods, and one source that defines them.

lint.py calls this. The scan reads declarations alone, not the language.
"""

from __future__ import annotations

import re
from pathlib import Path

MAX_METHODS = 30

CUT = "cut by a limit of lines; a noun is missing, to be found when touched"
LANES = "one method for each vector instruction"

# Exceptions by (module, class), each with its reason. An entry that no class
# needs any more is a finding.
MANY_METHODS = {
    ("backend/cpu", "Avx2Lanes"): LANES,
    ("backend/cpu", "Avx512Lanes"): LANES,
    ("bench", "BenchRequests"): CUT,
    ("bench", "BenchSparse"): CUT,
    ("engine", "DiskPrefixes"): CUT,
    ("engine", "Engine"): "the door of all callers: 15 are one-line accessors",
    ("engine", "Residency"): "one door to five tiers: most are one-line calls",
    ("engine", "RequestSlots"): CUT,
    ("engine", "Runner"): CUT,
    ("engine", "SelectorSet"): CUT,
    ("engine", "Sequence"): "many one-line questions about one request",
    ("kv", "KvCache"): CUT,
    ("kv", "PrefixIndex"): CUT,
    ("serve", "CompletionAnswer"): CUT,
    ("serve", "HttpApi"): "one method for each route",
}
MANY_SOURCES = {
    ("backend/cuda", "CublasLt"): "a build links one of the two sources",
    ("bench", "BenchRequests"): CUT,
    ("bench", "BenchSparse"): CUT,
    ("cache", "DiskIndex"): CUT,
    ("cache", "SlotTables"): CUT,
    ("engine", "RequestSlots"): CUT,
    ("engine", "Runner"): CUT,
    ("engine", "SelectorSet"): CUT,
    ("kv", "KvCache"): CUT,
    ("kv", "PrefixIndex"): CUT,
    ("model", "Weights"): CUT,
    ("serve", "Metrics"): "the second source is the table of families",
}

TYPE = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)?"
                  r"(\w+)(?:\s+final)?\s*(?::(?!:)[^;{}]*)?\{")
PREFIX = re.compile(r"^\s*(?:(?:public|private|protected)\s*:(?!:)"
                    r"|\[\[[^\]]*\]\]|alignas\([^)]*\))\s*")
NO_METHOD = re.compile(
    r"^(?:friend|using|typedef|static_assert|enum|class|struct|union)\b")
# Google style: a definition begins at the margin, and so does its qualified
# name or the type before it.
DEFINITION = re.compile(
    r"^(?![ \t#}])[^;{}()=]*?(?<![\w:])((?:\w+(?:<[^<>]*>)?::)+)"
    r"(?:~?\w+|operator\s*(?:\(\)|[^\s(]+|\w+))\s*\(", re.M)


def closing(text: str, opening: int, pair: str = "{}") -> int:
    """The index of the bracket that closes the one at `opening`."""
    depth = 0
    for match in re.compile("[" + re.escape(pair) + "]").finditer(text, opening):
        depth += 1 if match.group() == pair[0] else -1
        if depth == 0:
            return match.start()
    return len(text)


def without_template(statement: str) -> str:
    """The statement behind its access label, attributes and template<...>."""
    while True:
        stripped = PREFIX.sub("", statement.strip(), count=1)
        if re.match(r"template\s*<", stripped):
            end = closing(stripped, stripped.index("<"), "<>")
            stripped = stripped[end + 1:]
        if stripped == statement:
            return statement
        statement = stripped


def is_method(statement: str) -> bool:
    statement = without_template(statement)
    if not statement or NO_METHOD.match(statement):
        return False
    if re.search(r"=\s*(?:default|delete)\s*$", statement):
        return False
    named = re.search(r"\boperator\s*(?:\(\)|[^\s\w(]+|[\w:<>]+[\s&*]*)\s*\(",
                      statement)
    if named:
        return True
    depth = 0
    for i, char in enumerate(statement):
        if char == "<":
            depth += 1
        elif char == ">" and statement[i - 1] != "-":
            depth -= 1
        elif char == "=" and depth == 0:
            return False
        elif char == "(" and depth == 0:
            return bool(re.search(r"\w\s*$", statement[:i]))
    return False


def statements(body: str):
    """The declarations at the first level of a class' body."""
    start = i = 0
    for_each = re.compile(r"[;{(]")
    while match := for_each.search(body, i):
        i = match.start()
        statement = body[start:i]
        if body[i] == "(":
            i = closing(body, i, "()") + 1
        elif body[i] == ";":
            yield statement
            start = i = i + 1
        else:
            end = closing(body, i)
            # `x_{1}` initialises and stands without a space; a body has one.
            if is_method(statement) and not re.search(r"\w$", statement):
                yield statement
                start = end + 1
            i = end + 1


def methods_of_classes(text: str) -> list[tuple[str, int, int]]:
    """(name, line, number of methods) of each class in a blanked header."""
    found = []
    for match in TYPE.finditer(text):
        if text[:match.start()].rstrip().endswith("enum"):
            continue
        body = text[match.end():closing(text, match.end() - 1)]
        found.append((match[1], text.count("\n", 0, match.start()) + 1,
                      sum(map(is_method, statements(body)))))
    return found


def defined_classes(text: str) -> set[str]:
    """The outermost name of each `A::B::name(` that a blanked source defines."""
    chains = (re.sub(r"<[^<>]*>", "", match[1])
              for match in DEFINITION.finditer(text))
    return {chain.removeprefix("winnow::").split("::")[0] for chain in chains}


def check_classes(texts: dict[Path, str], module_of,
                  many_methods=MANY_METHODS,
                  many_sources=MANY_SOURCES) -> list[str]:
    """`texts`: the blanked text of each file under src/."""
    places, counts, sources = {}, {}, {}
    for path, text in texts.items():
        module = module_of(path)
        if path.suffix in (".h", ".cuh"):
            for name, line, count in methods_of_classes(text):
                places[module, name] = f"{path}:{line}"
                counts[module, name] = count
        elif not path.stem.endswith(("_test", "_fuzz")):
            for name in defined_classes(text):
                sources.setdefault((module, name), []).append(path.name)
    large = {key for key, count in counts.items() if count > MAX_METHODS}
    cut = {key for key, names in sources.items()
           if len(names) > 1 and key in places}
    findings = [f"{places[key]}: {key[1]} has {counts[key]} methods, at most "
                f"{MAX_METHODS}" for key in large - many_methods.keys()]
    findings += [f"{places[key]}: {key[1]} is defined in {len(sources[key])} "
                 f"sources, one at most: {', '.join(sorted(sources[key]))}"
                 for key in cut - many_sources.keys()]
    findings += [f"{Path(__file__)}:1: {name} of {module} needs no exception"
                 for needed, table in ((large, many_methods),
                                       (cut, many_sources))
                 for module, name in table.keys() - needed]
    return sorted(findings)
