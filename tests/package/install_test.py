"""`make install`, `make uninstall`, and the container."""

import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.package import BUILD, ROOT

FILES = {
    "bin/winnow",
    "lib/systemd/system/winnow@.service",
    "share/bash-completion/completions/winnow",
    "share/doc/winnow/LICENSE",
    "share/doc/winnow/README.md",
    "share/doc/winnow/install.md",
    "share/doc/winnow/selectors.md",
    "share/doc/winnow/selectors.svg",
    "share/doc/winnow/serve.env",
    "share/doc/winnow/third-party-notices.txt",
    "share/fish/vendor_completions.d/winnow.fish",
    "share/man/man1/winnow.1",
    "share/zsh/site-functions/_winnow",
}


class InstallTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        # After this, the next `make uninstall` knows what it knew before.
        manifest = BUILD / "install_manifest.txt"
        before = manifest.read_text() if manifest.exists() else None
        cls.addClassCleanup(manifest.write_text if before else manifest.unlink,
                            *filter(None, [before]))
        cls.prefix = Path("/opt/100% my own")
        cls.root = Path(cls.folder.name, "root of it")
        cls.place = Path(f"{cls.root}{cls.prefix}")
        cls.make("install", cls.root)

    @classmethod
    def make(cls, goal: str, root: Path):
        """With a umask that hides files from others."""
        subprocess.run(["make", "--no-print-directory", "-C", ROOT, goal,
                        f"BUILT={BUILD}", f"PREFIX={cls.prefix}",
                        f"DESTDIR={root}"], check=True, umask=0o077,
                       stdout=subprocess.DEVNULL)

    def test_each_file_has_its_place_and_all_may_read_it(self):
        found = {str(path.relative_to(self.place)): path
                 for path in self.place.rglob("*") if not path.is_dir()}
        self.assertEqual(set(found), FILES)
        for name, path in found.items():
            self.assertGreater(path.stat().st_size, 100, name)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode),
                             0o755 if name == "bin/winnow" else 0o644, name)
        for path in (self.place, *self.place.rglob("*")):
            if path.is_dir():
                self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o755, path)

    def test_uninstall_leaves_no_file(self):
        other = Path(self.folder.name, "other root")
        self.make("install", other)
        self.assertTrue(list(other.rglob("winnow.1")))
        self.make("uninstall", other)
        self.assertEqual([path for path in other.rglob("*")
                          if not path.is_dir()], [])

    def test_the_program_runs_from_there(self):
        done = subprocess.run([self.place / "bin/winnow", "--version"],
                              text=True, capture_output=True)
        self.assertRegex(done.stdout, r"^winnow \d")

    def test_needs_the_c_library_alone(self):
        if not shutil.which("readelf"):
            self.skipTest("no readelf here")
        if "WINNOW_SANITIZED" in os.environ:
            self.skipTest("sanitizers have libraries of their own")
        shown = subprocess.run(
            ["readelf", "-d", self.place / "bin/winnow"], text=True,
            check=True, capture_output=True).stdout
        needed = set(re.findall(r"Shared library: \[(\w[\w-]*)", shown))
        self.assertLessEqual(needed, {"libc", "libm", "libdl", "libpthread",
                                      "librt", "ld-linux-x86-64",
                                      "ld-linux-aarch64"})
        self.assertNotRegex(shown, "RPATH|RUNPATH")

    def test_the_unit_names_the_program_where_it_is(self):
        unit = (self.place /
                "lib/systemd/system/winnow@.service").read_text()
        self.assertNotIn("@WINNOW", unit)
        line = re.search(r"(?m)^ExecStart=(.*)$", unit)[1]
        program = shlex.split(line.replace("%%", "%"))[0]
        self.assertEqual(program, str(self.prefix / "bin/winnow"))


class DockerfileTest(unittest.TestCase):
    """What can be seen without building it."""

    def setUp(self):
        text = (ROOT / "Dockerfile").read_text()
        self.lines = [line for line in text.splitlines()
                      if line and not line.startswith("#")]
        last = max(number for number, line in enumerate(self.lines)
                   if line.startswith("FROM "))
        self.last_stage = self.lines[last:]

    def test_every_line_is_an_instruction(self):
        for line in self.lines:
            self.assertRegex(line, r"^(FROM|WORKDIR|COPY|RUN|USER|EXPOSE|"
                                   r"ENTRYPOINT|CMD) \S")

    def test_images_are_named_by_their_release(self):
        for line in self.lines:
            if line.startswith("FROM "):
                self.assertRegex(line, r"^FROM debian:\d+-slim( AS \w+)?$")

    def test_serves_as_nobody_on_an_address_that_can_be_reached(self):
        user = [line for line in self.last_stage if line.startswith("USER ")]
        self.assertEqual(user, ["USER 65534:65534"])
        self.assertIn('CMD ["serve", "/model", "--host", "0.0.0.0"]',
                      self.last_stage)
        self.assertFalse(any(line.startswith("RUN")
                             for line in self.last_stage))

    def test_what_the_build_needs_is_not_left_out(self):
        ignored = (ROOT / ".dockerignore").read_text().split()
        self.assertIn("build", ignored)
        for name in ("src", "cmake", "packaging", "scripts", "third_party",
                     "docs", "README.md", "LICENSE", "Makefile"):
            self.assertNotIn(name, ignored)
            self.assertTrue((ROOT / name).exists(), name)


if __name__ == "__main__":
    unittest.main()
