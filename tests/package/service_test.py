"""The unit of systemd: what it says, and that the program bears it."""

import ctypes
import errno
import http.client
import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tests.package import ROOT, WINNOW

MODEL = str(ROOT / "lab/models/winnow-lab")
UNIT = (ROOT / "packaging/winnow@.service.in").read_text()
NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
# systemd's own measure, 0 to 10; below 3 it says OK. An address to listen on,
# devices of a GPU and code made at run time are what remains.
MOST_EXPOSED = 2.0


def settings(name: str) -> list[str]:
    return re.findall(rf"(?m)^{name}=(.*)$", UNIT)


def group(name: str) -> set[str]:
    """The system calls of a name, or of a group of them (@aio)."""
    if not name.startswith("@"):
        return {name}
    listed = subprocess.run(["systemd-analyze", "syscall-filter", name],
                            text=True, check=True, capture_output=True).stdout
    names = re.findall(r"(?m)^    ([@\w-]+)$", listed)
    return set().union(*map(group, names))


def admitted() -> set[str]:
    calls = set()
    for line in settings("SystemCallFilter"):
        named = set().union(*map(group, line.lstrip("~").split()))
        calls = calls - named if line.startswith("~") else calls | named
    return calls


def filter_program(calls: set[str]) -> bytes:
    """For the kernel: these calls pass, others fail with EPERM."""
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)",
                              NUMBERS.read_text()))
    load, equal, answer = 0x20, 0x15, 0x06
    allow, refuse = 0x7fff0000, 0x00050000 | errno.EPERM
    program = [struct.pack("HBBI", load, 0, 0, 0)]
    for call in sorted(calls & numbers.keys()):
        program.append(struct.pack("HBBI", equal, 0, 1, int(numbers[call])))
        program.append(struct.pack("HBBI", answer, 0, 0, allow))
    program.append(struct.pack("HBBI", answer, 0, 0, refuse))
    return b"".join(program)


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]


class UnderItsFilterTest(unittest.TestCase):

    def setUp(self):
        if "WINNOW_SANITIZED" in os.environ:
            self.skipTest("sanitizers need calls of their own")
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        if platform.machine() != "x86_64" or not NUMBERS.exists():
            self.skipTest("the numbers of system calls are x86-64's")
        program = filter_program(admitted())
        self.program = ctypes.create_string_buffer(program, len(program))
        self.filter = Filter(len(program) // 8, ctypes.addressof(self.program))
        self.prctl = ctypes.CDLL(None).prctl
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def confine(self):
        no_new_privileges, seccomp, by_filter = 38, 22, 2
        if (self.prctl(no_new_privileges, 1, 0, 0, 0) or
                self.prctl(seccomp, by_filter, ctypes.byref(self.filter), 0,
                           0)):
            os._exit(99)

    def test_the_filter_refuses(self):
        done = subprocess.run(
            [sys.executable, "-c", "import os; os.setuid(os.getuid())"],
            preexec_fn=self.confine, capture_output=True, text=True)
        self.assertIn("PermissionError", done.stderr)

    def test_prompts_are_kept_on_disk(self):
        def generate(**options):
            kept = self.folder / str(bool(options))
            return subprocess.run(
                [WINNOW, "generate", MODEL, "--prompt", "day " * 100,
                 "--max-tokens", "4", "--json", "--kv-disk", kept,
                 "--kv-disk-size", "32MiB"], text=True, timeout=240,
                capture_output=True, **options)
        free, confined = generate(), generate(preexec_fn=self.confine)
        self.assertEqual(confined.returncode, 0, confined.stderr)
        self.assertEqual(json.loads(confined.stdout)["token_ids"],
                         json.loads(free.stdout)["token_ids"])
        # Where io_uring is refused, one more line says so.
        self.assertEqual(confined.stderr.count("io_uring"),
                         free.stderr.count("io_uring"))

    def test_serves_and_drains(self):
        server = subprocess.Popen([WINNOW, "serve", MODEL, "--port", "0",
                                   "--kv-disk", self.folder / "kv",
                                   "--kv-disk-size", "32MiB"],
                                  text=True, stderr=subprocess.PIPE,
                                  preexec_fn=self.confine)
        self.addCleanup(server.kill)
        # Where io_uring is refused, a line before it says so.
        port = next(int(found[1]) for found in map(
            re.compile(r"127\.0\.0\.1:(\d+)").search, server.stderr) if found)
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        client.request("POST", "/v1/completions", json.dumps(
            {"model": "winnow-lab", "prompt": "day", "max_tokens": 2}),
            {"Content-Type": "application/json"})
        self.assertEqual(client.getresponse().status, 200)
        client.close()
        server.send_signal(getattr(signal, settings("KillSignal")[0]))
        self.assertEqual(server.wait(timeout=60), 0)
        server.stderr.close()


@unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze here")
class UnitTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.unit = Path(folder.name, "winnow@.service")
        self.unit.write_text(UNIT.replace("@WINNOW_UNIT_BINDIR@",
                                          str(Path(WINNOW).parent)))

    def test_systemd_reads_it_without_a_complaint(self):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
             self.unit.with_name("winnow@one.service")], text=True,
            capture_output=True, env=os.environ | {
                "SYSTEMD_UNIT_PATH": f"{self.unit.parent}:"})
        self.assertEqual([line for line in done.stderr.splitlines()
                          if "winnow" in line], [])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_is_confined(self):
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager",
             self.unit], text=True, capture_output=True)
        found = re.search(r"exposure level for winnow@\S* ([\d.]+)",
                          done.stdout)
        self.assertTrue(found, done.stdout + done.stderr)
        self.assertLessEqual(float(found[1]), MOST_EXPOSED)

    def test_is_on_the_loopback_unless_told(self):
        self.assertNotIn("--host", UNIT)
        self.assertNotIn("--api-key", UNIT)
        text = (ROOT / "packaging/serve.env").read_text()
        given = dict(re.findall(r"(?m)^(\w+)=(.*)$", text))
        self.assertEqual(given["WINNOW_FLAGS"], "")
        self.assertEqual(set(given), {"MODEL", "WINNOW_FLAGS"})


if __name__ == "__main__":
    unittest.main()
