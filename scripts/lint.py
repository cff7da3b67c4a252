#!/usr/bin/env python3
"""Checks the rules of the house that a machine can check (docs/style.md).

    scripts/lint.py             all checks; prints each finding, exits 1
    scripts/lint.py --format    formats the C++ sources in place
    scripts/lint.py --since REV
                                checks the sentences of lines that changed
                                since a commit (the one before HEAD if left out)
    scripts/lint.py --sentences [PATH]
                                lists faulty sentences of all files there
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from lint_classes import check_classes
from lint_joined import joined_sources, said_twice
from lint_sentences import check_sentences, report

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = ROOT / "tests/mutants"
SOURCE_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}

# docs/design.md section 2: what a module may include, besides itself. The
# paths are read as prefixes, so "backend" alone does not open "backend/cpu".
ARROWS = {
    "base": set(),
    "tensor": {"base"},
    "backend": {"tensor", "base"},
    "backend/cpu": {"backend", "tensor", "base"},
    "backend/cuda": {"backend", "tensor", "base"},
    "kv": {"base"},
    "cache": {"kv", "backend", "tensor", "base"},
    "simulate": {"kv", "backend", "tensor", "base"},
    "sparse": {"backend", "tensor", "base"},
    "model": {"sparse", "cache", "backend", "tensor", "base"},
    "text": {"base"},
    "engine": {"model", "cache", "kv", "sparse", "backend", "tensor", "base"},
    "serve": {"engine", "text", "model", "base"},
    "load": {"base"},
    "cli/command": {
        "serve", "load", "engine", "text", "model", "cache", "kv", "sparse",
        "backend", "backend/cpu", "backend/cuda", "tensor", "base",
    },
    "cli/task": {"cli/command", "text", "model", "base"},
    "bench": {
        "cli/command", "cli/task", "serve", "load", "engine", "text", "model",
        "cache", "kv", "sparse", "backend", "tensor", "base",
    },
    "cli": {
        "bench", "cli/command", "cli/task", "serve", "load", "engine", "text",
        "model", "cache", "simulate", "kv", "sparse", "backend", "tensor", "base",
    },
}
# Tests may also make a real backend and the pieces below them by hand.
TEST_ARROWS = {
    "backend": {"backend/cpu"},
    "cache": {"backend/cpu"},
    "simulate": {"backend/cpu"},
    "model": {"backend/cpu", "kv"},
    "engine": {"backend/cpu", "text"},
    "serve": {"backend/cpu"},
    "bench": {"backend/cpu"},
    "cli": {"backend/cpu"},
}
# The folders of a module, as far as their order is held: what each may include
# of the others. "" is the module itself. Tests, and what stands in testing/,
# may include all. The stages of backend/cpu and backend/cuda have no order.
FOLDER_ARROWS = {
    "backend": {
        "contract": set(),
        "": {"contract"},
        "checked": {"", "contract"},
        "conformance": {"", "contract"},
    },
    "cache": {"disk": set(), "host": set(), "device": {"host"}},
    "text": {
        "rust": set(),
        "": {"rust"},
        "tokenize": {"", "rust"},
        "grammar": {"", "rust", "tokenize"},
        "tools": {"", "rust", "tokenize", "grammar"},
    },
    "model": {"config": set(), "weights": {"config"},
              "forward": {"config", "weights"}},
    "sparse": {"spec": set(), "selectors": {"spec"}},
    "engine": {
        "schedule": set(),
        "selection": set(),
        "request": {"schedule", "selection"},
        "residency": {"schedule", "selection", "request"},
        "run": {"schedule", "selection", "request", "residency"},
        "": {"schedule", "selection", "request", "residency", "run"},
    },
    "serve": {
        "http": set(),
        "metrics": set(),
        "request": {"http"},
        "loop": {"metrics"},
        "answer": {"http", "request", "loop"},
        "api": {"http", "metrics", "request", "loop", "answer"},
    },
    "cli": {
        "eval": set(), "generate": set(), "info": set(), "serve": set(),
        "simulate": {"eval"},
        "": {"eval", "generate", "info", "serve", "simulate"},
    },
}
# Files of one folder of src/, CMakeLists.txt apart.
MAX_FLAT_FILES = 60
# Folders whose headers are not yet held whole to the rules for sentences. The
# lines that a change touches there are.
SENTENCES_TO_MEND = {
    "src/backend", "src/engine", "src/model/forward", "src/model/weights",
}

MODEL_NAMES = re.compile(r"llama|qwen|mistral|minicpm|deepseek", re.I)
MODEL_MODULES_BELOW = {"base", "tensor", "backend", "backend/cpu",
                     "backend/cuda", "kv", "cache", "simulate", "sparse"}
SELECTOR_NAMES = re.compile(
    r"\b(quest|arkvale|infllm\w*|snapkv|shadowkv|retroinfer|clusterkv"
    r"|seerattention|tidal|moba)\b", re.I)
SELECTOR_MODULES_BELOW = MODEL_MODULES_BELOW - {"sparse", "simulate"}
VAGUE_NAMES = re.compile(
    r"(^|_)(utils?|helpers?|common|fast|optimized|new|v2|misc)(_|\.|$)")
VAGUE_TYPES = re.compile(
    r"^(Fast|New|Optimized|Common)[A-Z]"
    r"|(Utils?|Helpers?|Common|Fast|Optimized|V2)$")

MAX_FILE_LINES = 800
USUAL_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_KERNEL_LINES = 100
MAX_PARAMETERS = 6


LEXEMES = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)


def sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard",
         "src", "tests"],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return sorted(ROOT / name for name in listed
                  if Path(name).suffix in SOURCE_SUFFIXES
                  and (ROOT / name).exists())


def module_of(path: Path) -> str | None:
    """The module of a file under src/: the longest known prefix."""
    parts = path.relative_to(ROOT / "src").parts[:-1]
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in ARROWS:
            return name
    return None


def blank_comments(text: str) -> str:
    """Comments and literals replaced by spaces; line breaks kept."""
    return LEXEMES.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def without_comments(text: str) -> str:
    """Comments alone replaced by spaces, line breaks kept."""
    return LEXEMES.sub(
        lambda m: re.sub(r"[^\n]", " ", m.group())
        if m.group().startswith("/") else m.group(), text)


def check_arrows(path: Path, text: str) -> list[str]:
    module = module_of(path)
    if module is None:
        return [f"{path}: not in a module of docs/design.md section 2"]
    allowed = ARROWS[module] | {module}
    if path.stem.endswith(("_test", "_fuzz")):
        allowed = allowed | TEST_ARROWS.get(module, set())
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
        if not match or not (ROOT / "src" / match[1]).exists():
            continue
        target = module_of(ROOT / "src" / match[1])
        if target not in allowed:
            findings.append(f"{path}:{number}: {module} must not include "
                            f"{target} ({match[1]})")
    return findings


def folder_of(path: Path, module: str) -> str:
    """The folder of a module, as FOLDER_ARROWS has it, that a file is in."""
    parts = path.relative_to(ROOT / "src" / module).parts[:-1]
    return parts[0] if parts else ""


def check_folders(path: Path, text: str) -> list[str]:
    """Arrows between the folders of one module."""
    module = module_of(path)
    arrows = FOLDER_ARROWS.get(module or "", {})
    if not arrows or path.stem.endswith(("_test", "_fuzz", "_case")):
        return []
    folder = folder_of(path, module)
    if folder == "testing":
        return []
    if folder not in arrows:
        return [f"{path}: {folder}/ is no folder of {module} in FOLDER_ARROWS"]
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        target = ROOT / "src" / match[1] if match else None
        if not target or not target.exists() or module_of(target) != module:
            continue
        to = folder_of(target, module)
        if to != folder and to not in arrows[folder]:
            findings.append(f"{path}:{number}: {module}/{folder} must not "
                            f"include {module}/{to} ({match[1]})")
    return findings


def check_flat(paths: list[Path]) -> list[str]:
    """Folders of src/ with more files than a reader can take in."""
    counts: dict[Path, int] = {}
    for path in paths:
        if path.is_relative_to(ROOT / "src"):
            counts[path.parent] = counts.get(path.parent, 0) + 1
    return [f"{folder}: {count} files, at most {MAX_FLAT_FILES} in a folder"
            for folder, count in sorted(counts.items())
            if count > MAX_FLAT_FILES]


def parameters_of(header: str) -> int:
    """Commas at depth one of the parameter list that ends `header`."""
    opening = header.find("(")
    while opening >= 0:
        depth, count, closing = 0, 1, -1
        for i in range(opening, len(header)):
            if header[i] in "(<[{":
                depth += 1
            elif header[i] in ")>]}" and header[i - 1] != "-":
                depth -= 1
            elif header[i] == "," and depth == 1:
                count += 1
            if depth == 0:
                closing = i
                break
        if closing < 0:
            return 0
        inner = header[opening + 1:closing].strip()
        if inner in ("", "void"):
            count = 0
        rest = header[closing + 1:].strip()
        if not rest.startswith("("):
            return count
        opening = header.find("(", closing)
    return 0


NOT_FUNCTIONS = re.compile(
    r"^\s*(if|for|while|switch|catch|else|do|try|namespace|class|struct|union"
    r"|enum|extern\s*$|return)\b")


def functions(text: str):
    """Yields (first line, last line, header) of each function definition."""
    stack: list[tuple[bool, int, str]] = []  # (is scope, line, header)
    header_start, line = 0, 1
    for i, char in enumerate(text):
        if char == "\n":
            line += 1
        elif char == "{":
            header = text[header_start:i].strip()
            in_scope = all(scope for scope, _, _ in stack)
            header = re.sub(r"^(public|private|protected)\s*:", "",
                            re.sub(r"(?m)^\s*#.*$", "", header).strip())
            header = header.strip()
            scope = bool(re.search(
                r"\b(namespace|class|struct|union|enum)\b[^;()=]*$", header)
                or header in ("", 'extern "C"', "extern"))
            span = text[header_start:i]
            access = re.match(r"\s*(public|private|protected)\s*:", span)
            span = span[access.end():] if access else span
            indent = i - header_start - len(span.lstrip())
            first = text.count("\n", 0, header_start + indent) + 1
            stack.append((in_scope and scope, first, header))
            header_start = i + 1
        elif char == "}":
            if stack:
                scope, first, header = stack.pop()
                outer = all(s for s, _, _ in stack)
                if (outer and not scope and "(" in header
                        and not NOT_FUNCTIONS.match(header)
                        and not re.search(r"=\s*(\{|$)", header)):
                    yield first, line, header
            header_start = i + 1
        elif char == ";":
            header_start = i + 1


def check_shape(path: Path, text: str) -> list[str]:
    findings = []
    num_lines = text.count("\n")
    if num_lines > MAX_FILE_LINES:
        findings.append(f"{path}:1: a file has at most {MAX_FILE_LINES} "
                        f"lines, this one {num_lines}")
    is_test = path.stem.endswith("_test")
    for first, last, header in functions(blank_comments(text)):
        name = re.split(r"[\s*&]", header.split("(")[0].strip())[-1]
        kernel = "__global__" in header
        limit = MAX_KERNEL_LINES if kernel else MAX_FUNCTION_LINES
        if last - first + 1 > limit:
            findings.append(f"{path}:{first}: {name} has {last - first + 1} "
                            f"lines, at most {limit}")
        if parameters_of(header) > MAX_PARAMETERS and not is_test:
            findings.append(f"{path}:{first}: {name} takes "
                            f"{parameters_of(header)} parameters, at most "
                            f"{MAX_PARAMETERS}; then a struct")
    return findings


def check_names(path: Path, text: str) -> list[str]:
    findings = []
    if any(VAGUE_NAMES.search(part) for part in path.relative_to(ROOT).parts):
        findings.append(f"{path}:1: the name says nothing about the thing")
    for match in re.finditer(r"\b(?:class|struct)\s+(\w+)", text):
        if VAGUE_TYPES.search(match[1]):
            line = text.count("\n", 0, match.start()) + 1
            findings.append(f"{path}:{line}: {match[1]}: a name that says "
                            "nothing about the thing")
    if "src" in path.relative_to(ROOT).parts[:1]:
        module = module_of(path)
        # A selector cites its source, which may be a model's file.
        code = (blank_comments if module == "sparse" else without_comments)(text)
        for number, line in enumerate(code.splitlines(), 1):
            for what, names, modules in [
                    ("model", MODEL_NAMES, MODEL_MODULES_BELOW),
                    ("selector", SELECTOR_NAMES, SELECTOR_MODULES_BELOW)]:
                if module in modules and names.search(line):
                    below = {"model": "model", "selector": "sparse"}[what]
                    findings.append(f"{path}:{number}: a {what}'s name below "
                                    f"{below}/: {line.strip()}")
    return findings


def check_preprocessor(path: Path, text: str) -> list[str]:
    findings = []
    if path.suffix in (".h", ".cuh"):
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(r"\s*#\s*(if|ifdef|elif)\b", line):
                if "NDEBUG" not in line:
                    findings.append(f"{path}:{number}: no #if in a header")
            if re.match(r"\s*#\s*ifndef\b", line) and not re.search(r"_(H|CUH)_$",
                                                             line.strip()):
                findings.append(f"{path}:{number}: no #if in a header")
        if "#ifndef WINNOW_" not in text and "rust" not in path.parts:
            findings.append(f"{path}:1: no include guard")
    in_cuda = "cuda" in path.parts
    if path.suffix in (".cu", ".cuh") and not in_cuda:
        findings.append(f"{path}:1: device code lives in backend/cuda")
    if path.suffix not in (".cu", ".cuh") and "emulated" not in path.parts:
        code = blank_comments(text)
        if found := re.search(r"__global__|__device__|<<<", code):
            line = code.count("\n", 0, found.start()) + 1
            findings.append(f"{path}:{line}: device code lives in .cu and "
                            ".cuh files")
    if in_cuda and "device" in path.parts:
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r'\s*#include "([^"]+)"', line)
            if match and not (match[1].startswith("backend/cuda/device/")
                              or match[1].startswith("backend/contract/")
                      or match[1] == "base/ids.h"):
                findings.append(f"{path}:{number}: device/ includes only "
                                "itself, backend/contract/ and base/ids.h")
    return findings


def check_joined() -> list[str]:
    findings = []
    for module in ARROWS:
        for sources in joined_sources(ROOT / "src" / module):
            findings += said_twice({path: path.read_text() for path in sources})
    return findings


def listed_sources(folder: Path, text: str) -> set[Path]:
    """What a folder's CMakeLists.txt names, but for properties of sources."""
    text = re.sub(r"#.*", "", text)
    text = re.sub(r"set_source_files_properties\(.*?\)", "", text, flags=re.S)
    values = {name: words.split() for name, words in re.findall(
        r"(?:set|foreach)\((\w+)\s+([^()]*)\)", text)}
    values["PROJECT_SOURCE_DIR"] = [str(ROOT)]
    listed = set()
    for name in re.findall(r"(?:[\w./]|\$\{\w+\})+\.c[cu]\b", text):
        names = [name]
        for variable in re.findall(r"\$\{(\w+)\}", name):
            names = [one.replace(f"${{{variable}}}", value) for one in names
                     for value in values.get(variable, [])]
        listed.update((folder / one).resolve() for one in names)
    return listed


