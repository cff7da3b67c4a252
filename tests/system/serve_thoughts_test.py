#!/usr/bin/env python3
"""Thoughts of models whose template shows <think>, over real connections: told
apart from the answer on every route, streaming or not, and asked for as agents'
clients do.

    serve_thoughts_test.py PATH_TO_WINNOW
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
# As Qwen3's: a switch, and thoughts of earlier turns.
SWITCHED = (
    "{% for message in messages %}{{ message['reasoning_content'] or '' }}"
    "{{ message['content'] or '' }}{% endfor %}"
    "{% if enable_thinking is defined and enable_thinking is false %}brief"
    "{% endif %}{% if tools %}{# <tool_call> #}{% endif %}"
    "{# <think> </think> #}")
# As DeepSeek-R1's: the prompt begins the thought, and nothing is read of it.
ALWAYS = ("{% for message in messages %}{{ message['content'] }}{% endfor %}"
          "{# </think> #}{% if add_generation_prompt %}<think>\n{% endif %}")
SCRIPTS = {
    "ask": ["<th", "ink>\nSo", ".\n\nThen", ".\n</thi", "nk>\n\n", "Yes", ", I do."],
    "look": ["<think>", "A tool.", "</think>\n", "<tool_call>{\"name\": \"weather\"",
             ", \"arguments\": {}}</tool_call>"],
    "cut": ["<think>One", " two", " three"],
    "brief": ["Yes."],
    "plain": ["Just", " words </think>"],
    "<think>\n": ["Hm", ".", "</think>", "No."]}
CHAT, RESPONSES, MESSAGES = ("/v1/chat/completions", "/v1/responses",
                             "/v1/messages")


def said(text: str) -> list:
    return [{"role": "user", "content": text}]


class Model:

    def __init__(self, template: str, *flags: str, special=frozenset()):
        self.folder = tempfile.TemporaryDirectory()
        write_scripted_model(Path(self.folder.name), SCRIPTS, template, special)
        self.server = Server(WINNOW, *flags, model=self.folder.name)

    def close(self) -> int:
        status = self.server.end()
        self.folder.cleanup()
        return status

    def chat(self, text: str, **more) -> dict:
        return self.server.complete(path=CHAT, messages=said(text),
                                    **more)["choices"][0]["message"]

    def ignored(self, path: str, **body) -> str:
        status, headers, text = self.server.ask("POST", path, body)
        assert status == 200, text
        return headers["X-Winnow-Ignored-Fields"] or ""

    def events(self, path: str, **body) -> list:
        """Of the routes whose events have names."""
        text = self.server.ask("POST", path, {"temperature": 0, "stream": True,
                                              **body})[2]
        return [json.loads(line[6:]) for line in text.split("\n")
                if line.startswith("data: ")]


class ThoughtsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.model = Model(SWITCHED)

    @classmethod
    def tearDownClass(cls):
        status = cls.model.close()
        assert status == 0, status

    def test_a_chat_tells_them_beside_the_answer(self):
        whole = self.model.server.complete(path=CHAT, messages=said("ask"))
        message = whole["choices"][0]["message"]
        self.assertEqual(message["content"], "Yes, I do.")
        self.assertEqual(message["reasoning_content"], "So.\n\nThen.")
        self.assertEqual(message["reasoning"], message["reasoning_content"])
        self.assertEqual(whole["usage"]["completion_tokens_details"],
                         {"reasoning_tokens": 4})
        deltas = [event["choices"][0]["delta"] for event in
                  self.model.server.stream(CHAT, messages=said("ask"))]
        for name in ("content", "reasoning_content", "reasoning"):
            self.assertEqual("".join(delta.get(name, "") for delta in deltas),
                             message[name])
        for delta in deltas:
            self.assertNotRegex(json.dumps(delta), "[<>]")

    def test_an_answer_without_one_is_as_it_is(self):
        self.assertEqual(self.model.chat("brief"),
                         {"role": "assistant", "content": "Yes.",
                          "refusal": None})
        self.assertEqual(self.model.chat("plain")["content"],
                         "Just words </think>")

    def test_one_that_is_cut_is_a_thought(self):
        message = self.model.chat("cut", max_tokens=2)
        self.assertEqual((message["content"], message["reasoning"]),
                         ("", "One two"))

    def test_calls_stand_behind_them(self):
        message = self.model.chat("look", tools=[{
            "type": "function", "function": {"name": "weather"}}])
        self.assertEqual(message["reasoning"], "A tool.")
        self.assertEqual(message["tool_calls"][0]["function"]["name"],
                         "weather")

    def test_nobody_is_told_who_does_not_want_to_be(self):
        self.assertEqual(self.model.chat("ask", include_reasoning=False),
                         {"role": "assistant", "content": "Yes, I do.",
                          "refusal": None})

    def test_responses_have_an_item_of_them(self):
        server = self.model.server
        asked = {"input": said("ask"), "max_output_tokens": 50,
                 "reasoning": {"effort": "high", "summary": "auto"}}
        whole = server.complete(path=RESPONSES, **asked)
        thought, message = whole["output"]
        self.assertEqual(thought["type"], "reasoning")
        self.assertEqual(thought["content"], [
            {"type": "reasoning_text", "text": "So.\n\nThen."}])
        self.assertEqual(message["content"][0]["text"], "Yes, I do.")
        self.assertEqual(
            whole["usage"]["output_tokens_details"], {"reasoning_tokens": 4})
        events = self.model.events(RESPONSES, **asked)
        last = events[-1]["response"]
        self.assertEqual([item["content"] for item in last["output"]],
                         [item["content"] for item in whole["output"]])
        self.assertEqual("".join(
            event["delta"] for event in events
            if event["type"] == "response.reasoning_text.delta"), "So.\n\nThen.")
        # What the client sends back is the prompt of the next turn.
        again = server.complete(path=RESPONSES, input=[
            {"type": "reasoning", "summary": [], "content": [
                {"type": "reasoning_text", "text": "ask"}]},
            {"role": "assistant", "content": ""}])
        self.assertEqual(again["output"][1]["content"][0]["text"], "Yes, I do.")

    def test_messages_have_a_block_of_them(self):
        asked = {"messages": said("ask"), "max_tokens": 50,
                 "thinking": {"type": "enabled", "budget_tokens": 1024}}
        thought, text = self.model.server.complete(
            path=MESSAGES, **asked)["content"]
        self.assertEqual((thought["type"], thought["thinking"]),
                         ("thinking", "So.\n\nThen."))
        self.assertEqual(text, {"type": "text", "text": "Yes, I do."})
        events = self.model.events(MESSAGES, **asked)
        deltas = [event["delta"] for event in events
                  if event["type"] == "content_block_delta"]
        self.assertEqual("".join(d.get("thinking", "") for d in deltas),
                         "So.\n\nThen.")
        self.assertEqual("".join(d.get("text", "") for d in deltas),
                         "Yes, I do.")

    # The words that clients have for it.

    def test_the_template_is_asked_whether(self):
        for path, body in [
                (CHAT, {"reasoning_effort": "none"}),
                (CHAT, {"chat_template_kwargs": {"enable_thinking": False},
                        "reasoning_effort": "high"}),
                (MESSAGES, {"thinking": {"type": "disabled"}, "max_tokens": 9})]:
            with self.subTest(path=path, body=body):
                # "plain", and "brief" behind it, which answers.
                got = self.model.server.complete(
                    path=path, messages=said("plain"), **body)
                self.assertIn("Yes.", json.dumps(got))
        self.assertEqual(self.model.chat("plain", reasoning_effort="low"),
                         self.model.chat("plain"))

    def test_what_is_not_followed_is_named(self):
        self.assertEqual(self.model.ignored(
            CHAT, messages=said("brief"), reasoning_effort="low"), "")
        self.assertEqual(self.model.ignored(
            MESSAGES, messages=said("brief"), max_tokens=9,
            thinking={"type": "adaptive"}, output_config={"effort": "high"},
            context_management={"edits": []}),
            "context_management, output_config.effort")

    def test_an_anthropic_answer_goes_on(self):
        got = self.model.server.complete(
            path=MESSAGES, max_tokens=9, messages=said("Well?") + [
                {"role": "assistant", "content": "ask"}])
        self.assertEqual(got["content"][-1]["text"], "Yes, I do.")


class OtherTemplatesTest(unittest.TestCase):

    def test_a_prompt_that_begins_the_thought(self):
        model = Model(ALWAYS)
        message = model.chat("ask")
        self.assertEqual((message["content"], message["reasoning"]),
                         ("No.", "Hm."))
        self.assertEqual(model.ignored(CHAT, messages=said("ask"),
                                       reasoning_effort="low"),
                         "reasoning_effort")
        # Who wants none is told none, though it cannot be helped.
        got = model.server.complete(path=MESSAGES, messages=said("ask"),
                                    max_tokens=9, thinking={"type": "disabled"})
        self.assertEqual(got["content"], [{"type": "text", "text": "No."}])
        # One that is begun by who asks.
        message = model.server.complete(
            path=CHAT, messages=said("a") + [
                {"role": "assistant", "content": "<think>cut"}],
            add_generation_prompt=False,
            continue_final_message=True)["choices"][0]["message"]
        self.assertEqual(message["reasoning"], "One two three")
        # What a grammar holds is the answer.
        message = model.chat("ask", guided_choice=["Yes."])
        self.assertEqual((message["content"], message.get("reasoning")),
                         ("Yes.", None))
        self.assertEqual(model.close(), 0)

    def test_tags_that_are_special_tokens(self):
        model = Model(SWITCHED, special={"<think>"})
        message = model.chat("look")
        self.assertEqual(message["reasoning"], "A tool.")
        self.assertEqual(model.close(), 0)

    def test_nothing_is_told_apart_where_nobody_wants_it(self):
        model = Model(SWITCHED, "--reasoning-parser", "none")
        message = model.chat("cut")
        self.assertEqual(message["content"], "<think>One two three")
        self.assertNotIn("reasoning", message)
        self.assertEqual(model.close(), 0)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
