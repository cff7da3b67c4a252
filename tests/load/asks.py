"""What a soak asks: requests drawn from a seed, of every kind that the server
takes, each with but one right answer."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from lab.tasks.record import Record, make_record  # noqa: E402

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
SELECTS = ["dense", "quest:budget=512", "mean:budget=512", "snapkv:budget=512",
           "retroinfer:budget=512"]
FAMILIES = ["niah", "multikey", "chain", "vt", "niah_multivalue"]
KINDS = ["task", "drawn", "long", "grammar", "several", "logprobs", "stop"]
LONGEST = 1600  # tokens of a prompt
CROWD_LONGEST = 3840  # of 4,096 with the answer
CROWD_SHORT_CHARACTERS = 2000  # some 400 tokens
CODE = r" ?[0-9]( [0-9]){4}"  # as niah's answers are


@dataclass(frozen=True)
class Ask:
    kind: str
    path: str
    body: dict
    # Of a task that is answered greedily: what its file says.
    answer: str | None = None

    @property
    def num_sequences(self) -> int:
        prompt = self.body.get("prompt")
        prompts = len(prompt) if isinstance(prompt, list) else 1
        return prompts * self.body.get("n", 1)

    @property
    def can_be_watched(self) -> bool:
        return self.path in (COMPLETIONS, CHAT) and self.num_sequences == 1


@dataclass
class Answer:
    """What is the same of an answer, however it was told: by choice."""
    texts: list[str]
    reasons: list[str | None]
    num_tokens: int
    logprobs: list[float]


def _phrased(path: str, prompt: str, max_tokens: int) -> dict:
    """One request in the words of a route."""
    if path == COMPLETIONS:
        return {"prompt": prompt, "max_tokens": max_tokens}
    if path == RESPONSES:
        return {"input": prompt, "max_output_tokens": max_tokens}
    return {"messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens}


def _record(draw: random.Random, index: int) -> Record:
    family = "niah" if index % 3 == 0 else draw.choice(FAMILIES)
    length = draw.randrange(1024, LONGEST, 64)
    # Some documents come again, so that there are prefixes to share.
    return make_record(family, length, 1000, draw.randrange(1 + index // 2))


def make_ask(seed: int, index: int) -> Ask:
    draw = random.Random(f"{seed}/{index}")
    kind = KINDS[index % len(KINDS)]
    record = _record(draw, 0 if kind == "grammar" else index)
    path = draw.choice([COMPLETIONS, COMPLETIONS, CHAT, RESPONSES, MESSAGES])
    if kind in ("several", "logprobs", "stop", "grammar"):
        path = COMPLETIONS
    body = _phrased(path, record.prompt, 48)
    select = draw.choice(SELECTS)
    # What a selector leaves out it cannot tell: tasks are to be right.
    body |= {"temperature": 0, "select": "dense" if kind == "task" else select}
    answer = record.answer if kind == "task" else None
    if kind == "drawn":
        body |= {"temperature": draw.choice([0.5, 1, 1.5]), "top_p": 0.95,
                 "seed": draw.randrange(2**31), "ignore_eos": True}
    elif kind == "long":
        name = "max_output_tokens" if path == RESPONSES else "max_tokens"
        body |= {name: draw.randrange(200, 800), "ignore_eos": True}
    elif kind == "grammar":
        body |= {"guided_regex": CODE, "temperature": 1, "seed": index}
    elif kind == "several":
        body |= {"n": draw.randrange(1, 4), "temperature": 1, "seed": index,
                 "prompt": [record.prompt, record.context[:2000]],
                 "ignore_eos": True}
    elif kind == "logprobs":
        body |= {"logprobs": 2}
    elif kind == "stop":
        body |= {"stop": [f" {draw.randrange(10)}", " ."], "ignore_eos": True}
    return Ask(kind, path, body, answer)


@dataclass(frozen=True)
class Crowd:
    """By one selector what takes as much memory as requests can: `first` is as
    long as a prompt may be, and all ask `then` at once, with answers so long
    that they run at once."""
    first: Ask
    then: Ask


def make_crowds(seed: int) -> list[Crowd]:
    """Many have room for the longest prompt if they share it. A choice that is
    fixed by a prompt's rows shares none: then it is a short one."""
    record = make_record("niah", CROWD_LONGEST, 1001, seed)

    def ask(select: str, prompt: str) -> Ask:
        return Ask("crowd", COMPLETIONS,
                   {"prompt": prompt, "max_tokens": 96, "ignore_eos": True,
                    "temperature": 0, "select": select})

    crowds = []
    for select in SELECTS:
        first = ask(select, record.prompt)
        short = ask(select, record.context[:CROWD_SHORT_CHARACTERS])
        shares = not select.startswith("snapkv")
        crowds.append(Crowd(first, first if shares else short))
    return crowds


def whole_answer(path: str, text: str) -> Answer:
    told = json.loads(text)
    if path == RESPONSES:
        texts = ["".join(part["text"] for item in told["output"]
                         for part in item["content"])]
        return Answer(texts, [told["status"]],
                      told["usage"]["output_tokens"], [])
    if path == MESSAGES:
        texts = ["".join(part["text"] for part in told["content"])]
        return Answer(texts, [told["stop_reason"]],
                      told["usage"]["output_tokens"], [])
    choices = told["choices"]
    texts = [c["text"] if path == COMPLETIONS else c["message"]["content"] or ""
             for c in choices]
    logprobs = [value for c in choices if c.get("logprobs")
                for value in c["logprobs"]["token_logprobs"]]
    return Answer(texts, [c["finish_reason"] for c in choices],
                  told["usage"]["completion_tokens"], logprobs)


def streamed_answer(path: str, text: str, num: int) -> tuple[Answer, list]:
    """Of a whole stream, and what its picks say. Fails on an error's event."""
    datas = [json.loads(line[6:]) for line in text.splitlines()
             if line.startswith("data: {")]
    answer, picks = Answer([""] * num, [None] * num, 0, []), []
    for data in datas:
        assert "error" not in data or data["error"] is None, data
        kind = data.get("type")
        if kind == "content_block_delta":
            answer.texts[0] += data["delta"]["text"]
        elif kind == "message_delta":
            answer.reasons[0] = data["delta"]["stop_reason"]
            answer.num_tokens = data["usage"]["output_tokens"]
        elif kind == "response.output_text.delta":
            answer.texts[0] += data["delta"]
        elif kind in ("response.completed", "response.incomplete"):
            answer.reasons[0] = data["response"]["status"]
            answer.num_tokens = data["response"]["usage"]["output_tokens"]
        elif kind is None:
            _add_chunk(path, data, answer, picks)
    return answer, picks


def _add_chunk(path: str, data: dict, answer: Answer, picks: list) -> None:
    if data.get("usage"):
        answer.num_tokens = data["usage"]["completion_tokens"]
    for choice in data["choices"]:
        index = choice["index"]
        answer.texts[index] += (choice["text"] if path == COMPLETIONS else
                                choice["delta"].get("content") or "")
        answer.reasons[index] = choice["finish_reason"] or answer.reasons[index]
        if choice.get("logprobs"):
            answer.logprobs += choice["logprobs"]["token_logprobs"]
        picks += choice.get("winnow", {}).get("picks", [])
