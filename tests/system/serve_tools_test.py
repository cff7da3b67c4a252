#!/usr/bin/env python3
"""Tools in chats, over real connections: what templates are given, and calls as
models write them, told as OpenAI's clients read them.

    serve_tools_test.py PATH_TO_WINNOW
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
PATH = "/v1/chat/completions"
TEMPLATE = ("{% for message in messages %}{{ message['content'] }}{% endfor %}"
            "{% if tools %}{# FORM #}{% endif %}")
TOOLS = [{"type": "function", "function": {
    "name": name, "description": "A tool", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}
    for name in ["weather", "time"]]

TAGGED = {
    "two": ["Let me", " look.\n", "<tool_call>\n{\"name\": \"wea",
            "ther\", \"arguments\": {\"city\": \"O", "slo\", \"b\": 1.5",
            "}}\n</tool", "_call>", "\n<tool_call>{\"name\": \"time\"}",
            "</tool_call>"],
    "text": ["Just", " some", " <tool", "box> words"],
    "broken": ["<tool_call>{\"name\": ", "}</tool_call> then"],
}
BARE = {"call": ["{\"name\": \"weather\", ", "\"parameters\": {\"city\": ",
                 "\"Rome\"}}"],
        "object": ["{\"name\": \"nobody\",", " \"parameters\": {}}"]}
MARKED = {"call": ["Well.", "[TOOL_CALLS]", "weather", "[ARGS]",
                   "{\"city\": \"Paris\"}"]}
# In two forms, the first as Qwen3-Coder's template has it, the second as
# MiniCPM's.
TYPED = [{"type": "function", "function": {
    "name": "weather", "parameters": {
        "type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"},
            "hours": {"type": "array", "items": {"type": "integer"}}}}}}]
PARAMETERS = {
    "two": ["I", " look.", "\n<tool_", "call>\n<function=wea", "ther>",
            "\n<parameter=", "city>\n7 <b>\nOs", "lo\n</para", "meter>\n",
            "<parameter=days>\n3\n</parameter>\n<parameter=hours>\n[1, ",
            "2]\n</parameter>\n</func", "tion>\n</tool_call>",
            "\n<tool_call><function=time></function></tool_call>"],
    "broken": ["<tool_call>\n<function=weather>\n<parameter=ci", "ty>\nOslo"]}
PYTHON = {
    "two": ["Well.", "<|tool_call_start|>", "\n```python\nwea",
            "ther(city='7\\n", "Oslo', ", "days=3, hours=[1, None])", "\ntime()",
            "\n```\n", "<|tool_call_end|>"],
    "broken": ["weather(", "city='Oslo')"]}


EITHER = {"judge": ["{\"a\"", ": 4", "2}"],
          "call": ["<tool_call>{\"name\": \"weather\", ",
                   "\"arguments\": {\"city\": \"Oslo\"}}</tool_call>"],
          "quote": ["{\"b\": \"<tool_call>", "{}</tool_call>\"", "}"]}
ANSWER = {"type": "object", "properties": {"a": {"type": "integer"}},
          "required": ["a"], "additionalProperties": False}


def words_and_calls(answer: dict):
    """Of any route's answer."""
    if "choices" in answer:
        message = answer["choices"][0]["message"]
        return message["content"], [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", [])]
    words, calls = None, []
    for item in answer.get("output") or answer["content"]:
        if item["type"] == "message":
            words = item["content"][0]["text"]
        elif item["type"] == "text":
            words = item["text"]
        elif item["type"] == "function_call":
            calls.append((item["name"], json.loads(item["arguments"])))
        else:
            calls.append((item["name"], item["input"]))
    return words, calls


class Model:
    """A scripted model behind a server."""

    def __init__(self, scripts, form: str, special=frozenset()):
        self.folder = tempfile.TemporaryDirectory()
        write_scripted_model(Path(self.folder.name), scripts,
                             TEMPLATE.replace("FORM", form), special)
        self.server = Server(WINNOW, model=self.folder.name)

    def close(self) -> int:
        status = self.server.end()
        self.folder.cleanup()
        return status


def shown(message: dict):
    """The text, and (name, arguments) of each call."""
    calls = [(call["function"]["name"], json.loads(
        call["function"]["arguments"])) for call in message.get(
            "tool_calls", [])]
    return message["content"], calls


class ToolsTest(unittest.TestCase):

    def ask(self, model: Model, script: str, **more):
        """The choice, after a look that a stream says the same."""
        body = {"messages": [{"role": "user", "content": script}],
                "tools": TOOLS, **more}
        choice = model.server.complete(path=PATH, **body)["choices"][0]
        text, calls, reasons = "", {}, []
        for event in model.server.stream(PATH, **body):
            piece = event["choices"][0]
            reasons.append(piece["finish_reason"])
            text += piece["delta"].get("content") or ""
            for call in piece["delta"].get("tool_calls", []):
                self.assertNotIn(call["index"], calls)
                calls[call["index"]] = call
        self.assertEqual(text, choice["message"]["content"] or "")
        whole = choice["message"].get("tool_calls", [])
        self.assertEqual(sorted(calls), list(range(len(whole))))
        for index, call in enumerate(whole):
            self.assertEqual(call["type"], "function")
            self.assertRegex(call["id"], r"^[0-9A-Za-z]{9}$")
            self.assertEqual(calls[index]["function"], call["function"])
        self.assertEqual(set(reasons[:-1]), {None})
        self.assertEqual(reasons[-1], choice["finish_reason"])
        return choice

    def test_calls_between_tags(self):
        model = Model(TAGGED, "<tool_call>")
        self.addCleanup(lambda: self.assertEqual(model.close(), 0))
        weather = ("weather", {"city": "Oslo", "b": 1.5})
        choice = self.ask(model, "two")
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(shown(choice["message"]),
                         ("Let me look.", [weather, ("time", {})]))
        first, second = choice["message"]["tool_calls"]
        self.assertNotEqual(first["id"], second["id"])
        self.assertEqual(first["function"]["arguments"],
                         '{"city":"Oslo","b":1.5}')
        one = self.ask(model, "two", parallel_tool_calls=False)
        self.assertEqual(shown(one["message"]), ("Let me look.", [weather]))
        cut = self.ask(model, "two", max_tokens=4)
        self.assertEqual(cut["finish_reason"], "length")
        self.assertEqual(shown(cut["message"])[1], [])
        for script, more in [("text", {}), ("broken", {}),
                             ("two", {"tool_choice": "none"})]:
            plain = self.ask(model, script, **more)
            self.assertEqual(shown(plain["message"]),
                             ("".join(TAGGED[script]), []))
            self.assertEqual(plain["finish_reason"], "stop")

    def test_a_bare_object_and_marked_calls(self):
        model = Model(BARE, '{"name": X, "parameters": Y}')
        self.addCleanup(lambda: self.assertEqual(model.close(), 0))
        choice = self.ask(model, "call")
        self.assertEqual(shown(choice["message"]),
                         (None, [("weather", {"city": "Rome"})]))
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(shown(self.ask(model, "object")["message"]),
                         ("".join(BARE["object"]), []))
        # Its markers are special tokens, which are no text elsewhere.
        marked = Model(MARKED, "[TOOL_CALLS]", {"[TOOL_CALLS]", "[ARGS]"})
        self.addCleanup(lambda: self.assertEqual(marked.close(), 0))
        self.assertEqual(shown(self.ask(marked, "call")["message"]),
                         ("Well.", [("weather", {"city": "Paris"})]))
        plain = marked.server.complete(
            path=PATH, messages=[{"role": "user", "content": "call"}])
        self.assertEqual(plain["choices"][0]["message"]["content"],
                         'Well.weather{"city": "Paris"}')

    def test_parameters_between_tags(self):
        model = Model(PARAMETERS, "<tool_call><function=f><parameter=a>")
        self.addCleanup(lambda: self.assertEqual(model.close(), 0))
        weather = ("weather", {"city": "7 <b>\nOslo", "days": 3,
                               "hours": [1, 2]})
        choice = self.ask(model, "two", tools=TYPED)
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(shown(choice["message"]),
                         ("I look.", [weather, ("time", {})]))
        one = self.ask(model, "two", tools=TYPED, parallel_tool_calls=False)
        self.assertEqual(shown(one["message"]), ("I look.", [weather]))
        # Without a schema that says otherwise all is text.
        untyped = [{"type": "function", "function": {"name": "weather"}}]
        name, arguments = shown(self.ask(model, "two", tools=untyped)[
            "message"])[1][0]
        self.assertEqual(arguments, {"city": "7 <b>\nOslo", "days": "3",
                                     "hours": "[1, 2]"})
        for script, more in [("broken", {}), ("two", {"tool_choice": "none"})]:
            plain = self.ask(model, script, tools=TYPED, **more)
            self.assertEqual(shown(plain["message"]),
                             ("".join(PARAMETERS[script]), []))
        # The other routes tell the same.
        message = json.loads(model.server.ask("POST", "/v1/messages", {
            "max_tokens": 20, "temperature": 0,
            "messages": [{"role": "user", "content": "two"}],
            "tools": [{"name": "weather", "input_schema": TYPED[0][
                "function"]["parameters"]}]})[2])
        self.assertEqual(message["content"][1]["input"], weather[1])
        response = json.loads(model.server.ask("POST", "/v1/responses", {
            "temperature": 0, "input": "two",
            "tools": [{"type": "function", **TYPED[0]["function"]}]})[2])
        call = [item for item in response["output"]
                if item["type"] == "function_call"][0]
        self.assertEqual(json.loads(call["arguments"]), weather[1])

    def test_calls_in_python(self):
        markers = {"<|tool_call_start|>", "<|tool_call_end|>"}
        model = Model(PYTHON, "<|tool_call_start|>```python", markers)
        self.addCleanup(lambda: self.assertEqual(model.close(), 0))
        weather = ("weather", {"city": "7\nOslo", "days": 3,
                               "hours": [1, None]})
        choice = self.ask(model, "two", tools=TYPED)
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(shown(choice["message"]),
                         ("Well.", [weather, ("time", {})]))
        one = self.ask(model, "two", tools=TYPED, parallel_tool_calls=False)
        self.assertEqual(shown(one["message"]), ("Well.", [weather]))
        plain = self.ask(model, "broken", tools=TYPED)
        self.assertEqual(shown(plain["message"]),
                         ("".join(PYTHON["broken"]), []))
        self.assertEqual(plain["finish_reason"], "stop")

    def test_what_cannot_be_forced_is_refused(self):
        model = Model(PARAMETERS, "<tool_call><function=f><parameter=a>")
        self.addCleanup(lambda: self.assertEqual(model.close(), 0))
        schema = {"properties": {"day>": {"type": "string"}},
                  "required": ["day>"]}
        status, _, text = model.server.ask("POST", PATH, {
            "messages": [{"role": "user", "content": "two"}],
            "tool_choice": "required", "tools": [{
                "type": "function", "function": {
                    "name": "f", "parameters": schema}}]})
        self.assertEqual(status, 400, text)
        error = json.loads(text)["error"]
        self.assertEqual(error["param"], "tools")
        self.assertIn('parameter "day>": the name does not fit into a tag',
                      error["message"])

    def test_tools_beside_a_schema(self):
        """The answer is a call, or is of the schema, as each route asks for
        it and tells it."""
        model = Model(EITHER, "<tool_call>")
        self.addCleanup(lambda: self.assertEqual(model.close(), 0))
        form = {"type": "json_schema", "name": "n", "schema": ANSWER}
        function = TOOLS[0]["function"]
        chat = {"messages": [{"role": "user", "content": ""}], "tools": TOOLS,
                "max_tokens": 20, "response_format": {
                    "type": "json_schema", "json_schema": form}}
        messages = {**chat, "output_format": form, "tools": [{
            "name": function["name"], "input_schema": function["parameters"]}]}
        del messages["response_format"]
        routes = [(PATH, chat, "none", "required"),
                  ("/v1/responses", {"input": "", "text": {"format": form},
                                     "tools": [{"type": "function", **function}],
                                     "max_output_tokens": 20},
                   "none", "required"),
                  ("/v1/messages", messages, {"type": "none"},
                   {"type": "any"})]
        called = [("weather", {"city": "Oslo"})]
        for path, body, none, required in routes:
            for word, more, told in [
                    ("judge", {}, ('{"a": 42}', [])),
                    ("call", {}, (None, called)),
                    ("call", {"tool_choice": required}, (None, called)),
                    ("judge", {"tool_choice": none}, ('{"a": 42}', []))]:
                with self.subTest(path=path, word=word, more=more):
                    asked = json.loads(json.dumps({**body, **more}).replace(
                        '""', json.dumps(word), 1))
                    answer = model.server.complete(path=path, **asked)
                    self.assertEqual(words_and_calls(answer), told)
        status, headers, _ = model.server.ask("POST", PATH, {
            **chat, "messages": [{"role": "user", "content": "call"}],
            "tool_choice": "required"})
        self.assertEqual((status, headers["X-Winnow-Ignored-Fields"]),
                         (200, "response_format.json_schema.schema"))
        # What looks like a call within an answer's words is none.
        quoted = model.server.complete(path=PATH, **{
            **chat, "messages": [{"role": "user", "content": "quote"}],
            "response_format": {"type": "json_object"}})
        self.assertEqual(words_and_calls(quoted),
                         ("".join(EITHER["quote"]), []))

    def test_what_cannot_be_called_is_refused(self):
        model = Model({"text": ["x"]}, "nothing that is known")
        self.addCleanup(lambda: self.assertEqual(model.close(), 0))
        messages = [{"role": "user", "content": "text"}]
        for field, body in [
                ("tools", {"tools": TOOLS}),
                ("tools", {"tools": TOOLS, "tool_choice": "required"}),
                ("tool_choice", {"tool_choice": "required"}),
                ("tools[0].function.name", {"tools": [{
                    "type": "function", "function": {"name": "a\"\n"}}]})]:
            status, _, text = model.server.ask(
                "POST", PATH, {"messages": messages, **body})
            self.assertEqual(status, 400, text)
            self.assertEqual(json.loads(text)["error"]["param"], field)
        # Who wants no call is answered all the same.
        answer = model.server.complete(path=PATH, messages=messages,
                                       tools=TOOLS, tool_choice="none")
        self.assertEqual(shown(answer["choices"][0]["message"]), ("x", []))

    def test_an_answer_goes_on_with_the_last_message(self):
        """A template that writes an end behind each message, and trims it."""
        template = ("{% for m in messages %}<{{ m.role }}>"
                    "{{ (m.content or '').strip() }}</{{ m.role }}>"
                    "{% endfor %}{% if add_generation_prompt %}<assistant>"
                    "{% endif %}")
        with tempfile.TemporaryDirectory() as folder:
            # Characters, so that any prompt can be read again.
            write_scripted_model(Path(folder), {
                "go": [chr(i) for i in range(32, 127)] + ["\n"]}, template)
            server = Server(WINNOW, model=folder)

            def prompt(text, **more) -> str:
                body = {"messages": [
                    {"role": "user", "content": "i"},
                    {"role": "assistant", "content": text}], **more}
                status, _, answer = server.ask("POST", "/tokenize", body)
                if status != 200:
                    return json.loads(answer)["error"]["param"]
                tokens = json.loads(answer)["tokens"]
                return json.loads(server.ask("POST", "/detokenize", {
                    "tokens": tokens})[2])["prompt"]

            goes_on = {"continue_final_message": True}
            self.assertEqual(prompt("a \"b\\ "), '<user>i</user><assistant>'
                             'a "b\\</assistant><assistant>')
            # As transformers has it: what the template trims stays away.
            self.assertEqual(prompt("a \"b\\ ", **goes_on),
                             '<user>i</user><assistant>a "b\\')
            self.assertEqual(prompt("i", **goes_on),
                             "<user>i</user><assistant>i")
            self.assertEqual(prompt("i", add_generation_prompt=True, **goes_on),
                             "continue_final_message")
            self.assertEqual(server.end(), 0)

    def test_the_template_reads_tools_and_results(self):
        template = ("{% for m in messages %}{{ m.role }}:{{ m.content }};"
                    "{% for c in m.tool_calls or [] %}{{ c.function.name }}"
                    "={{ c.function.arguments | tojson }};{% endfor %}"
                    "{% endfor %}{{ tools | tojson }}<tool_call>")
        with tempfile.TemporaryDirectory() as folder:
            characters = [chr(i) for i in range(32, 127)]
            write_scripted_model(Path(folder), {"go": characters}, template)
            server = Server(WINNOW, model=folder)
            tools = [{"type": "function", "function": {
                "parameters": {"z": 1.0, "a": []}, "name": "f"}}]
            body = {"tools": tools, "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "abcdefghi", "type": "function", "function": {
                        "name": "f", "arguments": '{"b": 1.0, "a": "x"}'}}]},
                {"role": "tool", "tool_call_id": "abcdefghi",
                 "content": [{"type": "text", "text": "sun"}]}]}
            tokens = json.loads(server.ask("POST", "/tokenize",
                                           body)[2])["tokens"]
            text = json.loads(server.ask("POST", "/detokenize",
                                         {"tokens": tokens})[2])["prompt"]
            self.assertEqual(
                text, 'user:hi;assistant:;f={"b": 1.0, "a": "x"};'
                      'tool:sun;' + json.dumps(tools) + "<tool_call>")
            self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
