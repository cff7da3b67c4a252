"""What the shells offer where Tab is pressed."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.package import MADE, WINNOW
import program_help

# Prints what `winnow` completes to, and the kind of paths asked of readline.
BASH = r"""
source "$1"; shift
compopt() { echo "paths: $*"; }
COMP_WORDBREAKS=$' \t\n"'"'"'><=;|&(:'
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_winnow
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
"""


def bash(*words: str) -> list[str]:
    """As readline cuts them: "--dtype=a" is "--dtype", "=", "a"."""
    done = subprocess.run(
        ["bash", "--norc", "-uc", BASH, "bash", MADE / "winnow.bash", "winnow",
         *words], text=True, check=True, capture_output=True, timeout=60)
    assert done.stderr == "", done.stderr
    return done.stdout.splitlines()


def fish(line: str) -> list[str]:
    script = f"source {MADE}/winnow.fish; complete -C '{line}'"
    done = subprocess.run(["fish", "--no-config", "-c", script], text=True,
                          check=True, capture_output=True, timeout=60)
    assert done.stderr == "", done.stderr
    return [offer.split("\t")[0] for offer in done.stdout.splitlines()]


# An interactive shell whose Tab notes in files what is offered.
ZSH = r"""
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "cd ${(q)3}; PS1= PS2= fpath=(${(q)1} \$fpath)"
zpty -w shell 'autoload -Uz compinit; compinit -u -D'
zpty -w shell 'compadd() {
  local -a found
  [[ "$*" == *-[OAD]\ * ]] || builtin compadd -O found "$@"
  (( $#found )) && print -rl -- $found >>offers
  builtin compadd "$@" }'
zpty -w shell 'note() { zle complete-word; print -r -- "$BUFFER" >line
  BUFFER=; print >ended }'
zpty -w shell 'zle -N note; bindkey "^I" note; print >ready'
repeat 400; do [[ -e $3/ready ]] && break; sleep 0.05; done
zpty -w -n shell "$2"$'\t'
repeat 400; do [[ -e $3/ended ]] && break; sleep 0.05; done
zpty -d shell
"""


def zsh(line: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", MADE, line,
                               folder], text=True, check=True,
                              capture_output=True, timeout=60)
        assert Path(folder, "ended").exists(), done.stderr
        offers = Path(folder, "offers")
        return sorted(set(offers.read_text().split())) if offers.exists() else []


class BashTest(unittest.TestCase):

    def test_commands_and_those_below_them(self):
        self.assertEqual(bash("ge"), ["generate"])
        self.assertIn("serve", bash(""))
        self.assertIn("throughput", bash("bench", ""))
        self.assertEqual(bash("bench", "thr"), ["throughput"])
        self.assertEqual(bash("walk", ""), [])

    def test_every_flag_of_every_command(self):
        for command in program_help.read_program(WINNOW).root.all():
            text = subprocess.run([WINNOW, *command.path, "--help"], text=True,
                                  check=True, capture_output=True).stdout
            flags = set(re.findall(r"(?m)^  (?:-h,)?(--[a-z-]+)", text))
            self.assertTrue(flags)
            with self.subTest(command=command.path):
                self.assertEqual(set(bash(*command.path, "--")), flags)

    def test_values_that_are_one_of_a_few(self):
        self.assertEqual(bash("generate", "--dtype", "fl"),
                         ["float16", "float32"])
        self.assertEqual(bash("serve", "MODEL", "--device", "c"),
                         ["cpu", "cuda"])
        self.assertEqual(bash("eval", "MODEL", "--match", ""),
                         ["contains", "exact", "regex"])

    def test_a_value_behind_an_equals_sign(self):
        self.assertEqual(bash("generate", "--dtype", "=", "fl"),
                         ["float16", "float32"])
        self.assertEqual(bash("generate", "--dtype", "="),
                         ["auto", "bfloat16", "float16", "float32"])
        self.assertEqual(bash("info", "--json", "=", "fa"),
                         ["paths: -o default"])

    def test_selectors(self):
        self.assertEqual(bash("generate", "--select", "qu"), ["quest"])
        self.assertIn("auto", bash("serve", "--select", ""))
        self.assertEqual(bash("select", "list", "tid"), ["tidal"])
        self.assertEqual(bash("generate", "--select", "quest", ":", "b"), [])
        # And what follows such a value is not taken for a part of it.
        self.assertEqual(bash("generate", "--select", "quest", ":",
                              "budget", "=", "2K", "--top-p", "1", "--to"),
                         ["--top-p", "--top-k"])

    def test_paths(self):
        folder, file = ["paths: -o dirnames"], ["paths: -o default"]
        self.assertEqual(bash("generate", "lab"), folder)
        self.assertEqual(bash("generate", "--seed", "1", "--quiet", ""), folder)
        self.assertEqual(bash("generate", "--kv-disk", ""), folder)
        self.assertEqual(bash("generate", "--prompt-file", ""), file)
        self.assertEqual(bash("generate", "--json", ""), file)
        self.assertEqual(bash("eval", ""), folder)
        self.assertEqual(bash("eval", "MODEL", ""), file)
        self.assertEqual(bash("eval", "MODEL", *["FILE"] * 20, ""), file)

    def test_nothing_where_a_word_is_free_or_none_is_expected(self):
        self.assertEqual(bash("generate", "--prompt", "MOD"), [])
        self.assertEqual(bash("generate", "--seed", ""), [])
        self.assertEqual(bash("generate", "MODEL", ""), [])


@unittest.skipUnless(shutil.which("fish"), "no fish here")
class FishTest(unittest.TestCase):

    def test_offers_what_bash_offers(self):
        self.assertEqual(fish("winnow ge"), ["generate"])
        self.assertEqual(fish("winnow bench thr"), ["throughput"])
        self.assertIn("--dtype", fish("winnow generate --"))
        self.assertNotIn("--port", fish("winnow generate --"))
        self.assertIn("--port", fish("winnow serve MODEL --"))
        self.assertNotIn("--version", fish("winnow serve --"))
        self.assertIn("--version", fish("winnow --"))
        self.assertEqual(fish("winnow generate --dtype fl"),
                         ["float16", "float32"])
        self.assertEqual(fish("winnow generate --select qu"), ["quest"])
        self.assertEqual(fish("winnow select list tid"), ["tidal"])


@unittest.skipUnless(shutil.which("zsh"), "no zsh here")
class ZshTest(unittest.TestCase):

    def test_offers_what_bash_offers(self):
        self.assertEqual(zsh("winnow ge"), ["generate"])
        self.assertEqual(zsh("winnow bench thr"), ["throughput"])
        self.assertIn("--dtype", zsh("winnow generate --d"))
        self.assertEqual(zsh("winnow generate --dtype fl"),
                         ["float16", "float32"])
        self.assertEqual(zsh("winnow generate --dtype=fl"),
                         ["float16", "float32"])
        self.assertEqual(zsh("winnow generate --select qu"), ["quest"])
        self.assertEqual(zsh("winnow select list tid"), ["tidal"])


if __name__ == "__main__":
    unittest.main()
