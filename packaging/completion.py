"""Completion of command lines in bash, zsh and fish, from the program's help."""

from __future__ import annotations

import shlex

from program_help import Command, Program, Term

FIRST_LINE = "completion of winnow for {}, made from its --help"


def bash(program: Program) -> str:
    commands, flags, values = [], [], {}
    for command in program.root.all():
        at = " ".join(command.path)
        if command.commands:
            names = " ".join(below.path[-1] for below in command.commands)
            commands.append(f"    {_quote(at)}) echo {_quote(names)} ;;")
        names = " ".join(name for flag in command.flags for name in flag.names)
        flags.append(f"    {_quote(at)}) echo {_quote(names)} ;;")
        for number, word in enumerate(command.words, 1):
            key = _quote(f"{at} {number}")
            if word.repeated:  # _winnow counts to nine
                key = _quote(at + " ") + f"[{number}-9]"
            values.setdefault(_bash_kind(program, word), []).append(key)
        for flag in command.flags:
            if flag.takes_value:
                values.setdefault(_bash_kind(program, flag), []).append(
                    _quote(f"{at} {flag.name}"))
    cases = ["    {}) echo {} ;;".format(
        " | \\\n    ".join(keys), _quote(kind))
        for kind, keys in values.items()]
    return BASH.format(first_line=FIRST_LINE.format("bash"),
                       commands="\n".join(commands), flags="\n".join(flags),
                       values="\n".join(cases))


def zsh(program: Program) -> str:
    functions = [_zsh_function(program, command)
                 for command in reversed(program.root.all())]
    return "\n".join(["#compdef winnow", "# " + FIRST_LINE.format("zsh"), ""]
                     + functions + ['_winnow "$@"', ""])


def fish(program: Program) -> str:
    lines = [FISH.format(first_line=FIRST_LINE.format("fish"))]
    for command in program.root.all():
        at = " ".join(command.path)
        for below in command.commands:
            lines.append(f"complete -c winnow -n {_quote(f'__winnow_ends {at}'.strip())}"
                         f" -a {below.path[-1]} -d {_fish_quote(below.about)}")
        condition = _quote(f"__winnow_at {at}" if at else "__winnow_ends")
        for word in command.words:
            lines.append(f"complete -c winnow -n {condition}"
                         + _fish_values(program, word))
        for flag in command.flags:
            names = "".join(
                f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
                for name in flag.names)
            lines.append(f"complete -c winnow -n {condition}{names}"
                         + _fish_values(program, flag)
                         + f" -d {_fish_quote(flag.help)}")
    return "\n".join(lines) + "\n"


def _values(program: Program, term: Term) -> list[str]:
    """What can be typed; none where that is a path or free."""
    if term.kind == "choice":
        return term.choices
    if term.kind == "selector":
        automatic = ["auto"] if term.is_flag else []
        return automatic + list(program.selectors)
    return []


_quote = shlex.quote


def _bash_kind(program: Program, term: Term) -> str:
    return " ".join(_values(program, term)) or "@" + term.kind


def _zsh_function(program: Program, command: Command) -> str:
    name = "_".join(("_winnow",) + command.path)
    specs = [_zsh_flag(program, flag) for flag in command.flags]
    for number, word in enumerate(command.words, 1):
        place = "*" if word.repeated else str(number)
        specs.append(_quote(f"{place}:{word.name}:{_zsh_action(program, word)}"))
    if not command.commands:
        return "\n".join([f"{name}() {{", "  _arguments -S \\",
                          " \\\n".join(f"    {spec}" for spec in specs), "}",
                          ""])
    names = " ".join(_quote(below.path[-1] + ":" + below.about)
                     for below in command.commands)
    cases = "\n".join(f"    {below.path[-1]}) {name}_{below.path[-1]} ;;"
                      for below in command.commands)
    specs += ["'1:command:->command'", "'*::word:->below'"]
    return "\n".join([
        f"{name}() {{", "  local curcontext=$curcontext state line",
        "  local -A opt_args", f"  local -a commands=({names})",
        "  _arguments -C -S \\", " \\\n".join(f"    {spec}" for spec in specs),
        "  case $state in", "  command) _describe command commands ;;",
        "  below) case $words[1] in", cases, "    esac ;;", "  esac", "}", ""])


