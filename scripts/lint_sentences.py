"""Sentences of comments and pages: their length, and the word they begin with.

lint.py calls this. A sentence has at most 30 words, and Who, What, Whoever or
Those never stand for a noun at its beginning (docs/style.md, Sentences).
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from dataclasses import dataclass
from pathlib import Path

MAX_WORDS = 30
# Headers that only their own folder, or tests, include.
NOT_PUBLIC = {"src/backend/conformance", "src/backend/cuda/device",
              "src/backend/cuda/emulated"}
CPP = {".h", ".cc", ".cu", ".cuh"}
HASH = {".cmake", ".sh", ".yml", ".yaml", ".toml"}

COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)
MACHINE = re.compile(r"^(?:namespace\b|NOLINT|clang-format|[A-Z0-9]+(?:_[A-Z0-9]+)+_$"
                     r"|!|-\*-|type:|noqa|pylint|SPDX)")
ITEM = re.compile(r"^(?:[-*+]|\d+[.)])\s+")
# Columns, tables and code are not prose.
FIGURE = re.compile(r"\S {3,}\S|^[|+]|\|\s*$|^\.\.\.$|;$|[{}]$")

ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?i:e\.g|i\.e|cf|vs|etc|resp|approx|incl|no|fig|sec|eq|al|pp"
    r"|ca)\.$|(?:^\W*|[(,;]\s*|\b[A-Z]\.\s)[A-Z]\.$")  # or a name's initials
ENDING = re.compile(r"[.!?][\"')\]*]*(?=\s)")
WORD = re.compile(r"[^\W_]")
LABEL = re.compile(r"^(?:REQUIRES(?: of \w+)?|TODO(?:\([^)]*\))?|NOTE)\s*:\s*")
OPENING = re.compile(r"^[\s\"'(\[*>]+")
NOUN_CLAUSE = re.compile(r"^(?:who|whoever|what)(?:'s)?\b(?![-_(])", re.I)
THOSE = re.compile(r"^those\b[\s,;:.)]*(?:(\w+)(?:\s+(\w+))?)?", re.I)
# Behind "those", these show that no noun follows.
NO_NOUN = set(
    "that which who whose whom of in on at by to for from with without under "
    "over above below behind before after among between beyond inside outside "
    "beside near not are were have had must may might can could will would "
    "shall should do did come go stay lie left kept held lent it they he she "
    "we a an the all alone here there and or also already still yet too but "
    "as is be been if when where while then than named known seen given made "
    "taken chosen out up down off only".split())


@dataclass
class Sentence:
    line: int       # of its first word
    last_line: int
    text: str

    @property
    def num_words(self) -> int:
        return sum(bool(WORD.search(word)) for word in self.text.split())


@dataclass
class Finding:
    path: Path
    sentence: Sentence
    fault: str

    def __str__(self) -> str:
        begins = " ".join(self.sentence.text.split()[:8])
        return f"{self.path}:{self.sentence.line}: {self.fault}: {begins} ..."


def plain(text: str) -> str:
    """Code, links and quotations as one word each; lengths may change, line
    breaks stay."""
    def one_word(match: re.Match) -> str:
        return "CODE" + "\n" * match.group().count("\n")

    text = re.sub(r"``[^`]+``|`[^`]+`", one_word, text)
    text = re.sub(r"!?\[([^\]\[]*)\]\([^()\s]*\)", r"\1", text)
    text = re.sub(r"<https?:[^>]*>|https?://\S*[\w/]", "URL", text)
    text = re.sub(r"</?[a-z][^<>\n]*>", " ", text)
    text = re.sub(r"(?<![\w\"])\"([^\"]{0,80}?)([.,]?)\"(?![\w\"])",
                  lambda m: one_word(m) + m[2], text)
    return re.sub(r"\*\*|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", "", text)


def split(lines: list[tuple[int, str]]) -> list[Sentence]:
    """The sentences of one paragraph, by (number, text) of its lines."""
    text = plain("\n".join(text for _, text in lines))
    numbers = [number for number, _ in lines]
    sentences, start = [], 0

    def add(end: int) -> None:
        piece = text[start:end]
        begin = start + len(piece) - len(piece.lstrip())
        if piece.strip():
            at = [min(text.count("\n", 0, i), len(numbers) - 1)
                  for i in (begin, start + len(piece.rstrip()))]
            sentences.append(Sentence(numbers[at[0]], numbers[at[1]],
                                      " ".join(piece.split())))

    for match in ENDING.finditer(text):
        before = text[start:match.start() + 1]
        if text[match.start()] == "." and (ABBREVIATION.search(before)
                                           or before.endswith("..")):
            continue
        add(match.end())
        start = match.end()
    add(len(text))
    parts = []
    for sentence in sentences:  # "REQUIRES:" begins anew.
        label = re.search(r"(?<=\s)REQUIRES(?: of \w+)?:", sentence.text)
        if label:
            head, tail = (sentence.text[:label.start()],
                          sentence.text[label.start():])
            parts += [Sentence(sentence.line, sentence.last_line, head),
                      Sentence(sentence.line, sentence.last_line, tail)]
        else:
            parts.append(sentence)
    return parts


def paragraphs(lines: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Paragraphs and list items of a comment's lines; figures and code, which
    are set in columns or deeply indented, are left out."""
    found: list[list[tuple[int, str]]] = [[]]
    in_item = False
    for number, text in lines:
        bare = text.strip()
        indent = len(text) - len(text.lstrip())
        if not bare or MACHINE.match(bare) or (
                not in_item and (FIGURE.search(bare) or indent >= 4)):
            found.append([])
            in_item = in_item and not bare and indent > 0
        elif ITEM.match(bare):
            found.append([(number, ITEM.sub("", bare, count=1))])
            in_item = True
        else:
            found[-1].append((number, bare))
    return [paragraph for paragraph in found if paragraph]


