"""Tests of the task generator. Run: python3 -m unittest lab.tasks.tasks_test"""

from __future__ import annotations

import re
import unittest
import zlib
from collections import Counter

from lab.tasks import words
from lab.tasks.document import CONVERSATION, make_document, make_mixed
from lab.tasks.draw import Draw
from lab.tasks.families import FAMILIES
from lab.tasks.record import (
    TASKS,
    Record,
    least_length,
    least_questions,
    make_record,
    make_records,
    most_questions,
    records_of,
)

WORDS_CRC32 = 1689641205
PROMPT_CRC32 = {
    "niah": 4124687872,
    "multikey": 1355841404,
    "chain": 1887095699,
    "vt": 3857522743,
    "niah_single_1": 2351122842,
    "niah_single_2": 2506195162,
    "niah_single_3": 3413094809,
    "niah_multikey_1": 3923104515,
    "niah_multikey_2": 3564087861,
    "niah_multikey_3": 1604750253,
    "niah_multivalue": 3149548765,
    "niah_multiquery": 1003367302,
    "cwe": 4225511232,
    "fwe": 3368907483,
    "qa": 3109397092,
    "long_chain": 1859334658,
    "conversation": 2809835688,
    "grid": 3363358205,
}
OWNER = r"(\w+(?: \w+)+)"


def solve_codes(text: str, question: str) -> list[str]:
    value = r"((?:\w+ ?)+)"
    one = re.fullmatch(rf"what is the (\w+) of {OWNER} \? answer :", question)
    if one:
        return re.findall(rf"the {one[1]} of {one[2]} is {value} \.", text)
    every = re.fullmatch(
        rf"what are all the codes of {OWNER} \? answer :", question
    )
    if every:
        return re.findall(rf"the code of {every[1]} is {value} \.", text)
    several = re.fullmatch(
        rf"what are the codes of {OWNER} , {OWNER} , {OWNER} and {OWNER} "
        r"\? answer :",
        # "and" would pass as a name.
        question,
    )
    return [
        re.search(rf"the code of {owner} is {value} \.", text)[1]
        for owner in several.groups()
    ]


def solve_chain(text: str, question: str) -> list[str]:
    here, last = re.fullmatch(
        r"follow from (\w+) to (\w+) :", question
    ).groups()
    links = dict(re.findall(r"(\w+) points to (\w+) \.", text))
    path = []
    while here != last:
        here = links[here]
        path.append(here)
    return path


def solve_vt(text: str, question: str) -> list[str]:
    value = re.fullmatch(
        r"find all variables assigned the value ([\d ]+) :", question
    )[1]
    names = []
    for name, source in re.findall(r"VAR (\w+) = ([\w ]+) \.", text):
        if source == value or source.removeprefix("VAR ") in names:
            names.append(name)
    return names


def solve_counts(text: str, num: int) -> list[str]:
    """The most frequent words, the ends of sentences and dots left out."""
    counts = Counter(re.findall(r"\b\w+\b", text.split(" : ")[-1]))
    return [word for word, _ in counts.most_common(num)]


