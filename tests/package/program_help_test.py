"""The reading of --help, and the manual page that is made from it."""

import re
import shutil
import subprocess
import unittest

from tests.package import MADE, WINNOW
import man_page
import program_help
from program_help import HelpError, parse_help

HELP = """Does a thing
Usage: winnow thing [OPTIONS] MODEL FILE

Positionals:
  MODEL FOLDER REQUIRED    A folder
  FILE ... REQUIRED        Files

Options:
  -h,--help                Print this help message and exit
  --quiet                  Says nothing
  --json [FILE]            Writes .json, it's \\short\\
  --dtype auto|bfloat16|cuda[:N]
                           One of them
  --disk DIR REQUIRED      A folder

Exit status: 0 done.
"""


class ParseHelpTest(unittest.TestCase):

    def setUp(self):
        self.command = parse_help(("thing",), HELP)
        self.flags = {flag.name: flag for flag in self.command.flags}

    def test_reads_every_kind_of_term(self):
        self.assertEqual(self.command.about, "Does a thing")
        self.assertEqual(self.command.footer, "Exit status: 0 done.")
        self.assertEqual([word.name for word in self.command.words],
                         ["MODEL", "FILE"])
        self.assertEqual([word.repeated for word in self.command.words],
                         [False, True])
        self.assertEqual(list(self.flags),
                         ["--help", "--quiet", "--json", "--dtype", "--disk"])
        self.assertEqual(self.flags["--help"].names, ("-h", "--help"))
        self.assertTrue(self.flags["--disk"].required)
        self.assertFalse(self.flags["--quiet"].takes_value)
        self.assertTrue(self.flags["--json"].value_is_optional)

    def test_a_long_term_has_its_help_in_the_next_line(self):
        self.assertEqual(self.flags["--dtype"].help, "One of them")

    def test_a_value_says_what_may_follow(self):
        kinds = {name: flag.kind for name, flag in self.flags.items()
                 if flag.takes_value}
        self.assertEqual(kinds, {"--json": "file", "--dtype": "choice",
                                 "--disk": "folder"})
        self.assertEqual(self.flags["--dtype"].choices,
                         ["auto", "bfloat16", "cuda"])
        self.assertEqual([word.kind for word in self.command.words],
                         ["folder", "file"])

    def test_what_it_cannot_read_is_an_error(self):
        for old, new in [("--json [FILE]  ", "--json [A B]   "),
                         ("Options:", "Choices:"),
                         ("--quiet                  Says nothing",
                          "--quiet"),
                         ("Usage: ", "Use: "),
                         ("-h,--help                Print",
                          "-q,--quit                Print")]:
            with self.subTest(new=new), self.assertRaises(HelpError):
                parse_help(("thing",), HELP.replace(old, new))


class ManPageTest(unittest.TestCase):

    def test_has_all_that_help_has(self):
        shown = rendered((MADE / "winnow.1").read_text())
        for command in program_help.read_program(WINNOW).root.all():
            path = " ".join(("winnow",) + command.path)
            # What --help says, read in another way than the page was made.
            text = subprocess.run([WINNOW, *command.path, "--help"], text=True,
                                  check=True, capture_output=True).stdout
            start = shown.find(f" {path} ", shown.find(" COMMANDS "))
            self.assertTrue(command.commands or start > 0, path)
            entry = shown[start if command.path else 0:]
            missing = [flag for flag in re.findall(r"(?m)^  (--\S+)", text)
                       if f" {flag} " not in entry]
            self.assertEqual(missing, [], path)

    def test_shows_what_troff_would_take_for_its_own(self):
        command = parse_help(("thing",), HELP)
        program = program_help.Program(
            program_help.Command((), "A: b", "winnow", commands=[command],
                                 footer="Exit status: 0."), "1", {})
        shown = rendered(man_page.man_page(program))
        self.assertIn("Writes .json, it's \\short\\.", shown)
        self.assertIn("--dtype auto|bfloat16|cuda[:N]", shown)

    def test_renders_without_a_warning(self):
        done = troff((MADE / "winnow.1").read_text(), "-ww", "-z")
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 0)


def troff(page: str, *arguments: str) -> subprocess.CompletedProcess:
    if not shutil.which("groff"):
        raise unittest.SkipTest("no groff here")
    return subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-rLL=1000n", *arguments],
        input=page, text=True, capture_output=True, timeout=60)


def rendered(page: str) -> str:
    return re.sub(r"\s+", " ", troff(page).stdout)


if __name__ == "__main__":
    unittest.main()
