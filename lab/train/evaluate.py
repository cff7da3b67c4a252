"""Free-running greedy accuracy of a checkpoint, through transformers.

    python3 -m lab.train.evaluate lab/models/winnow-lab --seed 1000

Test documents come from lab/make_tasks' own records: none was trained on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lab.tasks.families import FAMILIES
from lab.tasks.record import Record, make_records
from lab.tasks.words import END, encode

PASS_TOKENS = 131_072


@dataclass
class Answer:
    """A greedy answer under way.

    Owns `tokens`, of which the first `num_settled` are the model's own
    choices and the rest a guess, which only saves passes.
    """

    prompt: list[int]
    tokens: list[int]
    num_settled: int = 0

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


class Model:
    """A checkpoint and its tokenizer, on one device, in bf16."""

    def __init__(self, folder: Path, device: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.device = device
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="sdpa"
        ).to(device)

    def prompt_of(self, record: Record) -> list[int]:
        return self.tokenizer(record.prompt).input_ids

    @torch.inference_mode()
    def choose(self, answers: list[Answer]) -> None:
        """One pass over prompts and guesses settles some of each answer."""
        texts = [answer.prompt + answer.tokens for answer in answers]
        width = max(map(len, texts))
        # What pads a text lies behind it, where causal attention cannot see.
        rows = [text + [END] * (width - len(text)) for text in texts]
        batch = torch.tensor(rows, device=self.device)
        hidden = self.model.model(batch, use_cache=False).last_hidden_state
        for row, answer in enumerate(answers):
            first = len(answer.prompt) - 1
            places = hidden[row, first : first + len(answer.tokens)]
            choices = self.model.lm_head(places).argmax(-1).tolist()
            answer.settle(choices)

    def run(self, records: list[Record]) -> list[list[int]]:
        """The greedy answers, at most as long as the right ones."""
        answers = [
            Answer(self.prompt_of(record), [*encode(record.answer), END])
            for record in records
        ]
        under_way = answers
        while under_way:
            rows = max(1, PASS_TOKENS // records[0].length)
            for first in range(0, len(under_way), rows):
                self.choose(under_way[first : first + rows])
            under_way = [a for a in under_way if not a.is_done]
        return [answer.tokens for answer in answers]


def score(records: list[Record], answers: list[list[int]]) -> dict:
    """Shares of answer tokens right and of answers wholly right and ended."""
    num_right = num_tokens = num_exact = 0
    for record, tokens in zip(records, answers):
        expected = [*encode(record.answer), END]
        num_exact += tokens == expected
        num_tokens += len(expected) - 1
        num_right += sum(a == b for a, b in zip(expected[:-1], tokens))
    return {
        "free_token_accuracy": round(num_right / num_tokens, 4),
        "exact": round(num_exact / len(records), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--lengths", default="1024,4096,16384,32768")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    model = Model(options.model, options.device)
    rows = []
    for length in map(int, options.lengths.split(",")):
        for task in FAMILIES:
            records = list(
                make_records(task, length, options.seed, options.count)
            )
            accuracy = score(records, model.run(records))
            rows.append(
                {
                    "task": task,
                    "length": length,
                    "seed": options.seed,
                    "n": options.count,
                    **accuracy,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
