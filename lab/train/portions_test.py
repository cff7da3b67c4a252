"""Tests of what training documents are about."""

from __future__ import annotations

import unittest

from lab.tasks.document import make_document
from lab.tasks.draw import Draw
from lab.tasks.facts import CODE_DIGITS, DIGIT_IDS
from lab.tasks.families import FAMILIES
from lab.train.portions import (
    CORE_SHARES,
    PORTIONS,
    most_asked,
    sources_of,
    training_document,
    with_few_digits,
)


class PortionsTest(unittest.TestCase):
    def test_every_family_is_trained(self):
        self.assertEqual(set(PORTIONS), set(FAMILIES))

    def test_documents_have_their_length(self):
        for core_only in (True, False):
            draw = Draw("portions", 1)
            for length in (256, 1024, 4096, 16384):
                for _ in range(30 if length < 16384 else 8):
                    document = training_document(draw, length, core_only)
                    size = len(document.training().tokens)
                    self.assertLess(size, length)
                    self.assertGreater(size, length - 6)

    def test_core_documents_are_of_core_families(self):
        draw = Draw("portions", 2)
        families = {
            turn.family
            for _ in range(60)
            for turn in training_document(draw, 256, True).turns
        }
        self.assertEqual(families, set(CORE_SHARES))

    def test_a_stage_gives_families_other_shares(self):
        draw = Draw("portions", 6)
        asked = {"niah": 0, "niah_multiquery": 0}
        for _ in range(200):
            turns = training_document(
                draw, 256, False, {"niah": 0.0, "niah_multiquery": 1.0}
            ).turns
            if turns[0].family in asked:
                asked[turns[0].family] += 1
        self.assertEqual(asked["niah"], 0)
        self.assertTrue(80 < asked["niah_multiquery"] < 130, asked)

    def test_long_documents_mix_families(self):
        draw = Draw("portions", 3)
        mixed = 0
        for _ in range(40):
            document = training_document(draw, 4096, False)
            mixed += len({turn.family for turn in document.turns}) > 1
        self.assertTrue(5 < mixed < 30, mixed)

    def test_more_is_asked_of_longer_documents(self):
        asked = [most_asked(256 * 2**i) for i in range(10)]
        self.assertEqual(asked, sorted(asked))
        self.assertEqual((asked[0], asked[-1]), (8, 1024))

    def test_half_of_the_documents_have_few_digits(self):
        draw = Draw("portions", 4)
        few = {"niah": 0, "vt": 0}
        for family in few:
            for _ in range(60):
                text = make_document(draw, family, 1024, 4).training()
                told = with_few_digits(draw, text)
                digits = set(told.tokens) & set(DIGIT_IDS)
                few[family] += len(digits) <= 3
                # All else is as it was, and what follows still does.
                for old, new in zip(text.tokens, told.tokens):
                    self.assertTrue(old == new or old in DIGIT_IDS)
                behind = zip(text.tokens[1:], text.targets)
                told_behind = zip(told.tokens[1:], told.targets)
                self.assertEqual(
                    [token == target for token, target in behind],
                    [token == target for token, target in told_behind],
                )
        self.assertTrue(20 < few["niah"] < 40, few)
        self.assertEqual(few["vt"], 0)

    def test_sources_are_where_the_digits_stand(self):
        draw = Draw("portions", 7)
        for family, asked in (("niah", 3), ("multikey", 5), ("niah_single_2", 1)):
            document = make_document(draw, family, 512, asked)
            text, turns = document.training(), document.turns
            sources = sources_of(text)
            for i, (token, source) in enumerate(zip(text.targets, sources)):
                if text.families[i] and token in DIGIT_IDS:
                    self.assertLess(source, i)
                    self.assertEqual(text.tokens[source], token)
                else:
                    self.assertEqual(source, -1)
            # One code after the other, not digit by digit.
            known = [i for i, source in enumerate(sources) if source >= 0]
            self.assertEqual(len(known), len(turns) * CODE_DIGITS)
            for i in known[1:]:
                if sources[i - 1] >= 0:
                    self.assertEqual(sources[i], sources[i - 1] + 1)

    def test_what_stands_nowhere_has_no_source(self):
        draw = Draw("portions", 8)
        for family in ("chain", "niah_multivalue"):
            text = make_document(draw, family, 512, 2).training()
            self.assertEqual(set(sources_of(text)), {-1}, family)


if __name__ == "__main__":
    unittest.main()