def solve(record: Record) -> list[str]:
    """The answer, read from the text alone."""
    text = record.context
    question = record.question.split(" . ")[-1]
    if question.startswith("follow"):
        return solve_chain(text, question)
    if question.startswith("find all"):
        return solve_vt(text, question)
    if record.task == "cwe":
        return sorted(solve_counts(text, 10))
    if record.task == "fwe":
        return solve_counts(text, 3)
    return solve_codes(text, question)


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
        for task in TASKS:
            records = list(records_of(task, 2048, 7, 3, least_questions(task)))
            crc32 = zlib.crc32(records[-1].prompt.encode())
            self.assertEqual(crc32, PROMPT_CRC32[task], task)

    def test_answers_follow_from_the_text(self):
        for task in TASKS:
            for length in (1024, 1500, 4096, 16384):
                if length < least_length(task):
                    continue
                least = least_questions(task)
                most = min(most_questions(task, length), 20)
                for seed in range(3):
                    for asked in (least, most):
                        records = list(records_of(task, length, seed, 2, asked))
                        self.assertEqual(len(records), asked)
                        for record in records:
                            answers = list(record.answers)
                            if task == "cwe":
                                answers.sort()
                            self.assertEqual(solve(record), answers, task)

    def test_length_counts_everything(self):
        for task in FAMILIES:
            for length in (1024, 1025, 4096, 131072):
                if length < least_length(task):
                    continue
                record = make_record(task, length, 5, 3)
                whole = f"<s> {record.prompt} {record.answer} </s>"
                tokens = words.encode(whole)
                self.assertEqual(whole, words.decode(tokens))
                self.assertNotIn(words.UNKNOWN, tokens)
                self.assertLessEqual(len(tokens), length)
                self.assertGreater(len(tokens), length - 5)

    def test_length_counts_all_turns_of_a_conversation(self):
        for turns in (2, 5, 8):
            last = list(records_of("conversation", 4096, 1, 0, turns))[-1]
            tokens = words.encode(f"<s> {last.prompt} {last.answer} </s>")
            self.assertLessEqual(len(tokens), 4096)
            self.assertGreater(len(tokens), 4096 - 5)

    def test_turn_begins_with_the_turns_before_it(self):
        turns = list(records_of("conversation", 2048, 1, 0, 6))
        for before, after in zip(turns, turns[1:]):
            self.assertEqual(before.context, after.context)
            so_far = f"{before.question} {before.answer} . "
            self.assertTrue(after.question.startswith(so_far))

    def test_long_chain_answers_200_to_2000_tokens(self):
        lengths = []
        for record in make_records("long_chain", 16384, 3, 30):
            lengths.append(len(record.answers))
            self.assertEqual(len(set(record.answers)), len(record.answers))
        self.assertLess(min(lengths), 500)
        self.assertGreater(max(lengths), 1500)
        self.assertTrue(200 <= min(lengths) <= max(lengths) <= 2000)

    def test_grid_tells_its_fact_at_its_depth(self):
        for index, record in enumerate(make_records("grid", 4096, 1, 11)):
            place = record.context.index("the code of") / len(record.context)
            self.assertEqual(record.depth, 10 * index)
            self.assertAlmostEqual(place, record.depth / 100, delta=0.03)

    def test_common_words_are_ten_times_as_common(self):
        record = make_record("cwe", 4096, 1, 0)
        counts = Counter(record.context.split()[7:])
        common = [counts.pop(word) for word in record.answers]
        self.assertEqual(len(set(common)), 1)
        self.assertLessEqual(max(counts.values()), common[0] / 7)
        self.assertGreaterEqual(min(counts.values()), common[0] / 10)

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
        for task in ("multikey", "chain", "niah_multikey_2"):
            for length, asked in ((256, 8), (1024, 16), (4096, 32)):
                for _ in range(20):
                    document = make_document(draw, task, length, asked)
                    text = document.training()
                    self.assertLess(len(text.tokens), length)
                    self.assertGreater(len(text.tokens), length - 6)
                    self.assertEqual(len(text.targets), len(text.tokens))
                    self.assertEqual(len(text.families), len(text.tokens))
                    self.assertEqual(text.targets.count(words.END), asked)

    def test_targets_are_the_next_tokens(self):
        document = make_document(Draw("train", 2), "chain", 1024, 2)
        text = document.training()
        self.assertEqual(text.tokens[1:], text.targets[:-1])
        asked = [t for t, f in zip(text.targets, text.families) if f]
        expected = []
        for turn in document.turns:
            expected += [*turn.answer, words.END]
        self.assertEqual(asked, expected)

    def test_separator_is_read_where_the_end_is_said(self):
        document = make_document(Draw("train", 2), "chain", 1024, 3)
        ended, parted = document.training(), document.training(4)
        self.assertEqual(ended.targets, parted.targets)
        differ = [
            (a, b) for a, b in zip(ended.tokens, parted.tokens) if a != b
        ]
        self.assertEqual(differ, [(words.END, 4)] * 2)

    def test_mixed_documents_keep_every_answer(self):
        asked = dict.fromkeys(CONVERSATION, 2)
        document = make_mixed(Draw("train", 3), asked, 4096)
        self.assertEqual(
            Counter(turn.family for turn in document.turns), Counter(asked)
        )
        text = words.decode(document.context)
        for turn in document.turns:
            question = words.decode(turn.question)
            record = Record(turn.family, 4096, [], text, question)
            answers = [words.decode(part) for part in turn.answers]
            self.assertEqual(solve(record), answers)


if __name__ == "__main__":
    unittest.main()