def cpp_comments(text: str) -> list[list[tuple[int, str]]]:
    """Comments as runs of lines: one block, or what stands behind code and
    goes on below in the same column."""
    runs: list[list[tuple[int, str]]] = []
    last_line, last_column = -2, -1
    line, at = 1, 0
    for match in COMMENT_OR_LITERAL.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        column = at - text.rfind("\n", 0, at) - 1
        if match.group().startswith("//"):
            content = re.sub(r"^///?", "", match.group())
            if content.startswith(" "):
                content = content[1:]
            is_alone = not text[at - column:at].strip()
            if not (is_alone and line == last_line + 1
                    and column == last_column):
                runs.append([])
            runs[-1].append((line, content))
            last_line, last_column = line, column
        elif match.group().startswith("/*"):
            body = match.group()[2:-2].split("\n")
            runs.append([(line + i, re.sub(r"^\s*\*+ ?", "", one))
                         for i, one in enumerate(body)])
    return runs


def hash_comments(text: str) -> list[list[tuple[int, str]]]:
    runs, last = [], -2
    for number, one in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*#(?!!) ?(.*)", one)
        if match:
            if number != last + 1:
                runs.append([])
            runs[-1].append((number, match[1]))
            last = number
    return runs


def python_comments(text: str) -> list[list[tuple[int, str]]]:
    runs, last = [], -2
    try:
        tree = ast.parse(text)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and not token.string[:2] == "#!":
                if token.start[0] != last + 1 or token.line[
                        :token.start[1]].strip():
                    runs.append([])
                last = token.start[0]
                runs[-1].append((last, token.string[1:].removeprefix(" ")))
    except (SyntaxError, tokenize.TokenError):
        return []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            first = node.body[0] if node.body else None
            if (isinstance(first, ast.Expr)
                    and isinstance(first.value, ast.Constant)
                    and isinstance(first.value.value, str)):
                margin = " " * first.col_offset
                runs.append([
                    (first.lineno + i, one.removeprefix(margin))
                    for i, one in enumerate(
                        first.value.value.splitlines())])
    return runs


def markdown(text: str) -> list[list[tuple[int, str]]]:
    """Paragraphs, list items and cells of a page; no headings, no code."""
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text,
                  flags=re.S)
    found: list[list[tuple[int, str]]] = [[]]
    fence, lines = "", text.splitlines()
    for number, one in enumerate(lines, 1):
        bare = re.sub(r"^(?:>\s?)+", "", one.strip()).strip()
        mark = re.match(r"```+|~~~+", bare)
        if fence or mark:
            fence = ("" if fence and mark else fence) if fence else mark[0]
            found.append([])
        elif not bare or bare.startswith("#") or re.match(r"[-=*_]{3,}$", bare):
            found.append([])
        elif bare.startswith("|"):
            following = lines[number] if number < len(lines) else ""
            if re.fullmatch(r"\s*\|[\s|:-]+", following + "|"):
                continue  # a table's head
            cells = re.split(r"(?<!\\)\|", re.sub(
                r"`[^`]*`", lambda m: m[0].replace("|", "/"), bare))
            found += [[(number, cell.strip())] for cell in cells if cell.strip()]
            found.append([])
        elif ITEM.match(bare):
            found.append([(number, ITEM.sub("", bare, count=1))])
        elif found[-1] or not one.startswith("    "):
            found[-1].append((number, bare))
    return [paragraph for paragraph in found if paragraph]


