#!/usr/bin/env python3
"""What `winnow serve` does where a request says nothing: how many tokens it
gets, and from which random numbers its answers are drawn.

    serve_unasked_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import sys
import unittest

from serve_process import ROOT, Server

WINNOW = ""
CONTEXT = 64
TEMPLATE = str(ROOT / "tests/load/plain.jinja")
# Of the model's KV in float32: 6 layers, 2 heads, K and V of 64.
PAGE_TOKENS, PAGE_KIB = 32, 6 * 2 * 2 * 64 * 4 * 32 // 1024


def ids(count: int) -> list:
    return list(range(300, 300 + count))


class UnaskedTest(unittest.TestCase):

    def start(self, *flags: str) -> Server:
        server = Server(WINNOW, "--chat-template", TEMPLATE, *flags)
        self.addCleanup(lambda: self.assertEqual(server.end(), 0))
        return server

    def test_who_names_no_max_tokens_gets_what_the_context_has_left(self):
        server = self.start("--max-model-len", str(CONTEXT))

        def drawn(**body) -> int:
            return server.complete(ignore_eos=True, **body)["usage"][
                "completion_tokens"]

        # The last token is never fed back.
        for length in (1, 48, 49, 50, 63, 64):
            left = min(16, CONTEXT - length + 1)  # OpenAI's default is 16
            self.assertEqual(drawn(prompt=ids(length)), left, length)
            self.assertEqual(drawn(prompt=ids(length), n=2), 2 * left, length)
            # Each of a list by itself.
            self.assertEqual(drawn(prompt=[ids(3), ids(length)]), 16 + left)
        for path, body in [
                ("/v1/chat/completions",
                 {"messages": [{"role": "user", "content": "the " * 40}]}),
                ("/v1/responses", {"input": "the " * 40})]:
            usage = server.complete(path=path, ignore_eos=True, **body)["usage"]
            self.assertEqual(usage["total_tokens"], CONTEXT + 1, path)
        # What was asked for is not cut short, nor is a prompt.
        for body in ({"prompt": ids(50), "max_tokens": 16},
                     {"prompt": ids(65)}):
            error = server.complete(400, **body)["error"]
            self.assertEqual(error["code"], "context_length_exceeded")

    def test_and_what_the_pool_has_room_for(self):
        server = self.start("--max-model-len", "4K", "--device-kv",
                            f"{3 * PAGE_KIB}KiB")
        room = 3 * PAGE_TOKENS
        for length in (81, 90, 96):
            usage = server.complete(prompt=ids(length),
                                    ignore_eos=True)["usage"]
            self.assertEqual(usage["total_tokens"], min(length + 16, room + 1))
        chat = {"path": "/v1/chat/completions", "ignore_eos": True,
                "messages": [{"role": "user", "content": "the " * 40}]}
        self.assertEqual(server.complete(**chat)["usage"]["total_tokens"],
                         room + 1)
        asked = server.ask("POST", "/v1/completions",
                           {"prompt": ids(90), "max_tokens": 16})
        self.assertGreaterEqual(asked[0], 400)
        self.assertIn("device-kv", asked[2])

    def test_seeds_that_are_near_share_no_draws(self):
        server = self.start("--batch-invariant")
        texts = {}
        for seed in range(-2, 4):
            body = {"prompt": "the code of the river is", "max_tokens": 24,
                    "temperature": 1.5, "seed": seed, "ignore_eos": True}
            for n in (4, 2, 1):
                choices = [choice["text"] for choice
                           in server.complete(**body, n=n)["choices"]]
                # A choice is the same whatever n is.
                self.assertEqual(texts.setdefault(seed, choices)[:n], choices)
        drawn = [text for choices in texts.values() for text in choices]
        self.assertEqual(len(set(drawn)), 6 * 4)

    def test_without_a_seed_all_answers_are_drawn_anew(self):
        server = self.start()
        body = {"prompt": ["The", "The"], "n": 2, "max_tokens": 24,
                "temperature": 1.5, "ignore_eos": True}
        texts = [choice["text"] for _ in range(2)
                 for choice in server.complete(**body)["choices"]]
        self.assertEqual(len(set(texts)), 8)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
