#!/usr/bin/env python3
"""Answers that are held to JSON schemas, as the package jsonschema judges them:
its references (JSON pointers, ids, anchors), its keywords, and the arguments of
forced calls (scripts/requirements-clients-light.txt).

    schema_answers_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))

from scripted_model import write_scripted_model  # noqa: E402
from serve_process import Server  # noqa: E402

WINNOW = ""
CHAT = "/v1/chat/completions"
TEMPLATE = ("{% for message in messages %}{{ message['content'] }}{% endfor %}"
            "{% if tools %}{# FORM #}{% endif %}")
FORMS = ["<tool_call>", '"name": "parameters":',
         "<tool_call><function=f><parameter=n>", "<|tool_call_start|>```python"]
# A model that knows no text: hot, any character is about as likely after any.
CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]
ENDS = {str(4 + ord(c) - 32): 25 for c in '"}]'}
HOT = {"temperature": 60, "max_tokens": 1500, "logit_bias": ENDS,
       "messages": [{"role": "user", "content": "go"}]}


def closed(**properties) -> dict:
    return {"type": "object", "properties": properties,
            "required": list(properties), "additionalProperties": False}


NAMES = ["a/b", "a~b", "Box<int>", "a b", "nä", "100%", "~1", "", "x\"y", "0"]
YES = {"enum": ["yes", 1, None]}
REFERENCES = ["#/$defs/a~1b", "#/$defs/a~0b", "#/$defs/Box%3Cint%3E",
              "#/$defs/a%20b", "#/$defs/n%C3%A4", "#/$defs/a%7E1b",
              "#/$defs/Box<int>", "#/$defs/100%25", "#/$defs/~01", "#/$defs/",
              "#/$defs/x%22y", "#/$defs/0"]
SCHEMAS = [
    *({**closed(v={"$ref": reference}), "$defs": {n: YES for n in NAMES}}
      for reference in REFERENCES),
    # Into what is no definition, into a list, and the whole.
    closed(a={"type": "integer", "maximum": 9, "minimum": 0},
           b={"$ref": "#/properties/a"}),
    {**closed(v={"$ref": "#/anyOf/1/properties/w"}),
     "anyOf": [{"type": "null"}, {"properties": {"w": {"enum": [3]}}}, {}]},
    {**closed(kind={"enum": ["leaf"]}), "required": ["kind"],
     "properties": {"kind": {"enum": ["leaf"]},
                    "more": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
    {"$id": "https://example.com/a.json", **closed(
        v={"$ref": "b.json#here"}, w={"$ref": "#there"},
        x={"$ref": "https://example.com/b.json#/$defs/c~1d"}),
     "$defs": {"other": {"$id": "b.json", "$anchor": "here", "enum": [1],
                         "$defs": {"c/d": {"enum": [2]}}},
               "own": {"$anchor": "there", "enum": [3]}}},
    {"$id": "urn:x:tree", "$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object", "properties": {
            "name": {"type": "string", "maxLength": 3},
            "next": {"anyOf": [{"$ref": "urn:x:tree#/$defs/node"},
                               {"type": "null"}]}},
        "required": ["name", "next"], "additionalProperties": False}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", **closed(
        v={"$ref": "#/definitions/a~1b"}, w={"$ref": "#mark"}),
     "definitions": {"a/b": YES, "marked": {"$id": "#mark", "enum": [7]}}},
    # In words of later drafts, and what says nothing.
    {"type": "object", "properties": {"a": YES}, "required": ["a"],
     "unevaluatedProperties": False},
    {"type": "object", "propertyNames": {"enum": ["a", "b"]},
     "required": ["b"], "additionalProperties": {"type": "boolean"}},
    closed(a={"type": "string", "format": "x-nobody", "maxLength": 5,
              "if": {"minLength": 2}, "x-order": 3, "deprecated": True,
              "examples": [1e300]}),
]


class SchemaAnswersTest(unittest.TestCase):

    def server(self, form: str = "") -> Server:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        special = {"<|tool_call_start|>", "<|tool_call_end|>"}
        write_scripted_model(Path(folder.name), {
            "go": CHARACTERS + sorted(special)},
            TEMPLATE.replace("FORM", form), special)
        server = Server(WINNOW, model=folder.name)
        self.addCleanup(lambda: self.assertEqual(server.end(), 0))
        return server

    def check(self, value, schema: dict):
        kind = jsonschema.validators.validator_for(schema)
        kind.check_schema(schema)
        kind(schema).validate(value)

    def test_answers_are_of_their_schemas(self):
        server = self.server()
        seen = set()
        for i, schema in enumerate(SCHEMAS):
            asked = [{"response_format": {"type": "json_schema", "json_schema": {
                "name": "n", "strict": True, "schema": schema}}},
                {"guided_json": schema}][i % 2]
            with self.subTest(schema=schema):
                answer = server.complete(path=CHAT, **{**HOT, **asked}, n=3,
                                         seed=i)
                for choice in answer["choices"]:
                    self.assertEqual(choice["finish_reason"], "stop", choice)
                    self.check(json.loads(choice["message"]["content"]), schema)
                    seen.add(choice["message"]["content"])
        self.assertGreater(len(seen), len(SCHEMAS))

    def test_arguments_are_of_their_schemas(self):
        for form in FORMS:
            server = self.server(form)
            for i, schema in enumerate(SCHEMAS[::3]):
                tools = [{"type": "function", "function": {
                    "name": "f", "parameters": schema}}]
                with self.subTest(form=form, schema=schema):
                    answer = server.complete(
                        path=CHAT, **HOT, tools=tools, seed=i,
                        tool_choice="required", parallel_tool_calls=False)
                    call, = answer["choices"][0]["message"]["tool_calls"]
                    self.check(json.loads(call["function"]["arguments"]),
                               schema)

    def test_what_is_not_held_is_named_and_the_rest_is_held(self):
        held = closed(n={"type": "integer", "minimum": 0, "maximum": 9})
        rest = {"not": {"required": ["m"]}, "if": {"required": ["n"]},
                "then": {"minProperties": 1}, "dependentRequired": {"n": ["n"]}}
        tools = [{"type": "function", "function": {
            "name": "f", "parameters": {**held, **rest}}}]
        for form in FORMS:
            server = self.server(form)
            status, headers, text = server.ask("POST", CHAT, {
                **HOT, "tools": tools, "tool_choice": "required", "seed": 1})
            self.assertEqual(status, 200, text)
            self.assertEqual(headers["X-Winnow-Ignored-Fields"],
                             ", ".join("tools.f." + name for name in rest))
            calls = json.loads(text)["choices"][0]["message"]["tool_calls"]
            for call in calls:
                self.check(json.loads(call["function"]["arguments"]), held)
        status, headers, text = server.ask("POST", CHAT, {
            **HOT, "guided_json": closed(a={"type": "string", "format": "x-y",
                                            "maxLength": 4})})
        self.assertEqual(headers["X-Winnow-Ignored-Fields"],
                         "guided_json.properties.a.format")
        for path, at in [
                (CHAT, {"response_format": {"type": "json_schema",
                                            "json_schema": {"schema": rest}}}),
                ("/v1/messages", {"output_format": {"type": "json_schema",
                                                    "schema": rest}})]:
            status, _, text = server.ask("POST", path, {**HOT, **at})
            self.assertEqual(status, 400, text)
            self.assertIn('which "/not", "/if", "/then", "/dependentRequired" '
                          'are not', json.loads(text)["error"]["message"])


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
