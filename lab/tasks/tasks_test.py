"""Tests of the task generator. Run: python3 -m unittest lab.tasks.tasks_test"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

from lab.tasks import words
from lab.tasks.document import make_document
from lab.tasks.draw import Draw
from lab.tasks.families import FAMILIES
from lab.tasks.record import Record, make_record, make_records

MAKE_TASKS = Path(__file__).resolve().parent.parent / "make_tasks"
WORDS_CRC32 = 4083520324
PROMPT_CRC32 = {
    "niah": 1047115681,
    "multikey": 964032116,
    "chain": 3936937656,
    "vt": 274616856,
}


def solve(record: Record) -> list[str]:
    """The answer, read from the text alone with regular expressions."""
    text, question = record.context, record.question
    if record.task in ("niah", "multikey"):
        owner = re.fullmatch(
            r"what is the code of (\w+ \w+) \? answer :", question
        )[1]
        return re.findall(rf"the code of {owner} is ((?:\d ?){{5}}) \.", text)
    if record.task == "chain":
        here, last = re.fullmatch(
            r"follow from (\w+) to (\w+) :", question
        ).groups()
        links = dict(re.findall(r"(\w+) points to (\w+) \.", text))
        path = []
        while here != last:
            here = links[here]
            path.append(here)
        return path
    value = re.fullmatch(
        r"find all variables assigned the value ([\d ]+) :", question
    )[1]
    names = []
    for name, source in re.findall(r"VAR (\w+) = ([\w ]+) \.", text):
        if source == value or source.removeprefix("VAR ") in names:
            names.append(name)
    return names


class WordsTest(unittest.TestCase):
    def test_every_token_is_one_different_word(self):
        self.assertEqual(len(words.WORDS), 4096)
        self.assertEqual(len(set(words.WORDS)), 4096)
        for word in words.WORDS:
            self.assertEqual(word.split(), [word])

    def test_word_list_has_not_moved(self):
        # A trained model knows the words by number: any change orphans it.
        crc32 = zlib.crc32(" ".join(words.WORDS).encode())
        self.assertEqual(crc32, WORDS_CRC32)

    def test_encode_undoes_decode(self):
        tokens = list(range(4096))
        self.assertEqual(words.encode(words.decode(tokens)), tokens)
        self.assertEqual(words.encode("the zyzzyva"), [18, words.UNKNOWN])


class RecordTest(unittest.TestCase):
    def test_documents_have_not_moved(self):
        for task in FAMILIES:
            prompt = make_record(task, 1024, 7, 3).prompt
            self.assertEqual(
                zlib.crc32(prompt.encode()), PROMPT_CRC32[task], task
            )

    def test_answers_follow_from_the_text(self):
        for task in FAMILIES:
            for length in (1024, 1500, 4096, 32768):
                for record in make_records(task, length, 11, 5):
                    self.assertEqual(solve(record), record.answers)

    def test_length_counts_everything(self):
        for task in FAMILIES:
            for length in (1024, 1025, 4096, 131072):
                for record in make_records(task, length, 5, 3):
                    whole = f"<s> {record.prompt} {record.answer} </s>"
                    tokens = words.encode(whole)
                    self.assertEqual(whole, words.decode(tokens))
                    self.assertNotIn(words.UNKNOWN, tokens)
                    self.assertLessEqual(len(tokens), length)
                    self.assertGreater(len(tokens), length - 5)

    def test_document_does_not_depend_on_the_count(self):
        whole = list(make_records("vt", 1024, 1, 4))
        self.assertEqual(whole[3], make_record("vt", 1024, 1, 3))
        self.assertNotEqual(whole[3], make_record("vt", 1024, 2, 3))
        self.assertEqual(len({record.context for record in whole}), 4)

    def test_multikey_names_are_shared_but_owners_are_not(self):
        text = make_record("multikey", 16384, 1, 0).context
        owners = re.findall(r"the code of (\w+) (\w+) is", text)
        self.assertGreater(len(owners), 300)
        self.assertEqual(len(set(owners)), len(owners))
        first_names = {first for first, _ in owners}
        self.assertLessEqual(len(first_names), (len(owners) + 1) // 2)

    def test_facts_are_spread_over_the_document(self):
        depths = []
        for record in make_records("niah", 1024, 3, 100):
            needle = f" {' '.join(record.question.split()[5:7])} is"
            depths.append(record.context.index(needle) / len(record.context))
        self.assertLess(min(depths), 0.1)
        self.assertGreater(max(depths), 0.9)
        self.assertAlmostEqual(sum(depths) / 100, 0.5, delta=0.1)


class TrainingTest(unittest.TestCase):
    def test_training_and_test_documents_differ(self):
        trained = make_document(Draw("train", 7, 0), "niah", 1024)
        tested = make_record("niah", 1024, 7, 0)
        self.assertNotEqual(words.decode(trained.context), tested.context)

    def test_many_questions_fit_in(self):
        draw = Draw("train", 1, 1)
        for task in FAMILIES:
            for length, asked in ((256, 8), (1024, 16), (4096, 32)):
                for _ in range(20):
                    document = make_document(draw, task, length, asked)
                    tokens, is_answer = document.training_tokens()
                    self.assertLessEqual(len(tokens), length)
                    self.assertGreater(len(tokens), length - 5)
                    self.assertEqual(len(is_answer), len(tokens))
                    ends = tokens.count(words.END)
                    self.assertEqual(ends, len(document.turns))
                    self.assertEqual(is_answer[-1], 1)

    def test_mask_covers_answers_and_their_ends(self):
        document = make_document(Draw("train", 2), "chain", 1024, 2)
        tokens, is_answer = document.training_tokens()
        masked = [t for t, is_in in zip(tokens, is_answer) if is_in]
        expected = []
        for turn in document.turns:
            expected += [*turn.answer, words.END]
        self.assertEqual(masked, expected)


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
            "length": ["", "0", "1023", "131073", "-5", "1e4", "1.5K", "K"],
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


if __name__ == "__main__":
    unittest.main()
