#!/usr/bin/env python3
"""/v1/messages over real connections, as Anthropic's clients read it.

    serve_messages_test.py PATH_TO_WINNOW
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
PATH = "/v1/messages"
KEY = {"x-api-key": "secret"}
TEMPLATE = ("{% for message in messages %}{{ message['content'] or '' }}"
            "{% endfor %}{% if tools %}{# <tool_call> #}{% endif %}")
SCRIPTS = {"greet": ["Hello", ", ", "you", "!"],
           "look": ["I look.", "<tool_call>{\"name\": \"weather\", ",
                    "\"arguments\": {\"city\": \"Oslo\"}}</tool_call>"]}
TOOL = {"name": "weather", "input_schema": {"type": "object"}}


class MessagesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_scripted_model(Path(cls.folder.name), SCRIPTS, TEMPLATE)
        cls.server = Server(WINNOW, "--api-key", "secret",
                            "--max-body-size", "1MiB", model=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        cls.folder.cleanup()
        assert status == 0, status

    def ask(self, said: str, expected=200, path=PATH, **more):
        body = {"messages": [{"role": "user", "content": said}],
                "max_tokens": 20, "temperature": 0, **more}
        status, headers, text = self.server.ask("POST", path, body, KEY)
        self.assertEqual(status, expected, text)
        if more.get("stream"):
            events = []
            for block in text.split("\n\n")[:-1]:
                name, data = block.split("\n")
                events.append(json.loads(data.removeprefix("data: ")))
                self.assertEqual(name, "event: " + events[-1]["type"])
            return events
        return json.loads(text)

    def test_text(self):
        whole = self.ask("greet", system="")
        self.assertEqual((whole["type"], whole["role"]),
                         ("message", "assistant"))
        self.assertTrue(whole["id"].startswith("msg_"))
        self.assertEqual(whole["content"],
                         [{"type": "text", "text": "Hello, you!"}])
        self.assertEqual(whole["stop_reason"], "end_turn")
        self.assertEqual(whole["usage"]["input_tokens"], 1)
        events = self.ask("greet", stream=True)
        self.assertEqual(events[0]["type"], "message_start")
        self.assertEqual(events[0]["message"]["usage"]["input_tokens"], 1)
        text = "".join(event["delta"]["text"] for event in events
                       if event["type"] == "content_block_delta")
        self.assertEqual(text, "Hello, you!")
        self.assertEqual([event["type"] for event in events[-2:]],
                         ["message_delta", "message_stop"])
        self.assertEqual(events[-2]["delta"]["stop_reason"], "end_turn")
        self.assertEqual(events[-2]["usage"]["output_tokens"],
                         whole["usage"]["output_tokens"])
        stopped = self.ask("greet", stop_sequences=["you"])
        self.assertEqual(stopped["content"][0]["text"], "Hello, ")
        self.assertEqual((stopped["stop_reason"], stopped["stop_sequence"]),
                         ("stop_sequence", "you"))
        self.assertEqual(self.ask("greet", max_tokens=1)["stop_reason"],
                         "max_tokens")

    def test_what_was_cached_is_told_alike_from_the_first_event(self):
        self.ask("greet" * 100)
        events = self.ask("greet" * 100, stream=True)
        started, ended = events[0]["message"]["usage"], events[-2]["usage"]
        for usage in (started, ended):
            self.assertEqual((usage["input_tokens"],
                              usage["cache_read_input_tokens"]), (4, 96))

    def test_tools(self):
        whole = self.ask("look", tools=[TOOL])
        text, use = whole["content"]
        self.assertEqual(text["text"], "I look.")
        self.assertEqual((use["type"], use["name"], use["input"]),
                         ("tool_use", "weather", {"city": "Oslo"}))
        self.assertEqual(whole["stop_reason"], "tool_use")
        deltas = [event["delta"] for event in self.ask(
            "look", tools=[TOOL], stream=True)
            if event["type"] == "content_block_delta"]
        self.assertEqual(json.loads(deltas[-1]["partial_json"]), use["input"])
        _, _, text = self.server.ask("POST", PATH, {
            "max_tokens": 20, "temperature": 0, "tools": [TOOL], "messages": [
                {"role": "user", "content": "look"},
                {"role": "assistant", "content": whole["content"]},
                {"role": "user", "content": [{
                    "type": "tool_result", "tool_use_id": use["id"],
                    "content": "greet"}]}]}, KEY)
        self.assertEqual(json.loads(text)["content"][0]["text"],
                         "Hello, you!")

    def test_tokens_are_counted(self):
        status, _, text = self.server.ask(
            "POST", PATH + "/count_tokens",
            {"messages": [{"role": "user", "content": "greetgreet"}]}, KEY)
        self.assertEqual((status, json.loads(text)),
                         (200, {"input_tokens": 2}))

    def test_errors_have_anthropics_form(self):
        body = {"messages": [{"role": "user", "content": "greet"}]}
        for data, headers, status, kind, word in [
                (body, KEY, 400, "invalid_request_error", "max_tokens"),
                (b"{", KEY, 400, "invalid_request_error", "byte"),
                ({**body, "max_tokens": 1, "model": "other"}, KEY, 404,
                 "not_found_error", "other"),
                (body, {}, 401, "authentication_error", "x-api-key"),
                (body, {"x-api-key": "secreT"}, 401, "authentication_error",
                 ""),
                (b" " * (2 << 20), KEY, 413, "request_too_large",
                 "1048576")]:
            got, _, text = self.server.ask("POST", PATH, data, headers)
            self.assertEqual(got, status, text)
            answer = json.loads(text)
            self.assertEqual((answer["type"], answer["error"]["type"]),
                             ("error", kind))
            self.assertIn(word, answer["error"]["message"])
        status, headers, _ = self.server.ask("GET", PATH, headers=KEY)
        self.assertEqual(status, 405)
        self.assertEqual(headers["request-id"], headers["X-Request-Id"])
        self.assertEqual(self.server.ask("GET", "/v1/models", headers={
            "Authorization": "Bearer secret"})[0], 200)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
