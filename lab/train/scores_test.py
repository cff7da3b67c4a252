"""Tests of the scores."""

from __future__ import annotations

import unittest

from lab.tasks.record import Record
from lab.tasks.words import END, encode
from lab.train.scores import Score, wilson


def record(answers: list[str], unordered: bool) -> Record:
    return Record("t", 1024, answers, "", "", unordered=unordered)


class ScoresTest(unittest.TestCase):
    def test_wilson_interval_of_textbook_cases(self):
        # Newcombe 1998, table I, method 3: 81 of 263, 15 of 148, 1 of 29.
        for right, num, low, high in (
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (1, 29, 0.0061, 0.1718),
        ):
            least, most = wilson(right, num)
            self.assertAlmostEqual(least, low, places=4)
            self.assertAlmostEqual(most, high, places=4)
        self.assertEqual(wilson(20, 20)[1], 1.0)
        self.assertEqual(wilson(0, 20)[0], 0.0)

    def test_tokens_count_where_they_should_stand(self):
        score = Score()
        expected = [*encode("1 2 3 4 5"), END]
        asked = record(["1 2 3 4 5"], False)
        score.add(asked, expected, expected)
        score.add(asked, expected, [*encode("1 2 4 4 5"), END])
        score.add(asked, expected, [*encode("1 2 3 4 5 6")])
        fields = score.fields()
        self.assertEqual(fields["n"], 3)
        self.assertEqual(fields["exact"], 0.3333)
        self.assertEqual(fields["free_token_accuracy"], round(14 / 15, 4))

    def test_unordered_answers_count_wherever_they_occur(self):
        score = Score()
        asked = record(["1 2", "3 4"], True)
        expected = [*encode("1 2 3 4"), END]
        score.add(asked, expected, [*encode("3 4 1 2"), END])
        score.add(asked, expected, [*encode("3 4 2 1"), END])
        fields = score.fields()
        self.assertEqual(fields["exact"], 0.5)
        self.assertEqual(fields["free_token_accuracy"], 0.75)


if __name__ == "__main__":
    unittest.main()
