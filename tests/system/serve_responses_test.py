#!/usr/bin/env python3
"""/v1/responses over real connections, as OpenAI's clients read it.

    serve_responses_test.py PATH_TO_WINNOW
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
PATH = "/v1/responses"
TEMPLATE = ("{% for message in messages %}{{ message['content'] or '' }}"
            "{% endfor %}{% if tools %}{# <tool_call> #}{% endif %}")
SCRIPTS = {"greet": ["Hello", ", ", "you", "!"],
           "look": ["I look.", "<tool_call>{\"name\": \"weather\", ",
                    "\"arguments\": {\"city\": \"Oslo\"}}</tool_call>"]}
TOOL = {"type": "function", "name": "weather", "description": "x",
        "parameters": {"type": "object"}}


class ResponsesTest(unittest.TestCase):

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

    def events(self, **body) -> list:
        status, headers, text = self.server.ask(
            "POST", PATH, {"stream": True, "temperature": 0, **body})
        self.assertEqual(status, 200, text)
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        events = []
        for block in text.split("\n\n")[:-1]:
            name, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            self.assertEqual(name, "event: " + events[-1]["type"])
        self.assertEqual([event["sequence_number"] for event in events],
                         list(range(len(events))))
        return events

    def test_text(self):
        whole = self.server.complete(path=PATH, input="greet")
        self.assertEqual(whole["object"], "response")
        self.assertEqual(whole["status"], "completed")
        self.assertTrue(whole["id"].startswith("resp_"))
        item, = whole["output"]
        self.assertEqual((item["type"], item["role"]), ("message", "assistant"))
        self.assertEqual(item["content"][0]["text"], "Hello, you!")
        usage = whole["usage"]
        self.assertEqual(usage["input_tokens"], 1)
        self.assertEqual(usage["output_tokens"], 5)
        self.assertEqual(usage["total_tokens"], 6)
        events = self.events(input=[{"role": "user", "content": "greet"}])
        self.assertEqual(events[0]["type"], "response.created")
        text = "".join(event["delta"] for event in events
                       if event["type"] == "response.output_text.delta")
        self.assertEqual(text, "Hello, you!")
        last = events[-1]["response"]
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertEqual(last["output"][0]["content"], item["content"])
        self.assertEqual(last["id"], events[0]["response"]["id"])
        cut = self.server.complete(path=PATH, input="greet",
                                   max_output_tokens=1)
        self.assertEqual(cut["status"], "incomplete")
        self.assertEqual(cut["incomplete_details"],
                         {"reason": "max_output_tokens"})

    def test_calls(self):
        body = {"input": [{"role": "user", "content": "look"}],
                "tools": [TOOL]}
        message, call = self.server.complete(path=PATH, **body)["output"]
        self.assertEqual(message["content"][0]["text"], "I look.")
        self.assertEqual((call["type"], call["name"], call["arguments"]),
                         ("function_call", "weather", '{"city":"Oslo"}'))
        done = [event["item"] for event in self.events(**body)
                if event["type"] == "response.output_item.done"]
        self.assertEqual(done[1]["arguments"], call["arguments"])
        # The client's next turn: what it got, and the result.
        body["input"] += [message, call, {
            "type": "function_call_output", "call_id": call["call_id"],
            "output": "greet"}]
        last = self.server.complete(path=PATH, **body)
        self.assertEqual(last["output"][0]["content"][0]["text"],
                         "Hello, you!")

    def test_what_is_refused_says_why(self):
        for field, value, word in [
                ("previous_response_id", "resp_1", "whole"),
                ("background", True, "false"), ("input", [], "items"),
                ("max_output_tokens", 0, "[1,"),
                ("tools", [{"type": "function"}], "letters"),
                ("reasoning", {"effort": "much"}, "one of \"none\"")]:
            status, _, text = self.server.ask(
                "POST", PATH, {"input": "greet", field: value})
            self.assertEqual(status, 400, text)
            error = json.loads(text)["error"]
            self.assertTrue(error["param"].startswith(field), text)
            self.assertIn(word, error["message"])
        _, headers, _ = self.server.ask(
            "POST", PATH, {"input": "greet", "store": True, "top_k": 5,
                           "metadata": {"a": "b"},
                           "tools": [{"type": "web_search"}],
                           "reasoning": {"effort": "high", "summary": "auto"},
                           "context_management": [{"type": "compaction"}],
                           "text": {"verbosity": "low", "format": None}})
        self.assertEqual(
            headers["X-Winnow-Ignored-Fields"],
            "context_management, metadata, store, tools.web_search, "
            "reasoning.summary, text.verbosity, reasoning.effort")


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