def _zsh_flag(program: Program, flag: Term) -> str:
    about = flag.help
    for character in "\\[]":
        about = about.replace(character, "\\" + character)
    if not flag.takes_value:
        names = ("{" + ",".join(flag.names) + "}" if len(flag.names) > 1
                 else flag.name)
        ends = "(- *)" if flag.name in ("--help", "--version") else ""
        return (_quote(ends) if ends else "") + names + _quote(f"[{about}]")
    colons = "::" if flag.value_is_optional else ":"
    name = flag.value.strip("[]").replace(":", r"\:")
    return _quote(f"*{flag.name}=[{about}]{colons}{name}:"
                  + _zsh_action(program, flag))


def _zsh_action(program: Program, term: Term) -> str:
    values = _values(program, term)
    if values:
        return "(" + " ".join(values) + ")"
    return {"file": "_files", "folder": "_files -/"}.get(term.kind, " ")


def _fish_values(program: Program, term: Term) -> str:
    values = _values(program, term)
    if values:
        return " -x -a " + _quote(" ".join(values))
    if term.kind == "file":
        return " -r -F" if term.is_flag else " -F"
    if term.kind == "folder":
        return " -x -a '(__fish_complete_directories)'"
    return " -x" if term.is_flag and term.takes_value else ""


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


BASH = r"""# {first_line}

_winnow_commands() {{
  case $1 in
{commands}
  esac
}}

_winnow_flags() {{
  case $1 in
{flags}
  esac
}}

# What follows a flag of a command, or is its Nth word.
_winnow_values() {{
  case $1 in
{values}
  esac
}}

_winnow() {{
  # Words with = and : in them come in pieces.
  local words=() piece glued=
  for piece in "${{COMP_WORDS[@]:1:COMP_CWORD}}"; do
    if [[ ${{#words[@]}} -gt 0 && ( -n $glued || $piece == [=:]* ) ]]; then
      words[-1]+=$piece
    else
      words+=("$piece")
    fi
    glued=
    [[ $piece == *[=:] ]] && glued=1
  done
  local current=${{words[-1]}} at='' flag='' num_words=0 word i
  for ((i = 0; i + 1 < ${{#words[@]}}; ++i)); do
    word=${{words[i]}}
    if [[ $word == --*=* ]]; then
      flag=
    elif [[ $word == -* ]]; then
      flag=
      [[ -n $(_winnow_values "$at $word") ]] && flag=$word
    elif [[ -n $flag ]]; then
      flag=
    elif [[ -n $(_winnow_commands "$at") ]]; then
      at+=${{at:+ }}$word
    elif ((num_words < 8)); then
      ((++num_words))
    fi
  done

  # What stands already before the piece that readline replaces.
  local before=${{current%"${{COMP_WORDS[COMP_CWORD]}}"}} values
  if [[ $current == --*=* ]]; then
    values=$(_winnow_values "$at ${{current%%=*}}")
    [[ ${{COMP_WORDS[COMP_CWORD]}} == [=:] ]] && before=$current
    before=${{before#"${{current%%=*}}="}}
    current=${{current#*=}}
  elif [[ $current == -* ]]; then
    values=$(_winnow_flags "$at")
  elif [[ -n $flag ]]; then
    values=$(_winnow_values "$at $flag")
  else
    values=$(_winnow_commands "$at")
    values=${{values:-$(_winnow_values "$at $((num_words + 1))")}}
  fi
  COMPREPLY=()
  case $values in
    @file) compopt -o default ;;
    @folder) compopt -o dirnames ;;
    @*) ;;
    *)
      local value
      for value in $values; do
        [[ $value == "$current"* ]] && COMPREPLY+=("${{value#"$before"}}")
      done ;;
  esac
}}

complete -F _winnow winnow
"""

FISH = """# {first_line}

# Whether the command line's command is this one.
function __winnow_at
    set -l words (commandline -opc)
    set -l last (math (count $argv) + 1)
    test (count $words) -ge $last
    and test "$words[1..$last]" = "$words[1] $argv"
end

# Whether it ends there.
function __winnow_ends
    set -l words (commandline -opc)
    test (count $words) -eq (math (count $argv) + 1)
    and begin
        test (count $argv) -eq 0
        or __winnow_at $argv
    end
end

complete -c winnow -f
"""