def check_listed(paths: list[Path], lists: dict[Path, str]) -> list[str]:
    """Sources that no CMakeLists.txt, by its folder, names: nobody compiles
    them."""
    listed = set()
    for folder, text in lists.items():
        listed |= listed_sources(folder, text)
    return [f"{path}:1: in no CMakeLists.txt" for path in paths
            if path.suffix in (".cc", ".cu") and path not in listed]


def check_lengths(paths: list[Path]) -> list[str]:
    long_files = [p for p in paths
                  if p.read_text().count("\n") > USUAL_FILE_LINES]
    if len(long_files) * 10 > len(paths):
        return [f"{len(long_files)} of {len(paths)} files are longer than "
                f"{USUAL_FILE_LINES} lines, at most one in ten: "
                + ", ".join(p.name for p in long_files)]
    return []


def check_format(paths: list[Path], in_place: bool) -> list[str]:
    formatter = ROOT / ".tools/lint/bin/clang-format"
    mode = ["-i"] if in_place else ["--dry-run", "-Werror"]
    done = subprocess.run([formatter, *mode, *map(str, paths)],
                          capture_output=True, text=True)
    if done.returncode == 0:
        return []
    places = sorted(set(re.findall(r"^(\S+?:\d+):\d+: error", done.stderr,
                                   re.M)))
    return [f"{place}: not formatted (make format)" for place in places] or [
        done.stderr.strip()]


