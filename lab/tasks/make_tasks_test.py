"""Tests of lab/make_tasks, the command."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from lab.tasks.record import make_record

MAKE_TASKS = Path(__file__).resolve().parent.parent / "make_tasks"


class CommandTest(unittest.TestCase):
    def run_it(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, MAKE_TASKS, *arguments],
            capture_output=True,
            text=True,
        )

    def test_writes_the_records(self):
        arguments = "--task chain --length 1K --count 2 --seed 9".split()
        ran = self.run_it(*arguments)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        lines = ran.stdout.splitlines()
        self.assertEqual(len(lines), 2)
        record = make_record("chain", 1024, 9, 1)
        self.assertEqual(
            json.loads(lines[1]),
            {
                "task": "chain",
                "length": 1024,
                "answers": record.answers,
                "context": record.context,
                "question": record.question,
            },
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tasks.jsonl"
            self.assertEqual(self.run_it(*arguments, "--out", path).stdout, "")
            self.assertEqual(path.read_text(), ran.stdout)
            self.assertEqual(list(Path(folder).iterdir()), [path])

    def test_bad_arguments_are_one_line_and_exit_2(self):
        good = {"task": "vt", "length": "1K", "count": "1", "seed": "7"}
        bad = {
            "task": ["", "niha", "VT"],
            "length": [
                *("", "0", "1023", "131073", "-5", "1e4", "1.5K", "K"),
                *("1K,", "1K,200K", "1K 2K"),
            ],
            "questions": ["0", "-1", "x", "7"],
            "count": ["0", "-1", "x", "1000001", "٣"],
            "seed": ["-1", "1_0", "9223372036854775808", " 1"],
        }
        for name, values in bad.items():
            for value in values:
                arguments = [
                    f"--{key}={text}"
                    for key, text in {**good, name: value}.items()
                ]
                ran = self.run_it(*arguments)
                self.assertEqual(ran.returncode, 2, arguments)
                self.assertIn(f"--{name}", ran.stderr)
                self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
                self.assertEqual(ran.stdout, "")

    def test_limits_name_the_task_and_the_value(self):
        cases = {
            ("long_chain", "2047", "1"): "--length: must be 2048 to 131072 for "
            "long_chain, got 2047",
            ("niah_single_1", "1K", "2"): "--questions: must be 1 to 1 for "
            "niah_single_1 of 1024 tokens, got 2",
            ("conversation", "1K", "1"): "--questions: must be 2 to 4 for "
            "conversation of 1024 tokens, got 1",
            ("niah", "1K,4K", "9"): "--questions: must be 1 to 8 for niah of "
            "1024 tokens, got 9",
        }
        for (task, length, questions), message in cases.items():
            ran = self.run_it(
                *f"--task {task} --length {length} --count 1 --seed 1".split(),
                f"--questions={questions}",
            )
            self.assertEqual(ran.returncode, 2)
            self.assertEqual(
                ran.stderr, f"make_tasks: argument {message}\n", ran.stderr
            )

    def test_grid_is_depth_by_length(self):
        ran = self.run_it(
            *"--task grid --length 1K,2K --count 11 --seed 4".split()
        )
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        self.assertEqual(
            [(line["length"], line["depth"]) for line in lines],
            [(n, d) for n in (1024, 2048) for d in range(0, 101, 10)],
        )

    def test_questions_of_a_document_share_its_context(self):
        ran = self.run_it(
            *"--task multikey --length 2K --count 2 --seed 4".split(),
            *"--questions 5".split(),
        )
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        contexts = [line["context"] for line in lines]
        self.assertEqual(contexts, contexts[:1] * 5 + contexts[5:6] * 5)
        self.assertEqual(len(set(contexts)), 2)
        self.assertEqual(len({line["question"] for line in lines}), 10)

    def test_conversation_has_four_turns_unless_told(self):
        ran = self.run_it(
            *"--task conversation --length 2K --count 1 --seed 4".split()
        )
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        self.assertEqual([line["turn"] for line in lines], [0, 1, 2, 3])
        self.assertEqual(
            {line["conversation"] for line in lines}, {"2048-4-0"}
        )

    def test_missing_argument_and_unwritable_file(self):
        ran = self.run_it("--task", "vt", "--length", "1K", "--count", "1")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--seed", ran.stderr)
        arguments = "--task vt --length 1K --count 1 --seed 1 --out /no/file"
        ran = self.run_it(*arguments.split())
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(
            ran.stderr,
            "make_tasks: --out /no/file: No such file or directory\n",
        )

    def test_an_output_that_is_full_or_closed_is_one_line(self):
        arguments = "--task vt --length 1K --count 1 --seed 1".split()
        for redirect, what in (
            (">/dev/full", "No space left on device"),
            (">&-", "Bad file descriptor"),
        ):
            ran = subprocess.run(
                ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable]
                + [MAKE_TASKS, *arguments],
                capture_output=True,
                text=True,
            )
            self.assertEqual(
                (ran.returncode, ran.stderr),
                (1, f"make_tasks: standard output: {what}\n"),
            )


if __name__ == "__main__":
    unittest.main()
