#!/usr/bin/env python3
"""The server's own document: what it says of every route is what the route
answers, streams and refusals too, to the last member.

    serve_openapi_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

from json_schema import Schemas
from scripted_model import write_scripted_model
from serve_process import Server

WINNOW = ""
TEMPLATE = ("{% for message in messages %}{{ message['content'] or '' }}"
            "{% endfor %}{% if tools %}{# <tool_call> #}{% endif %}"
            "{# <think> </think> #}")
SCRIPTS = {"greet": ["Hello", ", ", "you", "!"],
           "muse": ["<think>So.", "</think>", "Yes."],
           "look": ["I look.", "<tool_call>{\"name\": \"weather\", ",
                    "\"arguments\": {\"city\": \"Oslo\"}}</tool_call>"]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "parameters": SCHEMA}


def said(text: str) -> list:
    return [{"role": "user", "content": text}]


# Every route that answers, by what may be asked of it.
ASKED = {
    "/v1/completions": [
        {"prompt": "greet"},
        {"prompt": ["greet", "look"], "logprobs": 2, "n": 2},
        {"prompt": "greet", "return_token_ids": True},
        {"prompt": "greet", "max_tokens": 1, "stop": ["!"]}],
    "/v1/chat/completions": [
        {"messages": said("greet"), "logprobs": True, "top_logprobs": 1},
        {"messages": said("muse"), "reasoning_effort": "low"},
        {"messages": said("muse"), "return_token_ids": True, "n": 2},
        {"messages": said("look"),
         "tools": [{"type": "function", "function": FUNCTION}]}],
    "/v1/responses": [
        {"input": "greet", "max_output_tokens": 2, "metadata": {"a": "b"},
         "include": ["message.output_text.logprobs"]},
        {"input": "muse", "reasoning": {"effort": "high"}},
        {"input": "look", "tools": [{"type": "function", **FUNCTION}]}],
    "/v1/messages": [
        {"messages": said("greet"), "max_tokens": 9, "stop_sequences": ["!"]},
        {"messages": said("muse"), "max_tokens": 9,
         "thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"messages": said("look"), "max_tokens": 9,
         "tools": [{"name": "weather", "input_schema": SCHEMA}]}],
    "/v1/messages/count_tokens": [{"messages": said("greet")}],
    "/tokenize": [{"prompt": "greet", "return_pieces": True},
                  {"messages": said("greet")}],
    "/detokenize": [{"tokens": [3, 4]}],
}
REFUSED = [("/v1/completions", {"prompt": 5}, 400),
           ("/v1/completions", {"prompt": "greet", "model": "x"}, 404),
           ("/v1/embeddings", {"input": "a"}, 400),
           ("/v1/messages", {"messages": said("greet")}, 400),
           ("/v1/messages/count_tokens", {"messages": []}, 400),
           ("/tokenize", {}, 400), ("/detokenize", {"tokens": [-1]}, 400)]


class OpenApiTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_scripted_model(Path(cls.folder.name), SCRIPTS, TEMPLATE)
        cls.server = Server(WINNOW, "--served-model-name", "m",
                            model=cls.folder.name)
        cls.document = json.loads(cls.server.ask("GET", "/openapi.json")[2])
        cls.schemas = Schemas(cls.document)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        cls.folder.cleanup()
        assert status == 0, status

    def expect(self, value, schema: dict):
        self.assertEqual(self.schemas.complaints(value, schema), [])

    def ask(self, method: str, path: str, body=None, of_path=None) -> str:
        """The body of an answer that is as documented."""
        operation = self.document["paths"][of_path or path][method.lower()]
        status, headers, text = self.server.ask(method, path, body)
        response = operation["responses"][str(status)]
        content = response["content"][headers["Content-Type"]]
        if headers["Content-Type"] == "application/json":
            self.expect(json.loads(text), content["schema"])
        elif headers["Content-Type"] == "text/event-stream":
            data = content["schema"]["properties"]["data"]
            event = data.get("anyOf", [data])[-1]["contentSchema"]
            for line in text.splitlines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    self.expect(json.loads(line[6:]), event)
        return text

    def test_routes_without_a_body(self):
        plain = [path for path, methods in self.document["paths"].items()
                 if "get" in methods and "{" not in path]
        self.assertGreater(len(plain), 5)
        for path in plain:
            self.ask("GET", path)
        for name in ["m", "x", "a/b", "%20"]:
            self.ask("GET", f"/v1/models/{name}", of_path="/v1/models/{model}")

    def test_answers_and_events(self):
        for path, bodies in ASKED.items():
            for body in bodies:
                body = {"temperature": 0, **body}
                self.ask("POST", path, body)
                if path.startswith("/v1/") and "count" not in path:
                    text = self.ask("POST", path, {**body, "stream": True})
                    self.assertIn("data: ", text)

    def test_usage_in_a_stream_and_what_was_read(self):
        text = self.ask("POST", "/v1/chat/completions", {
            "messages": said("greet"), "stream": True,
            "stream_options": {"include_usage": True},
            "winnow": {"picks": True}})
        self.assertIn("picks", text)
        self.assertIn("total_tokens", text)
        for path, body in [("/v1/completions", {"prompt": ["greet", "look"]}),
                           ("/v1/chat/completions",
                            {"messages": said("greet")})]:
            text = self.ask("POST", path, {
                **body, "n": 2, "stream": True, "stream_options": {
                    "include_usage": True, "continuous_usage_stats": True}})
            self.assertNotIn('"usage":null', text)

    def test_refusals(self):
        for path, body, status in REFUSED:
            answered = self.server.ask("POST", path, body)[0]
            self.assertEqual(answered, status, path)
            self.ask("POST", path, body)

    def test_every_route_is_documented(self):
        self.assertEqual(set(ASKED) | {"/v1/embeddings"},
                         {path for path, methods
                          in self.document["paths"].items()
                          if "post" in methods})
        for path, methods in self.document["paths"].items():
            for method in ["GET", "POST"]:
                if method.lower() not in methods and "{" not in path:
                    self.assertEqual(self.server.ask(method, path)[0], 405)

    def test_a_validator_that_finds_things(self):
        schema = {"$ref": "#/components/schemas/Completion"}
        answer = json.loads(self.ask("POST", "/v1/completions", {
            "prompt": "greet"}))
        broken = [{**answer, "more": 1}, {**answer, "object": "x"},
                  {**answer, "usage": {**answer["usage"],
                                       "total_tokens": "3"}},
                  {name: answer[name] for name in answer if name != "id"}]
        for each in broken:
            self.assertTrue(self.schemas.complaints(each, schema))

    def test_a_key_is_documented(self):
        self.assertNotIn("security", self.document)
        server = Server(WINNOW, "--api-key", "secret", model=self.folder.name)
        self.assertEqual(server.ask("GET", "/openapi.json")[0], 401)
        document = json.loads(server.ask("GET", "/openapi.json", headers={
            "Authorization": "Bearer secret"})[2])
        self.assertEqual(document["security"], [{"bearer": []}, {"header": []}])
        for path in document["paths"]:
            open_to_all = path in ("/", "/health", "/ping")
            methods = document["paths"][path]
            self.assertEqual("security" in next(iter(methods.values())),
                             open_to_all)
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
