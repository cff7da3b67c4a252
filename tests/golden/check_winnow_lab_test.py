#!/usr/bin/env python3
"""What check_winnow_lab.py says of answers."""

from __future__ import annotations

import unittest

from check_winnow_lab import judge

ENTRY = {"prompt_tokens": 9, "token_ids": [4, 5, 6],
         "margins": [2.0, 0.01, 3.0]}


class JudgeTest(unittest.TestCase):
    def judge(self, tokens: list[int], dtype: str) -> tuple[str, str]:
        return judge(ENTRY, {"prompt_tokens": 9, "token_ids": tokens}, dtype)

    def test_float32_is_held_to_every_token(self) -> None:
        self.assertEqual(self.judge([4, 5, 6], "float32"), ("", ""))
        self.assertEqual(self.judge([4, 7, 6], "float32"),
                         ("got [4, 7, 6], transformers gives [4, 5, 6]", ""))

    def test_bfloat16_is_held_up_to_an_unclear_margin_that_is_told(self) -> None:
        self.assertEqual(self.judge([4, 5, 6], "bfloat16"),
                         ("", "margin 0.01 at token 1 of 3, the same"))
        self.assertEqual(
            self.judge([4, 7], "bfloat16"),
            ("", "margin 0.01 at token 1 of 3, [4, 7] for [4, 5, 6]"))
        self.assertEqual(
            self.judge([3, 5, 6], "bfloat16"),
            ("got [3], transformers gives [4]",
             "margin 0.01 at token 1 of 3, [3, 5, 6] for [4, 5, 6]"))

    def test_another_prompt_is_told(self) -> None:
        wrong, _ = judge(ENTRY, {"prompt_tokens": 8, "token_ids": [4, 5, 6]},
                         "float32")
        self.assertEqual(wrong, "8 prompt tokens, transformers has 9")


if __name__ == "__main__":
    unittest.main()
