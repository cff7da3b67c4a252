#!/usr/bin/env python3
"""All that the types of OpenAI's and Anthropic's packages let a client send
back, before a question: each form is answered, and what the model is not told is
named.

    history_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

from anthropic.types import MessageParam, ToolUnionParam
from anthropic.types.beta import (BetaContentBlockParam, BetaMessageParam,
                                  BetaToolUnionParam)
from openai.types.chat import (ChatCompletionMessageParam,
                               ChatCompletionToolUnionParam)
from openai.types.responses import ResponseInputItemParam, ToolParam

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))

from scripted_model import write_scripted_model  # noqa: E402
from serve_process import Server  # noqa: E402
from typed_samples import samples  # noqa: E402

WINNOW = ""
# Both ways that templates read arguments.
TEMPLATE = """{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call | tojson }}
{%- for name, value in call.function.arguments | items %}{{ name }}{% endfor %}
{%- endfor %}{% endfor %}{% if tools %}{# <tool_call> #}{% endif %}"""
SCRIPTS = {"greet": ["Hello", ", ", "you", "!"]}
GREETING = "Hello, you!"
QUESTION = {"role": "user", "content": "greet"}
AT_ONCE = 40  # forms a request

# Kinds that are named and left out, whatever they hold.
ITEMS_LEFT_OUT = {
    "additional_tools", "compaction", "compaction_trigger",
    "configuration_update", "image_generation_call", "item_reference",
    "mcp_approval_request", "mcp_approval_response", "mcp_list_tools",
    "tool_search_call", "tool_search_output", "web_search_call"}
# Those that are told with the result that they hold, and left out without.
ITEMS_WITH_RESULTS = {"code_interpreter_call", "file_search_call", "mcp_call"}
ITEMS_TOLD = {
    "apply_patch_call", "apply_patch_call_output", "computer_call",
    "computer_call_output", "custom_tool_call", "custom_tool_call_output",
    "function_call", "function_call_output", "local_shell_call",
    "local_shell_call_output", "message", "program", "program_output",
    "reasoning", "shell_call", "shell_call_output"}
BLOCKS_LEFT_OUT = {
    "container_upload", "fallback", "image", "mcp_tool_listing",
    "redacted_thinking", "tool_addition", "tool_removal"}
BLOCKS_TOLD = {
    "compaction", "document", "search_result", "text", "thinking",
    "tool_result", "tool_use"}


def is_paired(kind: str) -> bool:
    """Told where call and result are both there."""
    return (kind in ("server_tool_use", "mcp_tool_use")
            or kind.endswith("_tool_result"))


def kind_of(item: dict) -> str:
    return item.get("type") or ("message" if "role" in item
                                else "item_reference")


class HistoryTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_scripted_model(Path(cls.folder.name), SCRIPTS, TEMPLATE)
        cls.server = Server(WINNOW, model=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        cls.folder.cleanup()
        assert status == 0, status

    def names_left_out(self, path: str, body: dict) -> set[str]:
        status, headers, text = self.server.ask(
            "POST", path, {"temperature": 0, **body})
        self.assertEqual(status, 200, f"{body}\n{text}")
        self.assertIn(GREETING, text)
        return set((headers["X-Winnow-Ignored-Fields"] or "").split(", "))

    def ask_all(self, path: str, forms: list, body_of) -> None:
        """Many together; one by one where together they are refused."""
        for first in range(0, len(forms), AT_ONCE):
            some = forms[first:first + AT_ONCE]
            status, _, _ = self.server.ask("POST", path, body_of(some))
            for form in some if status != 200 else []:
                self.names_left_out(path, body_of([form]))
            self.assertEqual(status, 200, "each alone is answered")

    def responses(self, items: list) -> dict:
        return {"input": items + [QUESTION], "max_output_tokens": 9}

    def messages(self, messages: list) -> dict:
        return {"messages": messages + [QUESTION], "max_tokens": 9}

    def test_every_item_of_a_response(self):
        forms = samples(ResponseInputItemParam)
        self.ask_all("/v1/responses", forms, self.responses)
        kinds = {kind_of(form) for form in forms}
        self.assertEqual(
            kinds, ITEMS_LEFT_OUT | ITEMS_WITH_RESULTS | ITEMS_TOLD)
        least = {kind_of(form): form for form in reversed(forms)}
        for kind, form in least.items():
            names = self.names_left_out("/v1/responses",
                                        self.responses([form]))
            if kind not in ITEMS_WITH_RESULTS:
                self.assertEqual(f"input.{kind}" in names,
                                 kind in ITEMS_LEFT_OUT, kind)

    def test_hosted_calls_are_told_with_their_results(self):
        for form in samples(ResponseInputItemParam):
            if kind_of(form) not in ITEMS_WITH_RESULTS:
                continue
            has_result = any(form.get(name) for name in
                             ("results", "outputs", "output", "error"))
            names = self.names_left_out("/v1/responses",
                                        self.responses([form]))
            self.assertEqual(f"input.{kind_of(form)}" in names, not has_result,
                             form)

    def test_every_message_of_a_chat(self):
        self.ask_all("/v1/chat/completions",
                     samples(ChatCompletionMessageParam), self.messages)

    def test_every_block_of_a_message(self):
        forms = samples(BetaContentBlockParam)
        for role in ("user", "assistant"):
            said = [{"role": role, "content": [form]} for form in forms]
            self.ask_all("/v1/messages", said, self.messages)
        least = {form["type"]: form for form in reversed(forms)}
        for kind, form in least.items():
            said = {"role": "assistant", "content": [form]}
            names = self.names_left_out("/v1/messages", self.messages([said]))
            alone = (kind in BLOCKS_LEFT_OUT or is_paired(kind)
                     or kind in ("compaction", "document", "tool_result",
                                 "search_result"))
            if not alone:
                self.assertIn(kind, BLOCKS_TOLD)
                self.assertNotIn(f"messages.content.{kind}", names)
            elif kind in BLOCKS_LEFT_OUT or is_paired(kind):
                self.assertIn(f"messages.content.{kind}", names)

    def test_what_earlier_turns_lack_is_left_out(self):
        call = {"id": "c", "type": "function",
                "function": {"name": "f", "arguments": "{}"}}
        for path, body_of, place, turns in [
                ("/v1/chat/completions", self.messages, "messages", [
                    {"role": "user", "content": None},
                    {"role": "system", "content": None},
                    {"role": "user", "content": [{"type": "text",
                                                  "text": None}]},
                    {"role": "user", "content": [{"type": "text"}, None]},
                    {"role": "critic", "content": "x"},
                    {"role": "assistant", "tool_calls": {}},
                    {"role": "assistant", "tool_calls": [
                        {**call, "function": {"name": None}}]},
                    {"role": "assistant", "tool_calls": [{**call, "id": []}]},
                ]),
                ("/v1/messages", self.messages, "messages", [
                    {"role": "user", "content": None},
                    {"role": "user", "content": [{"type": "text"}]},
                    {"role": "user", "content": [{"type": "document"}]},
                    {"role": "user", "content": [{"type": "tool_result"}]},
                    {"role": "assistant", "content": [{"type": "thinking"}]},
                    {"role": "assistant", "content": [{"type": "tool_use"}]},
                ]),
                ("/v1/responses", self.responses, "input", [
                    {"role": "user", "content": None},
                    {"role": "developer", "content": None},
                    {"role": "user", "content": [{"type": "input_text"}]},
                    {"type": "function_call", "call_id": "c"},
                    {"type": "custom_tool_call", "name": "f", "input": None},
                    {"type": 5},
                ])]:
            for turn in turns:
                names = self.names_left_out(path, body_of([turn]))
                self.assertTrue(
                    any(name.startswith(place) for name in names), turn)

    def test_odd_values_of_earlier_turns_are_told(self):
        """Without a loss, so that nothing is named."""
        for turn in [
                {"role": "user", "content": ["plain", {"text": "x"}]},
                {"role": "tool", "tool_call_id": 5, "content": 5},
                {"role": "tool", "content": True},
                {"role": "tool", "content": ["plain"]},
                {"role": "assistant", "tool_calls": [
                    {"id": 5, "function": {"name": "f"}}]}]:
            self.assertEqual(self.names_left_out(
                "/v1/chat/completions", self.messages([turn])), {""}, turn)
        for output in [5, ["a"], None, {"a": 1}]:
            item = {"type": "function_call_output", "output": output}
            self.assertEqual(self.names_left_out(
                "/v1/responses", self.responses([item])), {""}, output)
        developer = {"role": "developer", "content": "Rule."}
        self.assertEqual(self.names_left_out(
            "/v1/messages", self.messages([developer])), {""})

    def test_every_message_of_messages(self):
        for union in (MessageParam, BetaMessageParam):
            self.ask_all("/v1/messages", samples(union), self.messages)

    def test_what_a_server_ran_is_told_with_its_result(self):
        for form in samples(BetaContentBlockParam):
            if not form["type"].endswith("_tool_result"):
                continue
            use = {"type": "server_tool_use", "name": "web_search",
                   "id": form["tool_use_id"], "input": {"query": "rain"}}
            names = self.names_left_out("/v1/messages", self.messages([
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I look."}, use, form,
                    {"type": "text", "text": "It rains."}]}]))
            self.assertFalse({"messages.content.server_tool_use",
                              f"messages.content.{form['type']}"} & names)

    def test_every_tool(self):
        for path, union, function, body in [
                ("/v1/responses", ToolParam, "function", self.responses([])),
                ("/v1/chat/completions", ChatCompletionToolUnionParam,
                 "function", self.messages([])),
                ("/v1/messages", ToolUnionParam, "custom", self.messages([])),
                ("/v1/messages", BetaToolUnionParam, "custom",
                 self.messages([]))]:
            kinds = {}
            for form in samples(union):
                kinds.setdefault(form.get("type"), form)
            for kind, form in kinds.items():
                names = self.names_left_out(path, {**body, "tools": [form]})
                is_told = kind in (function, None)
                self.assertEqual(f"tools.{kind}" in names, not is_told, form)
            self.ask_all(path, samples(union),
                         lambda some, body=body: {**body, "tools": some})


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
