#!/usr/bin/env python3
"""The clients that people have, against a running server: OpenAI's and
Anthropic's Python packages (scripts/requirements-clients-light.txt), asking a scripted
model for text, streams and tools, and telling errors apart.

    clients_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

import anthropic
import openai

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
                    "\"arguments\": {\"city\": \"Oslo\"}}</tool_call>"]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
GREETING = "Hello, you!"


class ClientsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_scripted_model(Path(cls.folder.name), SCRIPTS, TEMPLATE)
        cls.server = Server(WINNOW, "--api-key", "secret",
                            "--served-model-name", "m", model=cls.folder.name)
        cls.url = f"http://127.0.0.1:{cls.server.port}"
        cls.openai = openai.OpenAI(base_url=cls.url + "/v1", api_key="secret",
                                   max_retries=0)
        cls.anthropic = anthropic.Anthropic(base_url=cls.url, api_key="secret",
                                            max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.openai.close()
        cls.anthropic.close()
        status = cls.server.end()
        cls.folder.cleanup()
        assert status == 0, status

    # OpenAI's.

    def test_models_and_completions(self):
        self.assertEqual([m.id for m in self.openai.models.list()], ["m"])
        answer = self.openai.completions.create(
            model="m", prompt="greet", temperature=0, logprobs=2)
        self.assertEqual(answer.choices[0].text, GREETING)
        self.assertTrue(answer._request_id)
        texts = [piece.choices[0].text for piece in
                 self.openai.completions.create(model="m", prompt="greet",
                                                temperature=0, stream=True)]
        self.assertEqual("".join(texts), GREETING)

    def test_chats(self):
        body = {"model": "m", "temperature": 0,
                "messages": [{"role": "user", "content": "greet"}]}
        answer = self.openai.chat.completions.create(**body)
        self.assertEqual(answer.choices[0].message.content, GREETING)
        self.assertEqual(answer.usage.total_tokens, 6)
        text, usage = "", None
        for chunk in self.openai.chat.completions.create(
                **body, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
        self.assertEqual((text, usage.total_tokens), (GREETING, 6))

    def test_chats_with_tools(self):
        body = {"model": "m", "temperature": 0, "tools": [{
            "type": "function", "function": {
                "name": "weather", "parameters": SCHEMA}}],
            "messages": [{"role": "user", "content": "look"}]}
        choice = self.openai.chat.completions.create(**body).choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        call, = choice.message.tool_calls
        self.assertEqual(json.loads(call.function.arguments),
                         {"city": "Oslo"})
        with self.openai.chat.completions.stream(**body) as stream:
            streamed = stream.get_final_completion().choices[0].message
        self.assertEqual(streamed.content, "I look.")
        self.assertEqual(streamed.tool_calls[0].function.name, "weather")
        body["messages"] += [choice.message, {
            "role": "tool", "tool_call_id": call.id, "content": "greet"}]
        last = self.openai.chat.completions.create(**body)
        self.assertEqual(last.choices[0].message.content, GREETING)

    def test_responses(self):
        answer = self.openai.responses.create(model="m", input="greet",
                                              temperature=0)
        self.assertEqual((answer.output_text, answer.status),
                         (GREETING, "completed"))
        with self.openai.responses.stream(model="m", input="greet",
                                          temperature=0) as stream:
            text = "".join(event.delta for event in stream
                           if event.type == "response.output_text.delta")
            self.assertEqual(stream.get_final_response().output_text, text)
        self.assertEqual(text, GREETING)
        tools = [{"type": "function", "name": "weather", "strict": False,
                  "parameters": SCHEMA}]
        items = [{"role": "user", "content": "look"}]
        called = self.openai.responses.create(model="m", input=items,
                                              tools=tools, temperature=0)
        call = called.output[1]
        self.assertEqual(json.loads(call.arguments), {"city": "Oslo"})
        items += called.output + [{
            "type": "function_call_output", "call_id": call.call_id,
            "output": "greet"}]
        last = self.openai.responses.create(model="m", input=items,
                                            tools=tools, temperature=0)
        self.assertEqual(last.output_text, GREETING)

    def test_thoughts_of_chats_and_responses(self):
        chat = {"model": "m", "temperature": 0, "reasoning_effort": "low",
                "messages": [{"role": "user", "content": "muse"}]}
        message = self.openai.chat.completions.create(**chat).choices[0].message
        self.assertEqual((message.reasoning, message.content),
                         ("greet", "Well."))
        thought = "".join(
            getattr(chunk.choices[0].delta, "reasoning_content", "") for chunk
            in self.openai.chat.completions.create(**chat, stream=True))
        self.assertEqual(thought, "greet")
        body = {"model": "m", "temperature": 0,
                "input": [{"role": "user", "content": "muse"}],
                "reasoning": {"effort": "medium", "summary": "auto"},
                "include": ["reasoning.encrypted_content"]}
        with self.openai.responses.stream(**body) as stream:
            thought = "".join(event.delta for event in stream
                              if event.type == "response.reasoning_text.delta")
            answer = stream.get_final_response()
        self.assertEqual((thought, answer.output_text), ("greet", "Well."))
        self.assertEqual([item.type for item in answer.output],
                         ["reasoning", "message"])
        self.assertEqual(answer.usage.output_tokens_details.reasoning_tokens, 2)
        # What it got is what it sends back: the template shows its thought.
        body["input"] += [answer.output[0]]
        again = self.openai.responses.create(**body)
        self.assertEqual(again.output_text, GREETING)

    def test_openai_tells_errors_apart(self):
        ask = self.openai.chat.completions.create
        messages = [{"role": "user", "content": "greet"}]
        with self.assertRaises(openai.NotFoundError):
            ask(model="other", messages=messages)
        with self.assertRaises(openai.BadRequestError) as caught:
            ask(model="m", messages=messages, n=10_000)
        self.assertEqual(caught.exception.param, "n")
        with self.assertRaises(openai.BadRequestError) as caught:
            ask(model="m", messages=messages * 5000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with openai.OpenAI(base_url=self.url + "/v1", api_key="other",
                           max_retries=0) as other:
            with self.assertRaises(openai.AuthenticationError):
                other.models.list()

    # Anthropic's.

    def test_messages(self):
        body = {"model": "m", "max_tokens": 20,
                "messages": [{"role": "user", "content": "greet"}]}
        answer = self.anthropic.messages.create(**body)
        self.assertEqual((answer.content[0].text, answer.stop_reason),
                         (GREETING, "end_turn"))
        self.assertTrue(answer._request_id)
        with self.anthropic.messages.stream(**body) as stream:
            self.assertEqual("".join(stream.text_stream), GREETING)
            whole = stream.get_final_message()
        self.assertEqual(whole.usage.output_tokens,
                         answer.usage.output_tokens)
        del body["max_tokens"]
        counted = self.anthropic.messages.count_tokens(**body)
        self.assertEqual(counted.input_tokens, 1)

    def test_messages_with_tools(self):
        body = {"model": "m", "max_tokens": 20,
                "tools": [{"name": "weather", "input_schema": SCHEMA}],
                "messages": [{"role": "user", "content": "look"}]}
        with self.anthropic.messages.stream(**body) as stream:
            answer = stream.get_final_message()
        use = answer.content[1]
        self.assertEqual((answer.stop_reason, use.name, use.input),
                         ("tool_use", "weather", {"city": "Oslo"}))
        body["messages"] += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [{
                "type": "tool_result", "tool_use_id": use.id,
                "content": "greet"}]}]
        last = self.anthropic.messages.create(**body)
        self.assertEqual(last.content[0].text, GREETING)

    def test_thoughts_of_messages(self):
        body = {"model": "m", "max_tokens": 2000,
                "thinking": {"type": "enabled", "budget_tokens": 1024},
                "messages": [{"role": "user", "content": "muse"}]}
        with self.anthropic.messages.stream(**body) as stream:
            events = [(event.type, getattr(event, event.type)) for event
                      in stream if event.type in ("thinking", "text")]
            answer = stream.get_final_message()
        self.assertEqual("".join(text for kind, text in events
                                 if kind == "thinking"), "greet")
        thought, text = answer.content
        self.assertEqual((thought.thinking, text.text), ("greet", "Well."))
        self.assertTrue(thought.signature)
        body["messages"] += [{"role": "assistant", "content": [thought]},
                             {"role": "user", "content": "greet"}]
        last = self.anthropic.messages.create(**body)
        self.assertEqual(last.content[0].text, GREETING)

    def test_anthropic_tells_errors_apart(self):
        ask = self.anthropic.messages.create
        messages = [{"role": "user", "content": "greet"}]
        with self.assertRaises(anthropic.NotFoundError):
            ask(model="other", max_tokens=1, messages=messages)
        with self.assertRaises(anthropic.BadRequestError) as caught:
            ask(model="m", max_tokens=1, messages=messages,
                tool_choice={"type": "any"})
        self.assertIn("tool_choice", str(caught.exception))
        with anthropic.Anthropic(base_url=self.url, api_key="other",
                                 max_retries=0) as other:
            with self.assertRaises(anthropic.AuthenticationError):
                other.messages.create(model="m", max_tokens=1,
                                      messages=messages)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
