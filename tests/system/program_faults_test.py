#!/usr/bin/env python3
"""Memory, disks and outputs that fail under the program.

    program_faults_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import os
import re
import resource
import subprocess

from program_case import FAILURE, MODEL, ProgramCase, run_tests, winnow
from sanitized import is_sanitized


class ProgramFaultsTest(ProgramCase):
    def test_too_little_memory_is_told(self):
        """Address space, as `ulimit -v` gives it."""
        if is_sanitized(self.program):
            self.skipTest("a sanitizer takes terabytes of it")
        def limited(num_bytes: int, *arguments):
            return winnow(*arguments, preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_AS, (num_bytes, num_bytes)))

        prompt = self.folder / "prompt"
        prompt.touch()
        os.truncate(prompt, 900 << 20)  # Nothing on the disk.
        done = limited(600 << 20, "generate", MODEL, "--prompt-file", prompt,
                       "--threads", "1")
        self.assert_error(done, FAILURE, "memory does not suffice")
        done = limited(1 << 30, "generate", MODEL, "--prompt", "the",
                       "--threads", "1000")
        self.assert_error(done, FAILURE, "threads", "1000")
        # Whatever runs short first, at start or in a step.
        prompt.write_text("the " * 3000)
        for mebibytes in range(120, 152, 4):
            with self.subTest(mebibytes=mebibytes):
                done = limited(mebibytes << 20, "generate", MODEL,
                               "--prompt-file", prompt, "--threads", "2",
                               "--dtype", "float16", "--max-tokens", "2")
                if done.returncode != 0:
                    self.assertEqual(done.returncode, FAILURE, done.stderr)
                    self.assertRegex(done.stderr, r"\Awinnow: .*\n\Z")
        # The tokenizer's crates can only give up.
        prompt.write_text("the quick brown fox " * 1_000_000)
        done = limited(400 << 20, "generate", MODEL, "--prompt-file", prompt,
                       "--threads", "1")
        self.assert_error(done, FAILURE, "memory does not suffice for text")

    def test_output_that_is_lost_is_a_failure(self):
        generate = ["generate", MODEL, "--prompt", "the", "--max-tokens",
                    "2", "--quiet"]
        bench = ["bench", "step", MODEL, "--prompt", "8", "--generate", "1",
                 "--rounds", "1"]
        for arguments in [generate, [*generate, "--json"], ["info", MODEL],
                          ["select", "list"], bench, ["--help"]]:
            ways = ['"$0" "$@" >/dev/full', '"$0" "$@" >&-']
            # This writes at once, not when all is flushed at the end; its
            # library and a sanitizer's both want to be the first.
            if not is_sanitized(self.program):
                ways.append('stdbuf -o0 "$0" "$@" >/dev/full')
            for way in ways:
                with self.subTest(arguments=arguments, way=way):
                    done = subprocess.run(
                        ["sh", "-c", way, self.program, *arguments], text=True,
                        capture_output=True, timeout=60)
                    self.assert_error(done, FAILURE, "standard output")

    def test_generation_ends_soon_after_its_output_does(self):
        """Minutes of text that nobody is to have."""
        model = self.copy_of_model()
        (model / "generation_config.json").write_text("{}")
        (model / "config.json").write_text(re.sub(
            r'"eos_token_id": \d+', '"eos_token_id": 0',
            (model / "config.json").read_text()))
        generate = [self.program, "generate", model, "--prompt", "the",
                    "--max-tokens", "100000", "--batch-invariant"]
        result = self.folder / "result"
        for flags, num_read in [([], 1), (["--json", result], 1),
                                (["--prompt", "the"], 1), (["--json"], 0)]:
            with self.subTest(flags=flags):
                process = subprocess.Popen([*generate, *flags],
                                           stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
                self.assertEqual(len(process.stdout.read(num_read)), num_read)
                process.stdout.close()
                said = process.stderr.read().decode()
                self.assertEqual(process.wait(timeout=60), FAILURE, said)
                self.assertRegex(said, r"\Awinnow: standard output: .*\n\Z")
                process.stderr.close()
        with open("/dev/full", "w") as full:
            done = subprocess.run([*generate, "--json", result], stdout=full,
                                  stderr=subprocess.PIPE, text=True,
                                  timeout=60)
        self.assertEqual(done.returncode, FAILURE)
        self.assertEqual(done.stderr, "winnow: standard output: not all could "
                         "be written\n")
        self.assertEqual(list(self.folder.iterdir()), [model])

    def test_a_full_disk_is_told(self):
        done = winnow("generate", MODEL, "--prompt", "the", "--max-tokens",
                      "2", "--json", "/dev/full", "--quiet")
        self.assertEqual(done.returncode, FAILURE)
        self.assertIn("/dev/full", done.stderr)

    def test_a_write_that_fails_keeps_the_old_result(self):
        """A limit of file sizes cuts as a full disk does."""
        result = self.folder / "result"
        result.write_text("old\n")
        for arguments in [
                ["generate", MODEL, "--prompt", "the", "--max-tokens", "2",
                 "--quiet"],
                ["info", MODEL],
                ["bench", "step", MODEL, "--prompt", "8", "--generate", "1",
                 "--rounds", "1"]]:
            with self.subTest(command=arguments[0]):
                done = winnow(*arguments, "--json", result,
                              preexec_fn=lambda: resource.setrlimit(
                                  resource.RLIMIT_FSIZE, (100, 100)))
                self.assertEqual(done.returncode, FAILURE, done.stderr)
                self.assertIn(f"{result}: cannot write: File too large",
                              done.stderr)
                self.assertEqual(result.read_text(), "old\n")
                self.assertEqual(list(self.folder.iterdir()), [result])

    def test_a_result_that_cannot_be_written_is_told_before_the_work(self):
        """Before the model, which is not there, is looked at."""
        for command in (["generate", "/nowhere", "--prompt", "x"],
                        ["info", "/nowhere"], ["bench", "step", "/nowhere"],
                        ["bench", "ops", "/nowhere"]):
            with self.subTest(command=command):
                done = winnow(*command, "--json", "/nowhere/out")
                self.assert_error(done, FAILURE, "/nowhere/out: cannot")


if __name__ == "__main__":
    run_tests()
