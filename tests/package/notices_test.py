"""The notices of others' software name all that is in the program."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from tests.package import BUILD, MADE, ROOT
import notices

# What the program is made of besides the C library, which it does not hold.
C_LIBRARY_PACKAGES = {"libc6-dev", "linux-libc-dev"}
C_LIBRARIES = {"c", "m", "dl", "rt", "pthread", "cudadevrt", "cudart_static"}


class NoticesTest(unittest.TestCase):

    def setUp(self):
        self.text = (MADE / "third-party-notices.txt").read_text()
        self.heads = self.text[:self.text.index("-" * 79)]

    def test_every_crate_of_the_library(self):
        cargo = os.environ.get("WINNOW_CARGO") or shutil.which("cargo")
        if not cargo:
            self.skipTest("no cargo on the path")
        # Not by the metadata that the notices are made from.
        tree = subprocess.run(
            [cargo, "tree", "--offline", "--locked", "-e",
             "normal,no-proc-macro", "--prefix", "none", "--manifest-path",
             ROOT / "src/text/rust/Cargo.toml"],
            text=True, check=True, capture_output=True).stdout
        linked = set(re.findall(r"(?m)^(\S+) v([\d.]+)(?: \(\*\))?$", tree))
        self.assertGreater(len(linked), 40)
        named = set(re.findall(r"(?m)^(\S+) \(Rust\) ([\d.]+):", self.heads))
        self.assertEqual(named, linked)
        lock = (ROOT / "src/text/rust/Cargo.lock").read_text()
        for name, version in named:
            self.assertIn(f'name = "{name}"\nversion = "{version}"', lock)

    def test_every_header_of_others(self):
        if not shutil.which("dpkg-query"):
            self.skipTest("not a Debian system: whose headers, none knows")
        named = {notices.package_of(path)
                 for _, _, path in notices.SYSTEM_LIBRARIES}
        owners = notices.output_of("dpkg-query", "-S", *self.headers())
        unknown = [line for line in owners.splitlines()
                   if line.partition(":")[0] not in named | C_LIBRARY_PACKAGES
                   and not re.match(r"lib(stdc\+\+|gcc)-\d+-dev:", line)]
        self.assertGreater(len(owners.splitlines()), 100)
        self.assertEqual(unknown, [])

    def test_every_library_of_others(self):
        build = (BUILD / "build.ninja").read_text()
        link = build[build.index("\nbuild src/cli/winnow:"):]
        libraries = re.search(r"LINK_LIBRARIES = (.*)", link)[1].split()
        others = {Path(library).name for library in libraries
                  if not re.match(r"-Wl|src/", library)}
        others -= {f"-l{name}" for name in C_LIBRARIES}
        expected = {"libdnnl.a": "oneDNN", "liburing.a": "liburing",
                    "libwinnow_text.a": "tokenizers (Rust)",
                    "libcudart_static.a": "CUDA runtime library"}
        self.assertIn("libdnnl.a", others)
        for library in others:
            self.assertIn(f"\n{expected[library]} ", self.heads)

    def test_every_notice_has_its_text(self):
        if not shutil.which("dpkg-query"):
            self.skipTest("not a Debian system: texts may be elsewhere")
        for line in self.heads.strip().splitlines()[4:]:
            self.assertRegex(line, r"^\S.* \d\S*: \S.* \[\d+\]$")
        numbers = {int(number) for number in re.findall(r"\[(\d+)\]",
                                                        self.heads)}
        titles = [int(number) for number in
                  re.findall(r"-{79}\n\[(\d+)\] ", self.text)]
        self.assertEqual(titles, sorted(numbers))
        self.assertIn("Boost Software License", self.text)
        self.assertIn("GCC RUNTIME LIBRARY EXCEPTION", self.text.upper())

    def headers(self) -> set[str]:
        """Of the system, in the program's own objects."""
        known = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], text=True,
                               check=True, capture_output=True).stdout
        found, counts = set(), False
        for line in known.splitlines():
            if line and not line.startswith(" "):
                counts = "/winnow" in line and "_test" not in line
            elif counts and line.startswith("    /usr/"):
                found.add(line.strip())
        self.assertTrue(found)
        return found


if __name__ == "__main__":
    unittest.main()
