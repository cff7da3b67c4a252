"""Greedy continuations by transformers, for Winnow to be held against.

    python3 -m lab.train.make_golden lab/models/winnow-lab \
        --out tests/golden/winnow_lab_greedy.json

Prompts are records of lab/make_tasks, named by (task, length, seed, index);
a CRC-32 of the text shows if they ever drift. Float32 has no TF32; --attention
sdpa, in place of eager attention, is the same sums and ten times as fast where
there is no GPU. Margins are the differences of the two highest logits at each token;
those of bfloat16 are differences of bf16 numbers, so coarse.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache


from lab.tasks.record import make_record
from lab.tasks.words import BEGIN, END, encode

SEED = 2000
TASKS = ("niah", "multikey", "chain", "vt")
MOST_TOKENS = 24
CHUNK_TOKENS = 1024  # Bounds the memory of eager attention at 32K.


def prompts_to_make(short: int, long: int) -> list[tuple[str, int, int]]:
    """(task, length, index): `short` of 1K to 4K a task, `long` of 32K."""
    lengths = (1024, 2048, 3072, 4096)
    made = [
        (task, lengths[index % 4], index)
        for task in TASKS
        for index in range(short)
    ]
    return made + [(TASKS[i % 4], 32768, i // 4) for i in range(long)]


@torch.inference_mode()
def continue_greedily(
    model: torch.nn.Module, prompt: list[int]
) -> tuple[list[int], list[float]]:
    """Up to MOST_TOKENS tokens, the end token included, and their margins."""
    device = next(model.parameters()).device
    cache = DynamicCache(config=model.config)
    tokens: list[int] = []
    margins: list[float] = []
    waiting = prompt
    while True:
        for first in range(0, len(waiting), CHUNK_TOKENS):
            chunk = waiting[first : first + CHUNK_TOKENS]
            logits = model(
                torch.tensor([chunk], device=device),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[0, -1]
        top = logits.float().topk(2)
        tokens.append(int(logits.argmax()))
        margins.append(round(float(top.values[0] - top.values[1]), 4))
        if tokens[-1] == END or len(tokens) == MOST_TOKENS:
            return tokens, margins
        waiting = tokens[-1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--short", type=int, default=16, help="a task")
    parser.add_argument("--long", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--attention", choices=["eager", "sdpa"], default="eager"
    )
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    models = {
        dtype: AutoModelForCausalLM.from_pretrained(
            options.model, dtype=dtype, attn_implementation=options.attention
        ).to(options.device)
        for dtype in (torch.float32, torch.bfloat16)
    }
    entries = []
    for task, length, index in prompts_to_make(options.short, options.long):
        record = make_record(task, length, SEED, index)
        prompt = tokenizer(record.prompt).input_ids
        assert prompt == [BEGIN, *encode(record.prompt)]
        entry = {
            "task": task,
            "length": length,
            "seed": SEED,
            "index": index,
            "prompt_tokens": len(prompt),
            "prompt_crc32": zlib.crc32(record.prompt.encode()),
        }
        for prefix, model in zip(("", "bfloat16_"), models.values()):
            tokens, margins = continue_greedily(model, prompt)
            entry[f"{prefix}token_ids"] = tokens
            entry[f"{prefix}margins"] = margins
        right = entry["token_ids"] == [*encode(record.answer), END]
        same = entry["token_ids"] == entry["bfloat16_token_ids"]
        print(task, length, index, f"right {right} same {same}", flush=True)
        entries.append(entry)
    lines = ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries)
    options.out.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
