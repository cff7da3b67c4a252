#!/usr/bin/env python3
"""`winnow serve` as its clients meet it, over real connections.

    serve_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from sanitized import allowed_seconds
from serve_process import MODEL, ROOT, Server, wait_until

sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

WINNOW = ""
NAME = "winnow-lab"
TEMPLATE = ("{{ bos_token }}{% for message in messages %}{{ message['content'] }}"
            "{% endfor %}")
LONG = 150  # tokens of an answer that is drained


def start(*flags: str, **environment: str) -> Server:
    return Server(WINNOW, *flags, **environment)


class ServeTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        template = Path(cls.folder.name, "plain.jinja")
        template.write_text(TEMPLATE)
        cls.server = start("--chat-template", str(template), "--max-n", "4",
                            "--max-body-size", "1MiB", "--header-timeout", "1",
                            "--select", "dense,quest:budget=256")
        cls.record = make_record("niah", 1024, 1, 0)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        cls.folder.cleanup()
        assert status == 0, status

    def assert_refused(self, status: int, body, *words: str,
                       path="/v1/completions", field=None):
        got, _, text = self.server.ask("POST", path, body)
        self.assertEqual(got, status, text)
        error = json.loads(text)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        for word in words:
            self.assertIn(word, error["message"])
        if field is not None:
            self.assertEqual(error["param"], field)

    # What it answers.

    def test_answers_a_question_and_counts(self):
        prompt, answer = self.record.prompt, self.record.answer
        first = self.server.complete(prompt=prompt, cache_salt="counts")
        again = self.server.complete(prompt=prompt, cache_salt="counts")
        self.assertEqual(first["choices"][0]["text"].strip(), answer)
        self.assertEqual(again["choices"], first["choices"])
        self.assertEqual(first["choices"][0]["finish_reason"], "stop")
        self.assertEqual(first["object"], "text_completion")
        self.assertEqual(first["model"], NAME)
        usage, cached = first["usage"], again["usage"]
        length = usage["prompt_tokens"]
        self.assertEqual(usage["total_tokens"],
                         length + usage["completion_tokens"])
        self.assertEqual(usage["prompt_tokens_details"], {"cached_tokens": 0})
        self.assertEqual(cached["prompt_tokens_details"]["cached_tokens"],
                         (length - 1) // 32 * 32)
        # The rows that follow the first answer token read all before them.
        rows = range(length + 1, length + usage["completion_tokens"])
        self.assertEqual(usage["winnow"]["tokens_read"], sum(rows))
        other = self.server.complete(prompt=prompt, cache_salt="another")
        self.assertEqual(other["usage"]["prompt_tokens_details"],
                         {"cached_tokens": 0})

    def test_a_stream_says_the_same(self):
        for path, body in [
                ("/v1/completions", {"prompt": self.record.prompt}),
                ("/v1/chat/completions", {"messages": [
                    {"role": "user", "content": [
                        {"type": "text", "text": self.record.prompt}]}]})]:
            with self.subTest(path=path):
                whole = self.server.complete(path=path, **body)
                events = self.server.stream(
                    path, **body, stream_options={"include_usage": True})
                self.assertEqual(len({event["id"] for event in events}), 1)
                self.assertEqual(events[-1]["choices"], [])
                for name in ["prompt_tokens", "completion_tokens"]:
                    self.assertEqual(events[-1]["usage"][name],
                                     whole["usage"][name])
                pieces = [event["choices"][0] for event in events[:-1]]
                self.assertTrue(all(e["usage"] is None for e in events[:-1]))
                choice = whole["choices"][0]
                if "chat" in path:
                    self.assertEqual(pieces[0]["delta"]["role"], "assistant")
                    text = "".join(p["delta"].get("content", "")
                                   for p in pieces)
                    self.assertEqual(text, choice["message"]["content"])
                else:
                    text = "".join(p["text"] for p in pieces)
                    self.assertEqual(text, choice["text"])
                self.assertEqual(text.strip(), self.record.answer)
                reasons = [p["finish_reason"] for p in pieces]
                self.assertEqual(set(reasons[:-1]), {None})
                self.assertEqual(reasons[-1], choice["finish_reason"])

    def test_stop_strings_end_the_text(self):
        body = {"prompt": self.record.prompt, "max_tokens": 60,
                "ignore_eos": True, "skip_special_tokens": False}
        text = self.server.complete(**body)["choices"][0]["text"]
        self.assertGreater(len(text), 8)
        stop = text[4:7]
        for given in [stop, ["never said", stop]]:
            got = self.server.complete(**body, stop=given)["choices"][0]
            self.assertEqual(got["text"], text[:text.index(stop)])
            self.assertEqual(got["finish_reason"], "stop")
        kept = self.server.complete(**body, stop=stop,
                                    include_stop_str_in_output=True)
        self.assertEqual(kept["choices"][0]["text"],
                         text[:text.index(stop) + len(stop)])
        pieces = self.server.stream(**body, stop=stop)
        self.assertEqual("".join(p["choices"][0]["text"] for p in pieces),
                         text[:text.index(stop)])

    def test_tokens_that_may_be_drawn(self):
        body = {"prompt": self.record.prompt, "max_tokens": 40}
        usual = self.server.complete(**body)
        self.assertEqual(usual["choices"][0]["finish_reason"], "stop")
        longer = self.server.complete(**body, min_tokens=30)
        self.assertGreaterEqual(longer["usage"]["completion_tokens"], 30)
        self.assertTrue(longer["choices"][0]["text"].startswith(
            usual["choices"][0]["text"]))
        only = self.server.complete(prompt="The", max_tokens=3,
                                    ignore_eos=True, allowed_token_ids=[70])
        text = json.loads(self.server.ask(
            "POST", "/detokenize", {"tokens": [70, 70, 70]})[2])["prompt"]
        self.assertEqual(only["choices"][0]["text"], text)
        status, _, wrong = self.server.ask("POST", "/v1/completions", {
            "prompt": "The", "max_tokens": 3, "min_tokens": 4})
        self.assertEqual(status, 400)
        self.assertEqual(json.loads(wrong)["error"]["param"], "min_tokens")

    def test_words_that_may_not_be_said(self):
        body = {"prompt": self.record.prompt, "max_tokens": 20}
        said = self.server.complete(**body)["choices"][0]["text"]
        word = said.split()[0]
        other = self.server.complete(**body, bad_words=["never", word])
        self.assertNotIn(word, other["choices"][0]["text"].split())
        for bad in ([""], ["  "], ["x"] * 257, ["x" * 257], "x", [5]):
            self.assert_refused(400, {**body, "bad_words": bad}, "bad_words",
                                )
        self.assertEqual(self.server.complete(**body, bad_words=[])["choices"]
                         [0]["text"], said)

    def test_several_answers_and_prompts(self):
        body = {"prompt": ["The", "A man"], "n": 2, "max_tokens": 12,
                "temperature": 1.5, "seed": 5, "ignore_eos": True}
        choices = self.server.complete(**body)["choices"]
        self.assertEqual([c["index"] for c in choices], [0, 1, 2, 3])
        self.assertNotEqual(choices[0]["text"], choices[1]["text"])
        self.assertEqual(self.server.complete(**body)["choices"], choices)
        texts = [""] * 4
        for event in self.server.stream(**body):
            texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
        self.assertEqual(texts, [c["text"] for c in choices])
        # The first answer is the same whatever n is, and beside others.
        alone = self.server.complete(**{**body, "prompt": "A man", "n": 1})
        self.assertEqual(alone["choices"][0]["text"], choices[2]["text"])

    def test_token_ids_are_told_to_who_asks(self):
        prompt = list(range(5, 45))
        body = {"prompt": [prompt, prompt[:8]], "max_tokens": 5,
                "ignore_eos": True, "return_token_ids": True}
        whole = self.server.complete(**body)["choices"]
        self.assertEqual([c["prompt_token_ids"] for c in whole],
                         [prompt, prompt[:8]])
        self.assertEqual([len(c["token_ids"]) for c in whole], [5, 5])
        pieces = [event["choices"][0] for event in self.server.stream(**body)]
        for choice in whole:
            own = [p for p in pieces if p["index"] == choice["index"]]
            self.assertEqual(sum((p["token_ids"] for p in own), []),
                             choice["token_ids"])
            self.assertEqual([p["prompt_token_ids"] for p in own
                              if "prompt_token_ids" in p],
                             [choice["prompt_token_ids"]])
        chat = {"messages": [{"role": "user", "content": "points to the"}],
                "max_tokens": 3, "return_token_ids": True}
        path = "/v1/chat/completions"
        told = self.server.complete(path=path, **chat)
        self.assertEqual(told["usage"]["prompt_tokens"],
                         len(told["prompt_token_ids"]))
        events = self.server.stream(path, **chat)
        self.assertEqual([event["prompt_token_ids"] for event in events
                          if "prompt_token_ids" in event],
                         [told["prompt_token_ids"]])

    def test_log_probabilities(self):
        body = {"prompt": self.record.prompt, "max_tokens": 5}
        got = self.server.complete(**body, logprobs=2)["choices"][0]
        shown = got["logprobs"]
        self.assertEqual(len(shown["tokens"]), len(shown["token_logprobs"]))
        for token, logprob, top in zip(shown["tokens"], shown["token_logprobs"],
                                       shown["top_logprobs"]):
            self.assertLessEqual(logprob, 0)
            self.assertEqual(max(top.values()), top[token])
        chat = {"messages": [{"role": "user", "content": self.record.prompt}],
                "max_tokens": 5, "logprobs": True, "top_logprobs": 2}
        path = "/v1/chat/completions"
        content = self.server.complete(path=path, **chat)["choices"][0][
            "logprobs"]["content"]
        self.assertEqual([c["logprob"] for c in content],
                         shown["token_logprobs"])
        self.assertEqual(len(content[0]["top_logprobs"]), 2)
        streamed = [entry for event in self.server.stream(path, **chat)
                    if event["choices"][0]["logprobs"]
                    for entry in event["choices"][0]["logprobs"]["content"]]
        self.assertEqual(streamed, content)
        biased = self.server.complete(
            prompt="The", max_tokens=3, ignore_eos=True, logit_bias={"70": 100})
        only = self.server.complete(prompt=[70, 70, 70], max_tokens=1)
        self.assertEqual(biased["usage"]["completion_tokens"], 3)
        text = json.loads(self.server.ask(
            "POST", "/detokenize", {"tokens": [70, 70, 70]})[2])["prompt"]
        self.assertEqual(biased["choices"][0]["text"], text)
        self.assertEqual(only["usage"]["prompt_tokens"], 3)

    def test_an_echo_tells_the_prompt_and_what_it_is_worth(self):
        prompt = self.record.prompt
        tokens = json.loads(self.server.ask("POST", "/tokenize", {
            "prompt": prompt})[2])
        plain = self.server.complete(prompt=prompt, max_tokens=4)
        echoed = self.server.complete(prompt=prompt, max_tokens=4, echo=True,
                                      logprobs=1)
        choice, told = echoed["choices"][0], plain["choices"][0]
        self.assertEqual(choice["text"], prompt + told["text"])
        self.assertEqual(echoed["usage"]["prompt_tokens"], tokens["count"])
        shown = choice["logprobs"]
        self.assertEqual(len(shown["tokens"]), tokens["count"] + 4)
        self.assertIsNone(shown["token_logprobs"][0])
        self.assertIsNone(shown["top_logprobs"][0])
        head = tokens["count"] - 1
        offsets = shown["text_offset"]
        self.assertEqual(offsets[tokens["count"]], len(prompt))
        self.assertEqual("".join(shown["tokens"]), choice["text"])
        for token, offset in zip(shown["tokens"], offsets):
            self.assertTrue(choice["text"][offset:].startswith(token))
        # As lm-eval asks, by token ids, and the same without what it adds.
        asked = dict(prompt=[tokens["tokens"]] * 2, echo=True, logprobs=1)
        for most in [0, 1]:
            answer = self.server.complete(**asked, max_tokens=most)
            self.assertEqual(answer["usage"]["completion_tokens"], 2 * most)
            for each in answer["choices"]:
                self.assertEqual(each["finish_reason"], "length")
                worth = each["logprobs"]["token_logprobs"]
                self.assertEqual(len(worth), tokens["count"] + most)
                for got, expected in zip(worth[1:], shown["token_logprobs"][1:]):
                    self.assertAlmostEqual(got, expected, delta=2e-3)
        # Forced to say the same, it holds it to be as probable.
        forced = self.server.complete(
            prompt=tokens["tokens"][:head], max_tokens=1, logprobs=1,
            logit_bias={str(tokens["tokens"][head]): 100})
        self.assertAlmostEqual(
            forced["choices"][0]["logprobs"]["token_logprobs"][0],
            shown["token_logprobs"][head], delta=2e-3)

    def test_an_echo_in_a_stream(self):
        asked = dict(prompt="The code", max_tokens=3, echo=True, logprobs=2)
        whole = self.server.complete(**asked)["choices"][0]
        events = self.server.stream(**asked)
        self.assertTrue(events[0]["choices"][0]["text"].startswith("The code"))
        text, lists = "", {name: [] for name in whole["logprobs"]}
        for event in events:
            choice = event["choices"][0]
            text += choice["text"]
            for name in lists if choice["logprobs"] else []:
                lists[name] += choice["logprobs"][name]
        self.assertEqual((text, lists), (whole["text"], whole["logprobs"]))

    def test_a_request_has_the_time_that_it_was_given(self):
        long = dict(prompt="The code", max_tokens=4000, ignore_eos=True)
        status, headers, text = self.server.ask(
            "POST", "/v1/completions", {**long, "timeout": 0.2})
        self.assertEqual(status, 504, text)
        self.assertEqual(headers["x-should-retry"], "false")
        error = json.loads(text)["error"]
        self.assertEqual((error["type"], error["code"]),
                         ("timeout_error", "timeout"))
        self.assertIn("timeout (0.2 s)", error["message"])
        _, _, text = self.server.ask("POST", "/v1/completions", {
            **long, "timeout": 0.2, "stream": True})
        events = [event for event in text.split("\n\n") if event]
        self.assertIn("timeout_error", events[-2])
        self.assertEqual(events[-1], "data: [DONE]")
        wait_until(lambda: self.server.metric("vllm:num_requests_running") == 0,
                   "both have ended")
        self.assertEqual(self.server.metric(
            "winnow:kv_tier_bytes", 'tier="device",state="held"'), 0)
        self.server.complete(prompt="The code", max_tokens=2, timeout=60)

    def test_a_stream_that_fails_is_a_warning_of_the_log(self):
        server = start("--log-level", "warning")
        long = dict(prompt="The code", max_tokens=4000, ignore_eos=True,
                    stream=True)
        name = {"X-Request-Id": "late"}
        _, _, text = server.ask("POST", "/v1/completions",
                                {**long, "timeout": 1}, name)
        self.assertIn("timeout_error", text)
        client = server.open_stream(**long)
        while b'"text":' not in client.recv(1 << 16):
            pass
        client.close()
        wait_until(lambda: server.metric("vllm:num_requests_running") == 0,
                   "both have ended")
        self.assertEqual(server.end(), 0)
        late, left = (json.loads(line) for line in server.lines
                      if line.startswith("{"))
        self.assertEqual((late["request_id"], late["level"], late["status"]),
                         ("late", "error", 200))
        self.assertEqual((late["error_code"], late["finish_reason"]),
                         ("timeout", "error"))
        self.assertEqual((left["level"], left["finish_reason"]),
                         ("warning", "abort"))
        self.assertNotIn("error_code", left)
        for line in (late, left):
            self.assertGreater(line["generated_tokens"], 0)
            self.assertGreater(line["first_token_ms"], 0)
            self.assertGreaterEqual(line["first_token_ms"], line["queue_ms"])

    def test_one_that_waits_has_no_more_time(self):
        server = Server(WINNOW, "--max-num-seqs", "1",
                        "--request-timeout", "1.25")
        busy = server.open_stream(prompt="The code", max_tokens=4000,
                                  ignore_eos=True)
        status, _, text = server.ask("POST", "/v1/completions", {
            "prompt": "x", "timeout": 0.1})
        self.assertEqual(status, 504, text)
        # Between steps, or within one that takes long.
        self.assertRegex(text, "0 of |within a step")
        told = b""
        while b"[DONE]" not in told:
            told += busy.recv(1 << 16)
        self.assertIn(b"--request-timeout (1.25 s)", told)
        busy.close()
        self.assertEqual(server.end(), 0)

    def test_a_step_that_takes_long_is_not_waited_for(self):
        server = Server(WINNOW, "--max-num-batched-tokens", "4096",
                        "--threads", "1")
        num_open = lambda: sum(server.metric(  # noqa: E731
            f"vllm:num_requests_{state}") for state in ["running", "waiting"])
        for stream in [False, True]:
            status, _, text = server.ask("POST", "/v1/completions", {
                "prompt": [70 + stream] * 4000, "max_tokens": 2,
                "stream": stream, "timeout": 0.05})
            self.assertEqual(num_open(), 1)
            wait_until(lambda: num_open() == 0, "the step has ended")
            self.assertIn("timeout (0.05 s) must suffice", text)
            self.assertIn("is over within a step", text)
            self.assertEqual(status, 200 if stream else 504, text)
        self.assertEqual(server.end(), 0)

    def test_selectors_of_a_request(self):
        dense = self.server.complete(prompt=self.record.prompt)
        quest = self.server.complete(prompt=self.record.prompt,
                                     select="quest:budget=256")
        self.assertLess(quest["usage"]["winnow"]["tokens_read"],
                        dense["usage"]["winnow"]["tokens_read"] / 2)
        self.assert_refused(400, {"prompt": "x", "select": "quest"},
                            '("dense", "quest:budget=256")', field="select")

    def test_a_watched_stream_says_what_was_read(self):
        ask = dict(prompt=self.record.prompt, max_tokens=6, ignore_eos=True,
                   stream_options={"include_usage": True})
        for path, more in [("/v1/completions", {}), ("/v1/chat/completions", {
                "messages": [{"role": "user", "content": self.record.prompt}],
                "prompt": None})]:
            events = self.server.stream(path, **{**ask, **more},
                                        select="quest:budget=256",
                                        winnow={"picks": True})
            plain = self.server.stream(path, **{**ask, **more},
                                       select="quest:budget=256")
            choices = [e["choices"][0] for e in events if e["choices"]]
            text = lambda choice: choice.get("text") or choice.get(  # noqa: E731
                "delta", {}).get("content", "")
            self.assertEqual(
                "".join(map(text, choices)),
                "".join(text(e["choices"][0]) for e in plain if e["choices"]))
            self.assertFalse(any("winnow" in c for e in plain
                                 for c in e["choices"]))
            picks = [p for c in choices for p in c.get("winnow", {}).get(
                "picks", [])]
            usage = events[-1]["usage"]
            first = usage["prompt_tokens"]
            self.assertEqual([p["position"] for p in picks],
                             list(range(first, first + 6)))
            self.assertEqual("".join(p["text"] for p in picks).strip(),
                             "".join(map(text, choices)).strip())
            # The prompt's last row reads everything; the rows behind it what
            # usage counts, mean over 6 layers of 8 heads.
            self.assertEqual(picks[0]["layers"], [[[0, first, 8]]] * 6)
            read = sum((end - begin) * heads for p in picks[1:]
                       for layer in p["layers"] for begin, end, heads in layer)
            self.assertAlmostEqual(read / 48, usage["winnow"]["tokens_read"],
                                   delta=1)
            self.assertFalse(any(p["truncated"] for p in picks))

    def test_watching_has_limits(self):
        ask = {"prompt": "the", "max_tokens": 2, "stream": True}
        self.assert_refused(400, {**ask, "stream": False,
                                  "winnow": {"picks": True}},
                            "picks", "stream", field="winnow.picks")
        self.assert_refused(400, {**ask, "winnow": {"other": 1}}, "other")
        self.assert_refused(400, {**ask, "winnow": 1}, "winnow",
                            field="winnow")
        # Two at once, by default.
        self.assert_refused(400, {**ask, "n": 3, "winnow": {"picks": True}},
                            "--max-watched-requests")
        events = self.server.stream(**{**ask, "n": 2,
                                       "winnow": {"picks": True}})
        self.assertEqual({c["index"] for e in events for c in e["choices"]
                          if "winnow" in c}, {0, 1})

    def test_company_changes_no_answer(self):
        records = [make_record("niah", 1024, 1, i) for i in range(4)]
        alone = [self.server.complete(prompt=r.prompt, cache_salt=f"a{i}")
                 for i, r in enumerate(records)]
        together = [None] * len(records)

        def ask(i: int):
            together[i] = self.server.complete(prompt=records[i].prompt,
                                               cache_salt=f"b{i}")

        threads = [threading.Thread(target=ask, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for record, one, other in zip(records, alone, together):
            self.assertEqual(one["choices"], other["choices"])
            self.assertEqual(one["choices"][0]["text"].strip(), record.answer)

    def test_what_stands_beside_it(self):
        ask = self.server.ask
        self.assertEqual(ask("GET", "/health")[0], 200)
        self.assertEqual(ask("GET", "/ping")[2], ask("GET", "/health")[2])
        self.assertIn("version", json.loads(ask("GET", "/version")[2]))
        models = json.loads(ask("GET", "/v1/models")[2])["data"]
        self.assertEqual([(m["id"], m["max_model_len"]) for m in models],
                         [(NAME, 4096)])
        self.assertEqual(ask("GET", f"/v1/models/{NAME}")[0], 200)
        self.assertEqual(ask("GET", "/v1/models/other")[0], 404)
        self.assertEqual(ask("GET", "/nowhere")[0], 404)
        status, headers, _ = ask("GET", "/v1/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assert_refused(400, {"input": "x"}, path="/v1/embeddings")
        shown = json.loads(ask("POST", "/tokenize", {"prompt": "points to the"})[2])
        self.assertEqual(shown["count"], len(shown["tokens"]))
        text = json.loads(ask("POST", "/detokenize",
                              {"tokens": shown["tokens"]})[2])["prompt"]
        self.assertIn("points to the", text)

    def test_tokens_and_back(self):
        def ask(path, status, **body):
            got, headers, text = self.server.ask("POST", path, body)
            self.assertEqual(got, status, text)
            return headers["X-Winnow-Ignored-Fields"], json.loads(text)

        plain = {"prompt": "points to the"}
        ignored, shown = ask("/tokenize", 200, **plain, return_token_strs=True,
                             return_pieces=None, unheard_of=1, user="u")
        self.assertEqual(ignored, "unheard_of, user")
        self.assertNotIn("pieces", shown)
        self.assertEqual(len(shown["token_strs"]), shown["count"])
        self.assertIn("points to the", "".join(shown["token_strs"]))
        self.assertEqual(ask("/tokenize", 200, **plain, return_pieces=True)[1]
                         ["pieces"], shown["token_strs"])
        self.assertIsNone(ask("/tokenize", 200, **plain)[0])
        tokens = {"tokens": shown["tokens"]}
        ignored, text = ask("/detokenize", 200, **tokens, model=NAME,
                            unheard_of=1, other=None)
        self.assertEqual(ignored, "unheard_of")
        self.assertIn("points to the", text["prompt"])
        self.assertEqual(ask("/detokenize", 200, tokens=[])[1], {"prompt": ""})
        for path, body in [("/tokenize", plain), ("/detokenize", tokens)]:
            _, answer = ask(path, 404, **body, model="other")
            self.assertEqual(answer["error"]["param"], "model")
        for body in [{}, {"tokens": None}]:
            _, answer = ask("/detokenize", 400, **body)
            self.assertEqual(answer["error"]["param"], "tokens")

    def test_the_page_is_its_own(self):
        status, headers, text = self.server.ask("GET", "/")
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        policy = dict(part.strip().split(" ", 1) for part in
                      headers["Content-Security-Policy"].split(";"))
        self.assertEqual(policy["default-src"], "'none'")
        self.assertEqual(policy["connect-src"], "'self'")
        for tag in ("script", "style"):
            inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
            self.assertEqual(len(inside), 1)
            digest = base64.b64encode(
                hashlib.sha256(inside[0].encode()).digest()).decode()
            self.assertEqual(policy[f"{tag}-src"], f"'sha256-{digest}'")
        self.assertNotIn("Access-Control-Allow-Origin", headers)
        own = json.loads(self.server.ask("GET", "/v1/models")[2])["data"][0][
            "winnow"]
        self.assertEqual(own, {
            "selects": ["dense", "quest:budget=256"], "chat": True,
            "layers": 6, "heads": 8, "page_tokens": 32,
            "max_watched_requests": 2})

    def test_pieces_are_the_prompt(self):
        told = json.loads(self.server.ask("POST", "/tokenize", {
            "prompt": "the  code \u20ac <b>", "return_pieces": True})[2])
        whole = json.loads(self.server.ask("POST", "/detokenize", {
            "tokens": told["tokens"]})[2])["prompt"]
        self.assertEqual(len(told["pieces"]), told["count"])
        self.assertEqual("".join(told["pieces"]), whole)

    def test_metrics_have_the_form(self):
        text = self.server.ask("GET", "/metrics")[2]
        sample = re.compile(r'[a-z:_0-9]+\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\} '
                            r"[-+0-9.e]+$")
        typed = set()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                typed.add(line.split()[2])
            elif not line.startswith("# HELP "):
                self.assertRegex(line, sample)
        for name in ["vllm:num_requests_running", "vllm:num_requests_waiting",
                     "vllm:kv_cache_usage_perc", "vllm:prompt_tokens_total",
                     "vllm:generation_tokens_total",
                     "vllm:time_to_first_token_seconds",
                     "vllm:inter_token_latency_seconds",
                     "winnow:kv_tier_bytes"]:
            self.assertIn(name, typed)

    def test_metrics_count_what_was_asked_and_done(self):
        names = {
            "vllm:request_params_n_count": 1, "vllm:request_params_n_sum": 3,
            "vllm:request_params_max_tokens_sum": 15,
            "vllm:request_generation_tokens_sum": 15,
            "vllm:request_max_num_generation_tokens_sum": 5,
            "vllm:generation_tokens_total": 15,
            "vllm:request_prompt_tokens_count": 3,
            "vllm:prefix_cache_queries_total": 3 * 40,
            "vllm:prompt_tokens_total": 40}
        counts = lambda: {name: self.server.metric(name) for name in names}  # noqa: E731
        replies = lambda: self.server.metric(  # noqa: E731
            "http_requests_total",
            'handler="/v1/completions",method="POST",status="2xx"')
        num_open = lambda: sum(self.server.metric(  # noqa: E731
            f"vllm:num_requests_{state}") for state in ["running", "waiting"])
        self.server.complete(prompt="x", max_tokens=1)  # A route has no count before.
        wait_until(lambda: num_open() == 0, "none runs or waits")
        before, replied = counts(), replies()
        self.server.complete(prompt=list(range(300, 340)), n=3, max_tokens=5,
                             ignore_eos=True)
        after = counts()
        self.assertEqual({name: after[name] - before[name] for name in names},
                         names)
        self.assertEqual(replies(), replied + 1)
        self.assertEqual(self.server.metric(
            "vllm:cache_config_info", 'block_size="32"'), 1)

    # What it bears.

    def test_a_client_that_vanishes_ends_its_request(self):
        aborted = lambda: self.server.metric(  # noqa: E731
            "vllm:request_success_total", 'finished_reason="abort"')
        before = aborted()
        client = self.server.open_stream(prompt="The", max_tokens=2000,
                                         ignore_eos=True)
        client.recv(100)
        client.close()
        wait_until(lambda: aborted() == before + 1, "it is cancelled")
        running = "vllm:num_requests_running"
        wait_until(lambda: self.server.metric(running) == 0, "none runs")
        wait_until(lambda: self.server.metric("vllm:kv_cache_usage_perc") == 0,
                   "its pages are free")

    def test_slow_headers_are_cut_off(self):
        client = socket.create_connection(("127.0.0.1", self.server.port), 30)
        client.sendall(b"GET /health HTTP/1.1\r\n")
        started = time.monotonic()
        with self.assertRaises((ConnectionError, StopIteration)):
            while True:
                client.sendall(b"X: y\r\n")
                time.sleep(0.2)
                if time.monotonic() - started > 20:
                    return
                client.setblocking(False)
                try:
                    if client.recv(1) == b"":
                        raise StopIteration
                except BlockingIOError:
                    pass
                client.setblocking(True)
        self.assertLess(time.monotonic() - started, 10)
        client.close()

    def test_sizes_are_bounded(self):
        status, _, text = self.server.ask(
            "POST", "/v1/completions", b" " * (100 << 20))
        self.assertEqual(status, 413, text)
        self.assertIn("1048576", text)
        self.assertEqual(self.server.ask(
            "GET", "/health", headers={"X": "y" * 30000})[0], 431)

    def test_what_is_not_json_is_refused(self):
        deep = b'{"prompt":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        for body, word in [(b"", "byte"), (b"{", "byte"), (b"[]", "object"),
                           (b'{"prompt":"\xff"}', "byte"),
                           (b'{"prompt":"\\ud800"}', "byte"),
                           (b'{"n":1e400,"prompt":"x"}', "is 1e400"),
                           (b'{"n":NaN,"prompt":"x"}', "byte"),
                           (deep, "32 levels"),
                           (b'{"prompt":"a","prompt":"b"}', "twice")]:
            with self.subTest(body=body[:30]):
                self.assert_refused(400, body, word)
        self.assert_refused(400, b'{"prompt":"x","timeout":1e309}',
                            "must be a number", field="timeout")

    def test_an_item_that_is_wrong_is_named(self):
        for prompt, place in [([70, "x", 70], "prompt[1]"),
                              (["x", "x", 70], "prompt[2]"),
                              ([[70], "x"], "prompt[1]"),
                              ([[70], [70, "x"]], "prompt[1]"),
                              ([[70], []], "prompt[1]")]:
            self.assert_refused(400, {"prompt": prompt}, place + ": must be",
                                field=place)

    def test_what_is_too_long_is_told_as_it_was_asked(self):
        # 4K of context here; there 48 pages of KV, where 94 are read by layers.
        asked = {"prompt": [70] * 4200, "max_tokens": 0, "echo": True}
        self.assert_refused(400, asked, "are 4200 and 0", field="prompt")
        server = start("--device-kv", "9MiB", "--host-kv", "24MiB",
                       "--select", "quest:budget=256,dense_layers=none,dense")
        for more, words in [
                ({"select": "dense"}, ["KV of 3000 tokens (a prompt of 3000 "
                                       "and max-tokens) needs", "device-kv"]),
                ({"stream": True, "winnow": {"picks": True}},
                 ["KV of a watched request must be at most 9.0 MiB",
                  "(3000 tokens: a prompt of 3000 and max-tokens)"])]:
            status, _, text = server.ask("POST", "/v1/completions", {
                "prompt": [70] * 3000, "max_tokens": 1, **more})
            self.assertEqual(status, 400, text)
            error = json.loads(text)["error"]
            self.assertEqual(error["param"], "prompt")
            for word in ["request: field prompt: ", *words]:
                self.assertIn(word, error["message"])
        self.assertEqual(server.end(), 0)

    def test_wrong_values_are_named(self):
        for field, values in {
                "prompt": [1, {}, [], [70, "x"], [[]], [[-1]], [10**9],
                           [0.5], "x " * 5000],
                "max_tokens": [0, -1, "5", 1.5, 2**31, 2**63, 10**6],
                "temperature": [-1, 101, "hot", []], "top_p": [-0.1, 2],
                "min_p": [2], "top_k": [-2, 0.5], "seed": ["x", 2**63],
                "stop": [5, [""], [1], ["x"] * 65, "y" * 5000],
                "logprobs": [-1, 21, "x"], "n": [0, 5, 10_000, "x"],
                "frequency_penalty": [3], "presence_penalty": [-3],
                "repetition_penalty": [0], "stream": ["yes"],
                "stream_options": [{"include_usage": True}],
                "logit_bias": [5, {"x": 1}, {"70": 200}, {"999999": 1}],
                "cache_salt": [5, "z" * 300], "model": [5],
                "best_of": [2], "guided_json": [5], "echo": ["yes"],
                "max_tokens": [0], "timeout": [0, -1, "soon", 1e6]}.items():
            for value in values:
                with self.subTest(field=field, value=str(value)[:40]):
                    body = {"prompt": "x", "max_tokens": 1, field: value}
                    got, _, text = self.server.ask(
                        "POST", "/v1/completions", body)
                    self.assertEqual(got, 400, text)
                    error = json.loads(text)["error"]
                    self.assertTrue(
                        (error["param"] or "").startswith(field)
                        or field in error["message"], text)
        too_long = {"prompt": "x " * 5000, "max_tokens": 1}
        text = self.server.ask("POST", "/v1/completions", too_long)[2]
        self.assertEqual(json.loads(text)["error"]["code"],
                         "context_length_exceeded")

    def test_fields_that_change_nothing_are_named(self):
        _, headers, _ = self.server.ask(
            "POST", "/v1/completions",
            {"prompt": "x", "max_tokens": 1, "user": "u", "unheard_of": 1,
             "wei\r\nrd": 2})
        self.assertEqual(headers["X-Winnow-Ignored-Fields"],
                         "unheard_of, user, (another)")
        self.assert_refused(404, {"prompt": "x", "model": "gpt-5"}, "gpt-5",
                            field="model")

    def test_more_fields_than_are_named_are_counted(self):
        names = [f"unheard_of_{i:02}" for i in range(19)]
        for num, more in [(16, ""), (19, ", (3 more)")]:
            _, headers, _ = self.server.ask("POST", "/v1/completions", {
                "prompt": "x", "max_tokens": 1,
                **dict.fromkeys(names[:num], 1)})
            self.assertEqual(headers["X-Winnow-Ignored-Fields"],
                             ", ".join(names[:16]) + more)

    def test_a_request_keeps_its_name_and_leaves_a_line(self):
        secret = "a secret that is none of the log's"
        body = {"prompt": secret, "max_tokens": 2, "user": secret}
        _, headers, _ = self.server.ask("POST", "/v1/completions", body,
                                        {"X-Request-Id": "mine.1:a-b_c"})
        self.assertEqual(headers["X-Request-Id"], "mine.1:a-b_c")
        seen = set()
        for given in ["", "two words", "x" * 129, "a\u00e9", '"}']:
            status, headers, _ = self.server.ask(
                "GET", "/nowhere", headers={"X-Request-Id": given.encode()})
            self.assertEqual(status, 404)
            self.assertRegex(headers["X-Request-Id"], r"^req_[0-9a-f]{24}$")
            seen.add(headers["X-Request-Id"])
        self.assertEqual(len(seen), 5)
        self.server.ask("POST", "/v1/completions", {"prompt": "x", "n": -5},
                        {"X-Request-Id": "wrong"})
        self.server.stream(prompt="The", max_tokens=3, ignore_eos=True)
        lines = {}

        def all_there() -> bool:
            for line in list(self.server.lines):
                if not line.startswith("{"):
                    continue
                entry = json.loads(line)
                lines[entry["request_id"]] = entry
            return len(seen & set(lines)) == 5 and "wrong" in lines

        wait_until(all_there, "the lines are written")
        line = lines["mine.1:a-b_c"]
        self.assertEqual((line["method"], line["path"], line["status"]),
                         ("POST", "/v1/completions", 200))
        self.assertEqual((line["generated_tokens"], line["finish_reason"],
                          line["whole"], line["level"]),
                         (2, "length", True, "info"))
        self.assertGreaterEqual(line["total_ms"], line["first_token_ms"])
        self.assertGreaterEqual(line["queue_ms"], 0)
        self.assertEqual((lines["wrong"]["status"], lines["wrong"]["field"]),
                         (400, "n"))
        self.assertTrue(any(line["stream"] for line in lines.values()))
        self.assertNotIn(secret, "".join(self.server.lines))

    def test_one_connection_serves_many(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port,
                                                timeout=60)
        for _ in range(3):
            connection.request("POST", "/v1/completions", json.dumps(
                {"prompt": "The", "max_tokens": 2, "stream": True}))
            answer = connection.getresponse()
            self.assertIn(b"[DONE]", answer.read())
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(),
                             b'{"status":"ok"}')
        connection.close()


class LifeTest(unittest.TestCase):

    def test_the_key_covers_all_but_health(self):
        server = start(WINNOW_API_KEY="secret")
        for path in ["/v1/models", "/metrics", "/version", "/nowhere"]:
            for headers, status in [({}, 401), ({"Authorization": "Bearer s"},
                                                401),
                                    ({"Authorization": "Bearer secreT"}, 401)]:
                self.assertEqual(
                    server.ask("GET", path, headers=headers)[0], status, path)
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        self.assertEqual(server.ask("GET", "/")[0], 200)
        self.assertEqual(server.ask("POST", "/", {})[0], 405)
        self.assertEqual(server.ask("GET", "/v1/models", headers={
            "Authorization": "Bearer secret"})[0], 200)
        # Refused before the body is read.
        self.assertEqual(server.ask("POST", "/v1/completions",
                                    b" " * (20 << 20))[0], 401)
        self.assertEqual(server.end(), 0)

    def test_no_route_is_left_out_by_the_key(self):
        server = start(WINNOW_API_KEY="secret")
        document = json.loads(server.ask("GET", "/openapi.json", headers={
            "x-api-key": "secret"})[2])
        routes = [(method.upper(), path) for path, item
                  in document["paths"].items() for method in item]
        self.assertGreater(len(routes), 12)
        for method, path in routes:
            for headers in [{}, {"x-api-key": "secreT"},
                            {"Authorization": "secret"},
                            {"Authorization": "Bearer secret\u00e9".encode()},
                            {"Authorization": "Bearer secretsecret"}]:
                status = server.ask(method, path, {}, headers)[0]
                is_open = path in ("/", "/health", "/ping")
                self.assertEqual(status == 401, not is_open, (method, path))
        self.assertEqual(server.end(), 0)

    def test_without_a_key_only_names_of_this_machine_are_answered(self):
        server = start("--allowed-host", "models.example")
        for host, status in [("localhost:1", 200), ("[::1]:8000", 200),
                             ("models.example", 200), ("evil.example", 403),
                             ("127.0.0.1.evil.example:8000", 403)]:
            for path in ["/", "/v1/models"]:
                got, body = server.ask("GET", path, headers={"Host": host})[:2]
                self.assertEqual(got, status, (host, path, body))
        self.assertIn("--allowed-host", str(server.ask(
            "GET", "/v1/models", headers={"Host": "evil.example"})))
        self.assertEqual(server.end(), 0)
        server = start(WINNOW_API_KEY="secret")
        self.assertEqual(server.ask("GET", "/v1/models", headers={
            "Host": "evil.example", "Authorization": "Bearer secret"})[0], 200)
        self.assertEqual(server.end(), 0)

    def test_a_full_queue_says_so(self):
        server = start("--max-num-seqs", "1", "--max-queued-requests", "1")
        clients = [server.open_stream(prompt="The", max_tokens=4000,
                                      ignore_eos=True) for _ in range(2)]
        status, headers, text = server.ask(
            "POST", "/v1/completions", {"prompt": "x"})
        self.assertEqual((status, headers["Retry-After"]), (429, "1"), text)
        for client in clients:
            client.close()
        wait_until(lambda: server.ask("POST", "/v1/completions",
                                      {"prompt": "x", "max_tokens": 1}
                                      )[0] == 200, "there is room again")
        self.assertEqual(server.end(), 0)

    def test_thousands_that_wait_hold_up_nobody(self):
        server = start("--max-num-seqs", "2", "--max-queued-requests", "10240")
        busy = [server.open_stream(prompt="The", max_tokens=4000,
                                   ignore_eos=True)]
        data = json.dumps({"prompt": [[70 + i] for i in range(256)],
                           "max_tokens": 4000, "ignore_eos": True}).encode()
        waiting = [server.connect() for _ in range(40)]
        for client in waiting:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost"
                           b"\r\nContent-Length: %d\r\n\r\n" % len(data)
                           + data)
        num_waiting = lambda: server.metric("vllm:num_requests_waiting")  # noqa: E731
        wait_until(lambda: num_waiting() >= 10_000, "they wait")
        busy.pop().close()
        answer = server.complete(prompt="x", max_tokens=2, priority=-1)
        self.assertEqual(answer["usage"]["completion_tokens"], 2)
        self.assertGreater(num_waiting(), 10_000)
        sent = time.monotonic()
        for client in waiting:
            client.close()
        wait_until(lambda: num_waiting() == 0, "all have left")
        self.assertLess(time.monotonic() - sent, allowed_seconds(WINNOW, 10))
        server.complete(prompt="x", max_tokens=2)
        self.assertEqual(server.end(), 0)

    def test_one_that_was_killed_comes_back(self):
        server = start()
        asked = dict(prompt="The code", max_tokens=8, ignore_eos=True)
        before = server.complete(**asked)["choices"]
        client = server.open_stream(prompt="The", max_tokens=4000,
                                    ignore_eos=True)
        server.process.kill()
        self.assertEqual(server.wait(), -signal.SIGKILL)
        told = b"?"
        while told:
            try:
                told = client.recv(1 << 16)
            except ConnectionError:
                break
            self.assertNotIn(b"[DONE]", told)
        client.close()
        # On its port at once, though connections to it linger.
        again = Server(WINNOW, port=server.port)
        self.assertEqual(again.complete(**asked)["choices"], before)
        self.assertEqual(again.end(), 0)

    def test_a_signal_drains_and_a_second_ends(self):
        server = start()
        client = server.open_stream(prompt="The", max_tokens=LONG,
                                    ignore_eos=True)
        server.process.send_signal(signal.SIGTERM)
        text = b""
        while piece := client.recv(1 << 16):
            text += piece
        self.assertIn(b"[DONE]", text)
        self.assertIn(b'"finish_reason":"length"', text)
        client.close()
        self.assertEqual(server.wait(), 0)
        server = start()
        client = server.open_stream(prompt="The", max_tokens=4000,
                                    ignore_eos=True)
        self.assertEqual(server.end(signal.SIGINT, signal.SIGINT), 130)
        client.close()

    def test_what_cannot_start_says_why(self):
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for flags, status, word in [(["--port", port], 1, port),
                                    (["--host", "nowhere"], 2, "nowhere"),
                                    (["--port", "0", "--chat-template",
                                      "/nowhere"], 1, "/nowhere")]:
            done = subprocess.run([WINNOW, "serve", MODEL, *flags], text=True,
                                  capture_output=True, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(word, done.stderr)
        taken.close()


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
