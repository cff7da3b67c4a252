"""The manual page winnow(1), in troff's man macros, from the program's help."""

from __future__ import annotations

from program_help import Command, Program, Term


def man_page(program: Program) -> str:
    root = program.root
    title = root.about.partition(": ")[2] or root.about
    runnable = [command for command in root.all()[1:] if not command.commands]
    lines = [f'.TH WINNOW 1 "" "winnow {program.version}" "User commands"',
             ".SH NAME", rf"winnow \- {_text(title)}", ".SH SYNOPSIS"]
    for command in runnable:
        lines += [".B " + _text(" ".join(("winnow",) + command.path)),
                  _synopsis(command), ".br"]
    lines += [".SH DESCRIPTION", _text(root.about) + ".",
              "A command is named first; its flags may stand in any order.",
              ".SH OPTIONS"]
    for flag in root.flags:
        lines += _entry(flag)
    lines.append(".SH COMMANDS")
    for command in runnable:
        lines += _command(command)
    lines += [".SH SELECTORS",
              "What a selection may name; each has parameters, which",
              ".B winnow select list", "explains."]
    for name, about in program.selectors.items():
        lines += [".TP", rf"\fB{_text(name)}\fR", _text(about)]
    heading, _, statuses = root.footer.partition(": ")
    lines += [f".SH {heading.upper()}", _text(statuses)]
    return "\n".join(lines) + "\n"


def _command(command: Command) -> list[str]:
    lines = [".SS " + _text(" ".join(("winnow",) + command.path)),
             _text(command.about) + "."]
    for term in command.words + command.flags:
        if "--help" not in term.names:
            lines += _entry(term)
    if command.footer:
        lines += [".PP", _text(command.footer)]
    return lines


def _synopsis(command: Command) -> str:
    """What follows the command in its usage: "[OPTIONS] MODEL"."""
    words = command.usage.split()[1 + len(command.path):]
    return " ".join(_text(word) if word.startswith("[")
                    else rf"\fI{_text(word)}\fR" for word in words)


def _entry(term: Term) -> list[str]:
    names = ", ".join(rf"\fB{_text(name)}\fR" if term.is_flag
                      else rf"\fI{_text(name)}\fR" for name in term.names)
    value = rf" \fI{_text(term.value)}\fR" if term.value else ""
    more = " ..." if term.repeated else ""
    required = " (required)" if term.is_flag and term.required else ""
    return [".TP", names + value + more, _text(term.help) + required + "."]


def _text(text: str) -> str:
    """`text` as troff prints it: hyphens that can be typed, no requests."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    escaped = escaped.replace("'", r"\(aq").replace("`", r"\(ga")
    escaped = escaped.replace("^", r"\(ha").replace("~", r"\(ti")
    return r"\&" + escaped if escaped.startswith((".", r"\(aq")) else escaped
