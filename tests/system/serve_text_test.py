#!/usr/bin/env python3
"""Text as it stands behind what came before: leading spaces, characters of
several tokens, the tokens of log probabilities, and what ends an answer.

    serve_text_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

from scripted_model import write_scripted_model
from serve_process import Server

WINNOW = ""
# As the tokenizers of Llama 2 and Mistral.
SENTENCE_PIECE = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
TEMPLATE = ("{% for message in messages %}{{ message['content'] }}{% endfor %}")
FOX = [f"<0x{byte:02X}>" for byte in "\U0001f98a".encode()]
SCRIPTS = {"\u2581Once": ["\u2581upon", "\u2581a", "\u2581time"],
           "<fox>": ["\u2581The", "\u2581fox", *FOX, "\u2581runs"],
           "<end>": ["Yes.", "<|im_end|>", "no more"],
           "<half>": ["half", "<0xE6>", "<0x97>"]}
CHAT, MESSAGES, RESPONSES = ("/v1/chat/completions", "/v1/messages",
                             "/v1/responses")


def said(text: str) -> list:
    return [{"role": "user", "content": text}]


class ServeTextTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_scripted_model(
            Path(cls.folder.name), SCRIPTS, TEMPLATE,
            special={"<fox>", "<end>", "<half>", "<|im_end|>"},
            decoder=SENTENCE_PIECE,
            tokenizer_config={"eos_token": "<|im_end|>"},
            generation_config={"eos_token_id": [2, 4000, "2", -1]})
        cls.server = Server(WINNOW, model=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        cls.folder.cleanup()
        if status != 0:
            raise AssertionError(f"the server ended with {status}")

    def ids_of(self, text: str) -> list[int]:
        return json.loads(self.server.ask("POST", "/tokenize", {
            "prompt": text, "add_special_tokens": False})[2])["tokens"]

    def complete(self, name: str, **more) -> dict:
        return self.server.complete(prompt=self.ids_of(name), temperature=0,
                                    **more)["choices"][0]

    def check_tokens(self, choice: dict):
        """Joined they are the text, and offsets point into it."""
        shown = choice["logprobs"]
        self.assertEqual("".join(shown["tokens"]), choice["text"])
        for i, (token, offset, top) in enumerate(zip(
                shown["tokens"], shown["text_offset"],
                shown["top_logprobs"])):
            self.assertEqual(offset, len("".join(shown["tokens"][:i])))
            self.assertTrue(choice["text"][offset:].startswith(token))
            if top is not None:
                self.assertIn(token, top)

    def test_an_answer_goes_on_where_the_prompt_ends(self):
        once = self.ids_of("\u2581Once")
        self.assertEqual(self.complete("\u2581Once")["text"], " upon a time")
        self.assertEqual(self.complete("\u2581Once", echo=True)["text"],
                         "Once upon a time")
        several = self.server.complete(prompt=[once, [1] + once], n=2,
                                       temperature=0)
        self.assertEqual([c["text"] for c in several["choices"]],
                         [" upon a time"] * 4)
        streamed = self.server.stream(prompt=once, temperature=0)
        self.assertEqual("".join(e["choices"][0]["text"] for e in streamed),
                         " upon a time")
        chat = self.server.complete(path=CHAT, messages=said("<fox>"))
        self.assertEqual(chat["choices"][0]["message"]["content"],
                         "The fox\U0001f98a runs")

    def test_a_message_that_is_continued_is_a_text_before(self):
        begun = [*said("x"), {"role": "assistant", "content": "\u2581Once"}]
        told = self.server.complete(
            path=CHAT, messages=begun, add_generation_prompt=False,
            continue_final_message=True)
        self.assertEqual(told["choices"][0]["message"]["content"],
                         " upon a time")
        told = self.server.complete(path=MESSAGES, messages=begun,
                                    max_tokens=8)
        self.assertEqual(told["content"][0]["text"], " upon a time")

    def test_a_grammar_goes_on_behind_the_prompt(self):
        for name, choice in [("\u2581Once", " upon"), ("\u2581Once", "Yes.")]:
            told = self.complete(name, guided_choice=[choice])
            self.assertEqual(told["text"], choice)
        chat = self.server.complete(path=CHAT, messages=said("x"),
                                    guided_choice=["upon a"])
        self.assertEqual(chat["choices"][0]["message"]["content"], "upon a")

    def test_a_character_comes_with_its_last_token(self):
        pieces = [e["choices"][0]["delta"].get("content")
                  for e in self.server.stream(CHAT, messages=said("<fox>"))]
        self.assertEqual([p for p in pieces if p],
                         ["The", " fox", "\U0001f98a", " runs"])
        # It stops with the last byte of it.
        told = self.server.complete(path=CHAT, messages=said("<fox>"),
                                    stop=["\U0001f98a"])
        self.assertEqual(told["choices"][0]["message"]["content"], "The fox")
        self.assertEqual(told["usage"]["completion_tokens"], 6)
        # Bytes that are no character.
        for echo in [False, True]:
            self.assertEqual(self.complete("<half>", echo=echo)["text"],
                             "half\ufffd\ufffd")

    def test_tokens_joined_are_the_text(self):
        for name in ["<fox>", "\u2581Once", "<half>", "<end>"]:
            for more in [{}, {"echo": True}, {"skip_special_tokens": False},
                         {"stop": ["x r", "a t"]}, {"stop": ["\U0001f98a"]},
                         {"stop": ["fox"], "include_stop_str_in_output": True},
                         {"echo": True, "stop": [" t"]}, {"max_tokens": 3}]:
                with self.subTest(name=name, **more):
                    whole = self.complete(name, logprobs=5, **more)
                    self.check_tokens(whole)
                    text, lists = "", {key: [] for key in whole["logprobs"]}
                    for event in self.server.stream(
                            prompt=self.ids_of(name), temperature=0,
                            logprobs=5, **more):
                        choice = event["choices"][0]
                        text += choice["text"]
                        for key in lists if choice["logprobs"] else []:
                            lists[key] += choice["logprobs"][key]
                    self.assertEqual((text, lists),
                                     (whole["text"], whole["logprobs"]))

    def test_no_alternative_is_lost(self):
        shown = self.complete("<fox>", logprobs=20)["logprobs"]
        for top in shown["top_logprobs"]:
            self.assertIn(len(top), [20, 21])
        by_id = self.complete("<fox>", logprobs=2,
                              return_tokens_as_token_ids=True)
        for token, top in zip(by_id["logprobs"]["tokens"],
                              by_id["logprobs"]["top_logprobs"]):
            self.assertRegex(token, r"^token_id:\d+$")
            self.assertIn(token, top)
            for name in top:
                self.assertRegex(name, r"^token_id:\d+$")

    def test_bytes_are_the_tokens_own(self):
        right = [b"The", b" fox", *(bytes([b]) for b in "\U0001f98a".encode()),
                 b" runs"]
        asked = {"messages": said("<fox>"), "logprobs": True,
                 "top_logprobs": 1}
        told = self.server.complete(path=CHAT, **asked)["choices"][0]
        content = told["logprobs"]["content"]
        self.assertEqual([bytes(t["bytes"]) for t in content[:-1]], right)
        self.assertEqual([bytes(t["top_logprobs"][0]["bytes"])
                          for t in content[:-1]], right)
        self.assertEqual("".join(t["token"] for t in content[:-1]),
                         told["message"]["content"])
        self.assertEqual(content[-1]["token"], "</s>")
        streamed = [entry for event in self.server.stream(CHAT, **asked)
                    if event["choices"][0]["logprobs"]
                    for entry in event["choices"][0]["logprobs"]["content"]]
        self.assertEqual(streamed, content)
        responses = self.server.complete(
            path=RESPONSES, input="<fox>",
            include=["message.output_text.logprobs"])
        listed = responses["output"][0]["content"][0]["logprobs"]
        self.assertEqual([bytes(t["bytes"]) for t in listed[:-1]], right)

    def test_every_files_end_token_ends_an_answer(self):
        for prompt, text in [("<end>", "Yes."), ("<fox>", None)]:
            told = self.server.complete(path=CHAT, messages=said(prompt))
            choice = told["choices"][0]
            self.assertEqual(choice["finish_reason"], "stop")
            if text is not None:
                self.assertEqual(choice["message"]["content"], text)
        file = str(Path(self.folder.name) / "generation_config.json")
        for index, value in enumerate(["4000", "\"2\"", "-1"], 1):
            named = [line for line in self.server.lines
                     if f"{file}: field eos_token_id[{index}]: must be an "
                     "integer in [0, " in line]
            self.assertEqual(len(named), 1, self.server.lines)
            self.assertIn(f"is {value}: it is left out", named[0])


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main(verbosity=2)