def sentences_of(path: Path, text: str) -> list[Sentence]:
    if path.suffix == ".md":
        runs = markdown(text)
    elif path.suffix in CPP:
        runs = [p for run in cpp_comments(text) for p in paragraphs(run)]
    elif path.suffix == ".py" or text.startswith("#!/usr/bin/env python"):
        runs = [p for run in python_comments(text) for p in paragraphs(run)]
    elif (path.suffix in HASH or path.name in ("CMakeLists.txt", "Makefile")
          or text.startswith("#!")):
        runs = [p for run in hash_comments(text) for p in paragraphs(run)]
    else:
        return []
    return [sentence for run in runs for sentence in split(run)]


def fault_of(sentence: Sentence) -> str:
    """The rule that a sentence breaks; empty if none."""
    if sentence.num_words > MAX_WORDS:
        return f"{sentence.num_words} words, at most {MAX_WORDS}"
    text = LABEL.sub("", OPENING.sub("", sentence.text))
    if text.rstrip("\"')*").endswith("?"):
        return ""
    if NOUN_CLAUSE.match(text):
        return f"begins with {text.split()[0]} as a noun"
    those = THOSE.match(text)
    if those:
        word = (those[1] or "").lower()
        behind = (those[2] or "").lower()
        if not word or word in NO_NOUN or (
                re.search(r"(?:ed|ing)$", word)
                and (not behind or behind in NO_NOUN)):
            return "begins with those as a noun"
    return ""


def findings_of(path: Path, text: str) -> list[Finding]:
    return [Finding(path, sentence, fault)
            for sentence in sentences_of(path, text)
            if (fault := fault_of(sentence))]


def touched_lines(root: Path, since: str) -> dict[Path, set[int]]:
    """Lines of the work tree that differ from a commit, by file."""
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, text=True,
                              capture_output=True, errors="replace").stdout

    lines: dict[Path, set[int]] = {}
    path = None
    for one in git("diff", "-U0", "-M", "--no-color", "--no-ext-diff",
                   "--src-prefix=a/", "--dst-prefix=b/", since).splitlines():
        if one.startswith("+++ "):
            path = root / one[6:] if one.startswith("+++ b/") else None
        elif path and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", one)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    for name in git("ls-files", "--others", "--exclude-standard").splitlines():
        path = root / name
        if path.is_file() and path.stat().st_size < 1 << 20:
            text = path.read_text(errors="replace")
            lines[path] = set(range(1, text.count("\n") + 2))
    return lines


def is_held_whole(path: Path, root: Path, exempt: set[str]) -> bool:
    """Public headers and pages, whose every sentence is checked."""
    name = path.relative_to(root)
    if path.suffix == ".md":
        return str(name) not in exempt and (
            name.parts[0] == "docs" or name.parent == Path("."))
    if path.suffix != ".h" or name.parts[0] != "src":
        return False
    return "testing" not in name.parts and not any(
        str(name).startswith(f"{folder}/")
        for folder in NOT_PUBLIC | exempt)


def report(root: Path, under: Path) -> int:
    """Prints the findings of all files under a path, and a count a folder."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard",
                            str(under)], cwd=root, text=True,
                           capture_output=True, check=True).stdout.split()
    counts: dict[str, int] = {}
    for name in names:
        path = root / name
        if path.is_file() and not name.startswith("tests/mutants/"):
            for finding in findings_of(path, path.read_text(errors="replace")):
                print(str(finding).replace(f"{root}/", ""))
                folder = "/".join(name.split("/")[:2 if "/" in name else 1])
                counts[folder] = counts.get(folder, 0) + 1
    for folder, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:6} {folder}")
    return int(bool(counts))


def check_sentences(root: Path, since: str, exempt: set[str]) -> list[str]:
    """Public headers and pages whole; of all else the lines that were touched
    since a commit."""
    touched = touched_lines(root, since)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard",
                             "*.h", "*.md"], cwd=root, text=True,
                            capture_output=True, check=True).stdout.split()
    whole = {root / name for name in listed
             if is_held_whole(root / name, root, exempt)}
    findings = []
    for path in sorted(whole | touched.keys()):
        if path.is_file():
            findings += [
                str(f) for f in findings_of(path, path.read_text(
                    errors="replace"))
                if path in whole or touched[path] & set(
                    range(f.sentence.line, f.sentence.last_line + 1))]
    return findings
