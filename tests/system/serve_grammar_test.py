#!/usr/bin/env python3
"""Answers that are held to a grammar, over real connections: every text that a
hot draw gives is within it, whoever runs beside it; calls that are forced are
calls; grammars made to take forever do not.

    serve_grammar_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from scripted_model import write_scripted_model
from serve_process import Server

WINNOW = ""
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
TEMPLATE = ("{% for message in messages %}{{ message['content'] }}{% endfor %}"
            "{% if tools %}{# FORM #}{% endif %}")
# A model that knows no text: hot, any character is about as likely after any.
CHARACTERS = {"go": [chr(code) for code in range(32, 127)] + ["\n"]}
USER = [{"role": "user", "content": "go"}]
HOT = {"temperature": 60, "max_tokens": 1500}
# Of the tokens that end strings and objects, so that texts end.
ENDS = {str(4 + ord(c) - 32): 25 for c in '"}]'}

SCHEMA = {"type": "object", "properties": {
    "zeta": {"type": "integer", "minimum": 0, "maximum": 300},
    "name": {"type": "string", "maxLength": 9},
    "tags": {"type": "array", "items": {"enum": ["a", None, 2]},
             "maxItems": 3}},
    "required": ["zeta", "name", "tags"], "additionalProperties": False}


def follows_schema(text: str) -> bool:
    value = json.loads(text)
    return (list(value) == ["zeta", "name", "tags"]
            and type(value["zeta"]) is int and 0 <= value["zeta"] <= 300
            and isinstance(value["name"], str) and len(value["name"]) <= 9
            and len(value["tags"]) <= 3
            and all(tag in ["a", None, 2] for tag in value["tags"]))


class Model:
    """CHARACTERS behind a server. `form`: what its template says of calls."""

    def __init__(self, *flags: str, form: str = "", special=frozenset()):
        self.folder = tempfile.TemporaryDirectory()
        scripts = {"go": CHARACTERS["go"] + sorted(special)}
        write_scripted_model(Path(self.folder.name), scripts,
                             TEMPLATE.replace("FORM", form), special)
        self.server = Server(WINNOW, *flags, model=self.folder.name)

    def close(self) -> int:
        status = self.server.end()
        self.folder.cleanup()
        return status

    def texts(self, **more) -> list[str]:
        """Of a chat's answers, each of which must have ended by itself."""
        answer = self.server.complete(path=CHAT, messages=USER,
                                      **{**HOT, **more})
        for choice in answer["choices"]:
            assert choice["finish_reason"] == "stop", choice
        return [choice["message"]["content"] for choice in answer["choices"]]