def does_apply(patches: list[Path]) -> bool:
    """Whether git can apply each of the patches alone to the tree."""
    if not patches:
        return True  # Without a name, git would read a patch from stdin.
    return subprocess.run(["git", "apply", "--check", *map(str, patches)],
                          cwd=ROOT, capture_output=True).returncode == 0


def check_mutants(patches: list[Path]) -> list[str]:
    """The patches whose bug no longer fits the code it was written for."""
    if does_apply(patches):  # One process for all; it names only the first.
        return []
    return [f"{patch}:1: does not apply; plant the same bug in the code as "
            "it is now" for patch in patches if not does_apply([patch])]


def findings_in(path: Path, text: str) -> list[str]:
    findings = check_shape(path, text) + check_names(path, text)
    findings += check_preprocessor(path, text)
    if path.is_relative_to(ROOT / "src"):
        findings += check_arrows(path, text) + check_folders(path, text)
    return findings


def commit_before() -> str:
    """The commit that the work tree is compared with: HEAD's first parent."""
    known = subprocess.run(["git", "rev-parse", "-q", "--verify", "HEAD~1"],
                           cwd=ROOT, capture_output=True)
    return "HEAD" if known.returncode else "HEAD~1"


def all_findings(paths: list[Path], since: str) -> list[str]:
    texts = {path: path.read_text() for path in paths}
    findings = check_format(paths, in_place=False) if paths else []
    for path, text in texts.items():
        findings += findings_in(path, text)
    findings += check_listed(paths, {
        path.parent: path.read_text() for folder in ("src", "tests")
        for name in ("CMakeLists.txt", "suite.cmake")
        for path in (ROOT / folder).rglob(name)})
    findings += check_lengths(paths) + check_flat(paths)
    findings += check_joined()
    findings += check_classes(
        {path: blank_comments(text) for path, text in texts.items()
         if path.is_relative_to(ROOT / "src")}, module_of)
    findings += check_sentences(ROOT, since, SENTENCES_TO_MEND)
    return findings + check_mutants(sorted(MUTANTS.rglob("*.patch")))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", action="store_true")
    parser.add_argument("--since", metavar="REV", default=commit_before())
    parser.add_argument("--sentences", metavar="PATH", nargs="?", const=".",
                        type=Path)
    options = parser.parse_args()
    if options.sentences:
        return report(ROOT, options.sentences.resolve())
    paths = sources()
    if options.format:
        findings = check_format(paths, in_place=True) if paths else []
        print("\n".join(findings))
        return int(bool(findings))
    findings = all_findings(paths, options.since)
    for finding in findings:
        print(finding.replace(f"{ROOT}/", ""))
    print(f"lint: {len(paths)} files, {len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
