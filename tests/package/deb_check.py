#!/usr/bin/env python3
"""The Debian package: what it says and holds, what lintian thinks of it, and
that it comes and goes in a folder that stands for a machine.

    deb_check.py FILE.deb      (as `make test-deb` calls it)
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DEB = ""
# What lintian says where the builder gives no address (DEBEMAIL).
ACCEPTED = {"bogus-mail-host", "bogus-mail-host-in-debian-changelog"}


def output(*command, **options) -> str:
    return subprocess.run(command, text=True, check=True, timeout=300,
                          stdout=subprocess.PIPE, **options).stdout


class DebTest(unittest.TestCase):

    def test_says_what_it_is(self):
        fields = dict(re.findall(r"(?m)^(\S+): (.*)$",
                                 output("dpkg-deb", "--field", DEB)))
        self.assertEqual(fields["Package"], "winnow")
        self.assertEqual(fields["Architecture"],
                         output("dpkg", "--print-architecture").strip())
        self.assertRegex(fields["Version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(fields["Maintainer"], r"^\S.* <\S+@\S+>$")
        # The C library alone, as new as the one that it was built with.
        self.assertRegex(fields["Depends"], r"^libc6 \(>= 2\.\d+\)$")
        self.assertIn("LLM", fields["Description"])

    def test_holds_roots_files_alone(self):
        for line in output("dpkg-deb", "--contents", DEB).splitlines():
            mode, owner, *_, path = line.split(maxsplit=5)
            self.assertEqual(owner, "root/root", path)
            is_program = path == "./usr/bin/winnow"
            self.assertEqual(mode, "drwxr-xr-x" if path.endswith("/")
                             else "-rwxr-xr-x" if is_program
                             else "-rw-r--r--", path)
            self.assertRegex(path, r"^\./(usr/.*)?$")

    def test_lintian_has_no_complaint(self):
        if not shutil.which("lintian"):
            self.skipTest("no lintian here")
        found = subprocess.run(["lintian", "--allow-root", "--fail-on", "none",
                                "--tag-display-limit", "0", DEB], text=True,
                               capture_output=True, timeout=600).stdout
        complaints = [line for line in found.splitlines()
                      if re.match("[EW]:", line)
                      and line.split()[2] not in ACCEPTED]
        self.assertEqual(complaints, [])


class MachineTest(unittest.TestCase):
    """A folder with nothing but dpkg's own files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "var/lib/dpkg").mkdir(parents=True)
        for name in ("status", "available"):
            (self.root / "var/lib/dpkg" / name).touch()
        for name in ("updates", "info", "triggers"):
            (self.root / "var/lib/dpkg" / name).mkdir()

    def dpkg(self, *arguments):
        as_root = [] if os.getuid() == 0 else ["fakeroot"]
        return output(*as_root, "dpkg", "--root", self.root, "--force-depends",
                      "--force-script-chrootless", "--log", "/dev/null",
                      *arguments, stderr=subprocess.STDOUT)

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root))
                for path in self.root.rglob("*")
                if not path.is_relative_to(self.root / "var/lib/dpkg")}

    def test_comes_runs_and_goes(self):
        self.dpkg("--install", DEB)
        shown = output(self.root / "usr/bin/winnow", "--version")
        self.assertRegex(shown, r"^winnow \d")
        unit = (self.root /
                "usr/lib/systemd/system/winnow@.service").read_text()
        self.assertIn('ExecStart="/usr/bin/winnow" serve', unit)
        for page in ("man/man1/winnow.1.gz", "doc/winnow/changelog.gz"):
            output("gzip", "-t", self.root / "usr/share" / page)
        self.assertIn("third-party-notices", (
            self.root / "usr/share/doc/winnow/copyright").read_text())
        # Again, as an upgrade does; then with what a server has written.
        self.dpkg("--install", DEB)
        for name in ("var/cache/private/winnow/one", "etc/winnow"):
            (self.root / name).mkdir(parents=True)
        (self.root / "var/cache/private/winnow/one/kv").touch()
        (self.root / "etc/winnow/one.env").touch()
        self.dpkg("--remove", "winnow")
        self.assertTrue((self.root / "var/cache/private/winnow/one/kv")
                        .exists())
        self.dpkg("--purge", "winnow")
        left = {name for name in self.files() if "winnow" in name}
        self.assertEqual(left, {"etc/winnow", "etc/winnow/one.env"})


if __name__ == "__main__":
    DEB = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