class GrammarTest(unittest.TestCase):

    def model(self, *flags: str, **more) -> Model:
        model = Model(*flags, **more)
        self.addCleanup(lambda: self.assertEqual(model.close(), 0))
        return model

    def test_every_answer_is_within_its_grammar(self):
        model = self.model()
        formats = [
            {"guided_json": SCHEMA}, {"structured_outputs": {"json": SCHEMA}},
            {"response_format": {"type": "json_schema", "json_schema": {
                "name": "n", "strict": True, "schema": SCHEMA}}}]
        seen = set()
        for seed in range(4):
            for form in formats:
                for text in model.texts(seed=seed, n=4, **form):
                    self.assertTrue(follows_schema(text), text)
                    seen.add(text)
        self.assertEqual(len(seen), 4 * 4, "of four choices of four seeds")
        for text in model.texts(n=4, logit_bias=ENDS,
                                response_format={"type": "json_object"}):
            self.assertIsInstance(json.loads(text), dict)
        for text in model.texts(n=8, guided_regex=r"[a-f]{2,5}(-\d+x)?"):
            self.assertRegex(text, r"^[a-f]{2,5}(-[0-9]+x)?$")
        choices = ["yes", "no", "no way", "\"\\\n"]
        texts = model.texts(n=16, guided_choice=choices, seed=5)
        self.assertEqual(set(texts), set(choices))
        lark = 'start: "<" (item ("," item)*)? ">"\nitem: /[0-9]+/ | start'
        for text in model.texts(n=8, guided_grammar=lark):
            self.assertRegex(text, r"^<[<>0-9,]*>$")
            self.assertEqual(text.count("<"), text.count(">"))

    def test_a_field_may_be_written_with_escapes(self):
        model = self.model()
        plain = {"messages": USER, **HOT, "seed": 3, "guided_json": SCHEMA}
        text = json.dumps(plain).replace("guided_json", "guided\\u005fjson")
        status, _, answer = model.server.ask("POST", CHAT, text.encode())
        self.assertEqual(status, 200, answer)
        self.assertEqual(json.loads(answer)["choices"][0]["message"]["content"],
                         model.texts(guided_json=SCHEMA, seed=3)[0])

    def test_what_no_grammar_can_be_is_told_in_the_servers_words(self):
        model = self.model()
        for schema, words in [
                ({"oneOf": [{"type": "string"}, {"minLength": 2}]},
                 "oneOf must have alternatives"),
                ({"$ref": "http://localhost/s.json"},
                 "$ref must point into its own schema"),
                ({"type": "string", "maxLength": 10 ** 12},
                 "maxLength must be at most 4294967295, is 1000000000000")]:
            status, _, text = model.server.ask("POST", CHAT, {
                "messages": USER, "guided_json": schema})
            self.assertEqual(status, 400, text)
            self.assertIn("request: field guided_json: " + words,
                          json.loads(text)["error"]["message"])

    def test_every_route_and_a_stream(self):
        model = self.model()
        server = model.server
        prompts = server.complete(prompt=["go", "go"], guided_choice=["a", "b"],
                                  n=2, **HOT)
        self.assertEqual(len(prompts["choices"]), 4)
        for choice in prompts["choices"]:
            self.assertIn(choice["text"], ["a", "b"])
        events = server.stream(CHAT, **{**HOT, "messages": USER, "seed": 3,
                                        "guided_json": SCHEMA})
        text = "".join(event["choices"][0]["delta"].get("content") or ""
                       for event in events)
        self.assertEqual([text], model.texts(guided_json=SCHEMA, seed=3))
        form = {"type": "json_schema", "name": "n", "schema": SCHEMA}
        answer = server.complete(path="/v1/responses", input="go",
                                 temperature=60, max_output_tokens=1500,
                                 text={"format": form})
        self.assertTrue(follows_schema(
            answer["output"][0]["content"][0]["text"]))
        answer = server.complete(path="/v1/messages", messages=USER,
                                 output_config={"format": form}, **HOT)
        self.assertTrue(follows_schema(answer["content"][0]["text"]))

    def test_words_with_spaces_between(self):
        server = Server(WINNOW)
        choices = ["the code", "answer", "what is 7"]
        answer = server.complete(prompt="the code of", n=8, temperature=1.5,
                                 guided_choice=choices)
        for choice in answer["choices"]:
            self.assertIn(choice["text"], choices)
        answer = server.complete(prompt="the code of", n=8, temperature=1.5,
                                 guided_regex="([a-z]+ )+is( [0-9]){3}",
                                 max_tokens=400)
        for choice in answer["choices"]:
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertRegex(choice["text"], r"^([a-z]+ )+is( [0-9]){3}$")
        # It has words for no list.
        status, _, text = server.ask("POST", COMPLETIONS, {
            "prompt": "the", "guided_json": {"type": "array"}})
        self.assertEqual(status, 400, text)
        self.assertIn("no token of the vocabulary", text)
        self.assertEqual(server.end(), 0)

    def test_a_batch_is_what_each_is_alone(self):
        """Also where all do not fit and give way to one another."""
        requests = [{"seed": seed, "n": 1, "max_tokens": 200, **form}
                    for seed in range(4)
                    for form in [{"guided_json": SCHEMA}, {"ignore_eos": True},
                                 {"guided_regex": "[a-m]{150}"},
                                 {"guided_regex": "(x|yz){90}"}]]

        def ask(model: Model, request: dict):
            answer = model.server.complete(
                path=CHAT, messages=USER, temperature=60, **request)
            choice = answer["choices"][0]
            return choice["message"]["content"], choice["finish_reason"]

        def together(model: Model):
            answers = [None] * len(requests)

            def answer(i: int):
                answers[i] = ask(model, requests[i])

            threads = [threading.Thread(target=answer, args=[i])
                       for i in range(len(requests))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return answers

        alone = self.model("--batch-invariant")
        expected = [ask(alone, request) for request in requests]
        for flags, gives_way in [(["--max-num-seqs", "16"], False),
                                 (["--device-kv", "512KiB",
                                   "--host-kv", "8MiB"], True)]:
            model = self.model("--batch-invariant", *flags)
            # Who comes late enough needs nobody to give way: once more then.
            for _ in range(20):
                self.assertEqual(together(model), expected)
                num = model.server.metric("vllm:num_preemptions_total")
                if not gives_way or num > 0:
                    break
            self.assertEqual(num > 0, gives_way, num)

    def test_a_call_that_is_forced(self):
        parameters = {"type": "object", "properties": {
            "n": {"type": "integer", "minimum": 0, "maximum": 99},
            "when": {"$ref": "#/$defs/day"}},
            "required": ["n"], "additionalProperties": False,
            "$defs": {"day": {"enum": ["mon", "tue"]}}}
        tools = [{"type": "function", "function": {
            "name": name, "parameters": parameters}} for name in ["f", "g.h"]]
        marked = {"[TOOL_CALLS]", "[ARGS]"}
        for form, special in [("<tool_call>", frozenset()),
                              ('"name": "parameters":', frozenset()),
                              ("[TOOL_CALLS]", marked),
                              ("<tool_call>", {"<tool_call>", "</tool_call>"}),
                              ("<tool_call><function=f><parameter=n>",
                               frozenset()),
                              ("<|tool_call_start|>```python",
                               {"<|tool_call_start|>", "<|tool_call_end|>"})]:
            model = self.model(form=form, special=special)
            called = set()
            for more, names in [
                    ({"tool_choice": "required", "n": 6}, {"f", "g.h"}),
                    ({"tool_choice": "required", "n": 6,
                      "parallel_tool_calls": False}, {"f", "g.h"}),
                    ({"tool_choice": {"type": "function", "function": {
                        "name": "g.h"}}, "n": 4}, {"g.h"})]:
                answer = model.server.complete(
                    path=CHAT, messages=USER, tools=tools, **HOT, **more)
                for choice in answer["choices"]:
                    calls = choice["message"]["tool_calls"]
                    self.assertIsNone(choice["message"]["content"], choice)
                    self.assertEqual(choice["finish_reason"], "tool_calls")
                    if "parallel_tool_calls" in more:
                        self.assertEqual(len(calls), 1)
                    for call in calls:
                        self.assertIn(call["function"]["name"], names)
                        called.add(call["function"]["name"])
                        given = json.loads(call["function"]["arguments"])
                        self.assertIn(given["n"], range(100))
                        self.assertIn(given.get("when", "mon"), ["mon", "tue"])
            self.assertEqual(called, {"f", "g.h"})

    def test_grammars_that_are_attacks(self):
        """Each is answered within seconds, and so are those beside it."""
        model = self.model("--max-grammar-size", "128KiB")
        window = {"type": "string", "pattern": ".*a.{30}b.*"}
        many = {f"p{i}": {"type": "integer"} for i in range(3000)}
        deep: dict = {}
        for _ in range(12):
            deep = {"items": deep}
        bombs = [
            {"guided_regex": "((a{1,1000}){1,1000}){1,1000}"},
            {"guided_regex": r"(\w{1,1000}\d{1,1000}){1,1000}"},
            {"guided_regex": "(x+x+)+y"}, {"guided_regex": "(a?){5000}a{5000}"},
            {"guided_regex": "[ab]*a[ab]{1000}"},
            {"guided_regex": "(" * 200_000}, {"guided_regex": "a" * 200_000},
            {"guided_regex": "(" * 250 + "a" + ")*" * 250},
            {"guided_choice": [f"choice {i}" for i in range(5000)]},
            {"guided_json": {"properties": many}},
            {"guided_json": {"allOf": [window] * 30}},
            {"guided_json": {"allOf": [{"anyOf": [
                {"properties": {f"a{i}": {}}}, {"properties": {f"b{i}": {}}}]}
                for i in range(30)]}},
            {"guided_json": {"multipleOf": 99999999}},
            {"guided_json": {"$ref": "#"}}, {"guided_json": deep},
            {"guided_json": {"type": "string", "minLength": 10**6}},
            {"guided_json": '{"items":' * 10_000 + "{}" + "}" * 10_000},
            {"guided_grammar": "start: e{0,2000}\n"
                               'e: "a"? "b"? "c"?'},
            # Its answer cannot go on: the next row is too large.
            {"guided_json": {"$ref": "#/$defs/d0", "$defs": {
                **{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"},
                                       {"type": "null"}]}
                   for i in range(2000)}, "d2000": {}}}},
            {"guided_grammar": "start: a{1,100000}\n"
                               'a: b{1,100000}\nb: "x" | "y"'},
            {"guided_grammar": "start: R40\n" + "".join(
                f"R{i}: R{i - 1} R{i - 1}\n" for i in range(40, 0, -1)) +
                'R0: "a"'}]
        worst = 0.0
        ended = threading.Event()

        def others():
            nonlocal worst
            while not ended.is_set():
                began = time.monotonic()
                model.server.complete(path=CHAT, messages=USER, max_tokens=4)
                worst = max(worst, time.monotonic() - began)

        beside = threading.Thread(target=others)
        beside.start()
        for bomb in bombs:
            began = time.monotonic()
            status, _, text = model.server.ask("POST", CHAT, {
                "messages": USER, **bomb, "temperature": 60, "seed": 1,
                "max_tokens": 100})
            self.assertIn(status, [200, 400], text[:300])
            if status == 400:
                self.assertTrue(re.match(r"request: field guided_|.*masks|"
                                         r".*(exer|arser|items|token)",
                                         json.loads(text)["error"]["message"],
                                         re.S), text[:300])
            self.assertLess(time.monotonic() - began, 20, str(bomb)[:99])
        ended.set()
        beside.join()
        self.assertLess(worst, 20)
        # As many different ones as there are: nothing of them is kept.
        for i in range(200):
            model.texts(guided_choice=[f"a{i}"], max_tokens=9)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
