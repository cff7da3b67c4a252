"""Free-running greedy accuracy of a checkpoint, through transformers.

    python3 -m lab.train.evaluate lab/models/winnow-lab --json FILE

Test documents come from lab/make_tasks' own records: none was trained on. A
document's context is read once, in bf16, and its questions continue from it.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import time
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from lab.tasks.record import Record, least_length, most_questions, records_of
from lab.tasks.words import BEGIN, END, encode
from lab.train.scores import Score, print_table

TASKS = (
    "niah,niah_single_1,niah_single_2,niah_single_3,niah_multivalue,"
    "niah_multiquery,niah_multikey_1,multikey,niah_multikey_2,"
    "niah_multikey_3,chain,vt,qa,long_chain,cwe,fwe"
)
QUESTIONS_A_DOCUMENT = 5
# From here on a cell has --long-count answers, and more of them a document.
LONG = 65536
QUESTIONS_A_LONG_DOCUMENT = 10
BATCH_TOKENS = 1_000_000  # Of KV that the questions of a document take.
MOST_PASSES = 48  # Wrong so often, an answer is given up: the rest is wrong.


@dataclass
class Answer:
    """A greedy answer under way.

    Owns `tokens`, of which the first `num_settled` are the model's own
    choices and the rest a guess, which only saves passes.
    """

    record: Record
    question: list[int]
    expected: list[int]
    tokens: list[int] = field(default_factory=list)
    num_settled: int = 0

    def __post_init__(self) -> None:
        self.tokens = list(self.expected)

    @property
    def is_done(self) -> bool:
        return self.num_settled == len(self.tokens)

    def settle(self, choices: list[int]) -> None:
        """`choices`: what the model says at each place, given the guess."""
        for place in range(self.num_settled, len(self.tokens)):
            guess, choice = self.tokens[place], choices[place]
            self.tokens[place] = choice
            self.num_settled = place + 1
            if choice == END:
                self.tokens = self.tokens[: self.num_settled]
                return
            if choice != guess:
                return


@dataclass
class Asked:
    """A document as a worker hands it over: context [length], its answers."""

    context: np.ndarray
    answers: list[Answer]


def ask(task: str, length: int, seed: int, index: int, questions: int) -> Asked:
    records = list(records_of(task, length, seed, index, questions))
    answers = [
        Answer(r, encode(r.question), [*encode(r.answer), END]) for r in records
    ]
    context = [BEGIN, *encode(records[0].context)]
    # What the rest is not needed for would only be copied between processes.
    for answer, record in zip(answers, records):
        fields = {**vars(record), "context": ""}
        answer.record = Record(**fields)
    return Asked(np.array(context, np.uint16), answers)


class Model:
    """A checkpoint on one device, in bf16."""

    def __init__(self, folder: Path, device: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.device = device
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="sdpa"
        ).to(device)

    def check_tokenizer(self, record: Record) -> None:
        """The words' numbers are those that the tokenizer gives."""
        ids = self.tokenizer(record.prompt).input_ids
        assert ids == [BEGIN, *encode(record.prompt)], record

    @torch.inference_mode()
    def read(self, context: np.ndarray) -> DynamicCache:
        """context: [length]"""
        cache = DynamicCache(config=self.model.config)
        tokens = torch.from_numpy(context.astype(np.int64))[None]
        self.model.model(
            tokens.to(self.device), past_key_values=cache, use_cache=True
        )
        return cache

    @torch.inference_mode()
    def choose(self, context: DynamicCache, answers: list[Answer]) -> None:
        """One pass over questions and guesses settles some of each answer."""
        texts = [answer.question + answer.tokens for answer in answers]
        width = max(map(len, texts))
        # What pads a text lies behind it, where causal attention cannot see.
        rows = [text + [END] * (width - len(text)) for text in texts]
        cache = copy.deepcopy(context)
        if len(rows) > 1:
            cache.batch_repeat_interleave(len(rows))
        hidden = self.model.model(
            torch.tensor(rows, device=self.device),
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        for row, answer in enumerate(answers):
            first = len(answer.question) - 1
            places = hidden[row, first : first + len(answer.tokens)]
            answer.settle(self.model.lm_head(places).argmax(-1).tolist())

    def answer(self, asked: Asked) -> None:
        """The greedy answers, at most as long as the right ones."""
        context = self.read(asked.context)
        rows = max(1, BATCH_TOKENS // len(asked.context))
        under_way = asked.answers
        for _ in range(MOST_PASSES):
            for first in range(0, len(under_way), rows):
                self.choose(context, under_way[first : first + rows])
            under_way = [a for a in under_way if not a.is_done]
        for answer in under_way:
            answer.tokens = answer.tokens[: answer.num_settled]


def cells(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """(task, length, answers), where a task has documents so short."""
    for length in map(int, options.lengths.split(",")):
        count = options.count if length < LONG else options.long_count
        for task in options.tasks.split(","):
            if length >= least_length(task):
                yield task, length, count


def ask_all(
    pool: ProcessPoolExecutor, options: argparse.Namespace
) -> dict[tuple[str, int], list[Future]]:
    """Workers make the documents of every cell while the model answers."""
    futures = {}
    for task, length, count in cells(options):
        a_document = (
            QUESTIONS_A_DOCUMENT if length < LONG else QUESTIONS_A_LONG_DOCUMENT
        )
        a_document = min(a_document, most_questions(task, length))
        futures[task, length] = [
            pool.submit(
                ask,
                task,
                length,
                options.seed,
                first // a_document,
                min(a_document, count - first),
            )
            for first in range(0, count, a_document)
        ]
    return futures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--lengths", default="4096,16384,32768,65536,131072")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--long-count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Forked before the device is in use, which a fork would not survive.
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(8, mp_context=fork) as pool:
        futures = ask_all(pool, options)
        model = Model(options.model, options.device)
        rows = []
        for (task, length), documents in futures.items():
            began = time.monotonic()
            score = Score()
            for future in documents:
                asked = future.result()
                model.answer(asked)
                for answer in asked.answers:
                    score.add(answer.record, answer.expected, answer.tokens)
            model.check_tokenizer(asked.answers[-1].record)
            seconds = round(time.monotonic() - began, 1)
            rows.append(
                {"task": task, "length": length, "seed": options.seed}
                | score.fields()
                | {"seconds": seconds}
            )
            documents.clear()
            print(json.dumps(rows[-1]), flush=True)
    print_table(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
