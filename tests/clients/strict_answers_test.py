#!/usr/bin/env python3
"""Answers, and each event of streams, held against the types of OpenAI's and
Anthropic's own packages as pydantic checks them strictly. The packages themselves
take what comes without looking (scripts/requirements-clients-light.txt).

    strict_answers_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Literal, Optional

import pydantic
from anthropic.types import (ErrorResponse, Message, MessageTokensCount,
                             ModelInfo, RawMessageStreamEvent)
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.shared import ErrorObject

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))

from scripted_model import write_scripted_model  # noqa: E402
from serve_process import Server  # noqa: E402

WINNOW = ""
TEMPLATE = ("{% for message in messages %}{{ message['reasoning_content'] or '' }}"
            "{{ message['content'] or '' }}"
            "{% endfor %}{% if tools %}{# <tool_call> #}{% endif %}"
            "{# <think> </think> #}")
SCRIPTS = {"greet": ["Hello", ", ", "you", "!"],
           "muse": ["<think>greet", "</think>\n\n", "Well."],
           "look": ["I look.", "<tool_call>{\"name\": \"weather\", ",
                    "\"arguments\": {\"city\": \"Oslo\"}}</tool_call>"],
           "judge": ["{\"a\"", ": ", "42", "}"]}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}},
              "required": ["city"], "additionalProperties": False}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}},
          "required": ["a"], "additionalProperties": False}


def chat(word: str, **more) -> dict:
    return {"model": "m", "temperature": 0, "max_tokens": 20,
            "messages": [{"role": "user", "content": word}], **more}


CHAT_TOOLS = {"tools": [{"type": "function", "function": {
    "name": "weather", "description": "It", "parameters": PARAMETERS,
    "strict": True}}]}
CHATS = [
    chat("greet"), chat("greet", n=2, logprobs=True, top_logprobs=2),
    chat("greet", max_completion_tokens=2), chat("greet", stop="you"),
    chat("muse", reasoning_effort="low"), chat("look", **CHAT_TOOLS),
    chat("look", **CHAT_TOOLS, tool_choice="required"),
    chat("judge", **CHAT_TOOLS, response_format={
        "type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}})]
# Of echo with logprobs the first token's is null, as at OpenAI's servers, which
# their type leaves out.
COMPLETIONS = [
    {"model": "m", "prompt": "greet", "temperature": 0, **more}
    for more in [{}, {"logprobs": 2}, {"echo": True},
                 {"max_tokens": 1}, {"n": 2, "stop": ["you"]},
                 {"return_token_ids": True}]]
RESPONSE_TOOLS = {"tools": [{"type": "function", "name": "weather",
                             "description": "It", "strict": True,
                             "parameters": PARAMETERS}]}
RESPONSES = [
    {"model": "m", "input": word, "temperature": 0, **more}
    for word, more in [
        ("greet", {}), ("greet", {"max_output_tokens": 2}),
        ("greet", {"instructions": "look", "metadata": {"a": "b"},
                   "user": "u", "top_p": 0.5, "truncation": "disabled"}),
        ("greet", {"include": ["message.output_text.logprobs"],
                   "top_logprobs": 2}),
        ("muse", {"reasoning": {"effort": "low", "summary": "auto"}}),
        ("look", RESPONSE_TOOLS),
        ("look", {**RESPONSE_TOOLS, "tool_choice": "required",
                  "parallel_tool_calls": False}),
        ("look", {**RESPONSE_TOOLS, "tool_choice": {
            "type": "function", "name": "weather"}}),
        ("judge", {**RESPONSE_TOOLS, "text": {"format": {
            "type": "json_schema", "name": "n", "strict": True,
            "schema": SCHEMA}}})]]
MESSAGE_TOOLS = {"tools": [{"name": "weather", "input_schema": PARAMETERS}]}
MESSAGES = [
    chat("greet"), chat("greet", max_tokens=2),
    chat("greet", stop_sequences=["you"], system="greet"),
    chat("muse", max_tokens=2000,
         thinking={"type": "enabled", "budget_tokens": 1024}),
    chat("look", **MESSAGE_TOOLS),
    chat("look", **MESSAGE_TOOLS, tool_choice={"type": "any"}),
    chat("judge", **MESSAGE_TOOLS, output_config={"format": {
        "type": "json_schema", "schema": SCHEMA}})]


class ModelList(pydantic.BaseModel):
    """Of OpenAI's: SyncPage[Model]."""
    object: Literal["list"]
    data: list[Model]


