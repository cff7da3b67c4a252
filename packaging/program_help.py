"""The program's own description of its commands, read from its --help.

What follows a flag is told by the name of its value: "one|other" is one of
these ("cuda[:N]" stands for "cuda"), FILE a file, FOLDER and DIR a folder, SPEC
and SELECTOR a selector's name. A line that is not understood is an error, so
that no manual and no completion can silently lack a flag.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field

PATH_KINDS = {"FILE": "file", "FOLDER": "folder", "DIR": "folder"}
SELECTOR_NAMES = {"SPEC", "SELECTOR"}


class HelpError(Exception):
    """A help text that has another form than this reads."""


@dataclass(frozen=True)
class Term:
    """A flag, or a word that needs none, and what --help says of it."""
    names: tuple[str, ...]  # ("-h", "--help"), ("MODEL",)
    value: str  # "N", "[FILE]", "one|other"; "" where it takes none
    required: bool
    repeated: bool
    help: str

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def is_flag(self) -> bool:
        return self.name.startswith("-")

    @property
    def takes_value(self) -> bool:
        return not self.is_flag or self.value != ""

    @property
    def value_is_optional(self) -> bool:
        return self.value.startswith("[")

    @property
    def kind(self) -> str:
        """"choice", "file", "folder", "selector" or "text"."""
        if "|" in self.value:
            return "choice"
        name = self.value.strip("[]") or self.name
        if name in SELECTOR_NAMES:
            return "selector"
        return PATH_KINDS.get(name, "text")

    @property
    def choices(self) -> list[str]:
        return [re.sub(r"\[.*?\]", "", choice)
                for choice in self.value.split("|")]


@dataclass
class Command:
    path: tuple[str, ...]  # ("bench", "step"); () is the program
    about: str
    usage: str
    words: list[Term] = field(default_factory=list)
    flags: list[Term] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    footer: str = ""

    def all(self) -> list[Command]:
        """This command and all below it, in the order of --help."""
        return [self] + [each for command in self.commands
                         for each in command.all()]


@dataclass
class Program:
    root: Command
    version: str  # "0.1.0"
    selectors: dict[str, str]  # name: title


def read_program(winnow: str) -> Program:
    version = _output(winnow, "--version").split()
    selectors = dict(re.findall(r"(?m)^(\S+): (.+)$",
                                _output(winnow, "select", "list")))
    if len(version) != 2 or "dense" not in selectors:
        raise HelpError(f"{winnow} is no program that this can describe")
    return Program(_read_command(winnow, ()), version[1], selectors)


def parse_help(path: tuple[str, ...], text: str) -> Command:
    """One command; those below it are not read, and lack their terms."""
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    if len(lines) < 2 or not lines[1].startswith("Usage: "):
        raise HelpError(f"{path}: no usage in the second line")
    command = Command(path, lines[0], lines[1].removeprefix("Usage: "))
    column = next((line.index("Print this help") for line in lines
                   if "Print this help" in line), 0)
    section = ""
    for name, help_text in _terms(lines[2:], column):
        if help_text is None:
            section = name
        elif section == "Positionals:":
            command.words.append(_term(path, name, help_text))
        elif section == "Options:":
            command.flags.append(_term(path, name, help_text))
        elif section == "Subcommands:":
            command.commands.append(Command(path + (name,), help_text, ""))
        else:
            raise HelpError(f"{path}: {name!r} stands in no section")
    if section not in ("Positionals:", "Options:", "Subcommands:"):
        command.footer = section
    if not any(flag.name == "--help" for flag in command.flags):
        raise HelpError(f"{path}: no --help among its flags")
    return command


def _terms(lines: list[str], column: int):
    """(term, its help), and (line, None) for what is not indented."""
    pending = None
    for line in filter(None, lines):
        continues = line[:column].strip() == ""
        if continues != bool(pending):
            raise HelpError(f"{pending or line!r} is no term with its help")
        if not line.startswith(" "):
            yield line, None
        elif continues:
            yield pending, line.strip()
            pending = None
        elif len(line) > column and line[column - 1] == " ":
            yield line[:column].strip(), line[column:].strip()
        else:  # too long to have its help beside it
            pending = line.strip()
    if pending:
        raise HelpError(f"{pending!r} has no help")


def _term(path: tuple[str, ...], text: str, help_text: str) -> Term:
    match = re.fullmatch(
        r"(?P<names>-[\w,-]+|\w+)(?: (?P<value>(?!REQUIRED)[^\s.]+))?"
        r"(?P<repeated> ?\.\.\.)?(?P<required> REQUIRED)?", text)
    if not match:
        raise HelpError(f"{path}: cannot read {text!r}")
    return Term(names=tuple(match["names"].split(",")),
                value=match["value"] or "",
                required=bool(match["required"]),
                repeated=bool(match["repeated"]), help=help_text)


def _read_command(winnow: str, path: tuple[str, ...]) -> Command:
    command = parse_help(path, _output(winnow, *path, "--help"))
    command.commands = [_read_command(winnow, below.path)
                        for below in command.commands]
    return command


def _output(*arguments: str) -> str:
    return subprocess.run(arguments, check=True, text=True, timeout=60,
                          capture_output=True).stdout