class ModelPage(pydantic.BaseModel):
    """Of Anthropic's: SyncPage[ModelInfo]."""
    data: list[ModelInfo]
    has_more: bool
    first_id: Optional[str]
    last_id: Optional[str]


class ErrorBody(pydantic.BaseModel):
    """Of OpenAI's, around what its client takes out."""
    error: ErrorObject


class StrictAnswersTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_scripted_model(Path(cls.folder.name), SCRIPTS, TEMPLATE)
        cls.server = Server(WINNOW, "--served-model-name", "m",
                            model=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        cls.folder.cleanup()
        assert status == 0, status

    def check(self, kind, text: str):
        try:
            pydantic.TypeAdapter(kind).validate_json(text, strict=True)
        except pydantic.ValidationError as error:
            self.fail(f"{error}\nof {text}")

    def answers(self, path: str, kind, bodies: list[dict]):
        for body in bodies:
            with self.subTest(path=path, body=body):
                status, _, text = self.server.ask("POST", path, body)
                self.assertEqual(status, 200, text)
                self.check(kind, text)

    def streams(self, path: str, kind, bodies: list[dict],
                running: tuple[str, str] = ("", "")):
        """`running`: what events before the end say, and what is checked."""
        for body in bodies:
            with self.subTest(path=path, body=body):
                status, _, text = self.server.ask(
                    "POST", path, {**body, "stream": True})
                self.assertEqual(status, 200, text)
                lines = [line[6:] for line in text.split("\n")
                         if line.startswith("data: ")]
                self.assertGreater(len(lines), 1)
                for line in lines:
                    if line != "[DONE]":
                        self.check(kind, line.replace(*running))

    def test_completions(self):
        self.answers("/v1/completions", Completion, COMPLETIONS)
        # OpenAI's servers say null before the end, and its package has one type
        # for answers and events.
        self.streams("/v1/completions", Completion, [
            *COMPLETIONS, {**COMPLETIONS[0], "stream_options": {
                "include_usage": True, "continuous_usage_stats": True}}],
            ('"finish_reason":null', '"finish_reason":"stop"'))

    def test_chats(self):
        self.answers("/v1/chat/completions", ChatCompletion, CHATS)
        self.streams("/v1/chat/completions", ChatCompletionChunk, [
            *CHATS, {**CHATS[0], "stream_options": {"include_usage": True}}])

    def test_responses(self):
        self.answers("/v1/responses", Response, RESPONSES)
        self.streams("/v1/responses", ResponseStreamEvent, RESPONSES)

    def test_messages(self):
        self.answers("/v1/messages", Message, MESSAGES)
        self.streams("/v1/messages", RawMessageStreamEvent, MESSAGES)
        counted = [{k: v for k, v in body.items() if k not in (
            "max_tokens", "temperature", "stop_sequences")}
            for body in MESSAGES]
        self.answers("/v1/messages/count_tokens", MessageTokensCount, counted)

    def test_models(self):
        for path, kinds in [("/v1/models", [ModelList, ModelPage]),
                            ("/v1/models/m", [Model, ModelInfo])]:
            status, _, text = self.server.ask("GET", path)
            self.assertEqual(status, 200, text)
            for kind in kinds:
                self.check(kind, text)

    def test_errors(self):
        for path, kind, body in [
                ("/v1/completions", ErrorBody, {"prompt": 5}),
                ("/v1/chat/completions", ErrorBody, chat("greet", n=10_000)),
                ("/v1/responses", ErrorBody, {"input": 5}),
                ("/v1/messages", ErrorResponse, chat("greet", top_k="x"))]:
            status, _, text = self.server.ask("POST", path, body)
            self.assertEqual(status, 400, text)
            self.check(kind, text)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
