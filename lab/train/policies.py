"""Whether the tasks tell policies of sparse attention apart, in PyTorch.

    python3 -m lab.train.policies lab/models/winnow-lab --json FILE

A document's context is read densely. Its question and answer (teacher-forced)
then see, in every layer, their own tokens and those blocks of the context that
the policy picks for each of their rows and each KV head:

- sink + recent: the first block and the last ones.
- mean: the greatest product of a query of the group with the block's mean key.
- Quest: the greatest bound on such a product, from the least and the greatest
  of each key channel (Tang et al. 2024).
- oracle: the greatest attention mass, summed over the group.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from lab.tasks.record import records_of
from lab.tasks.words import BEGIN, encode
from lab.train.model import (
    LabModel,
    after_attention,
    before_attention,
)
from lab.train.train import RECIPES

POLICIES = ("sink + recent", "mean", "Quest", "oracle")
QUESTIONS_A_DOCUMENT = 4


@dataclass
class Keys:
    """A layer's context: k, v [S, kv_heads, d]; of each block of it the
    least, greatest and mean key, all [blocks, kv_heads, d]."""

    k: Tensor
    v: Tensor
    least: Tensor
    greatest: Tensor
    mean: Tensor


def summarize(k: Tensor, v: Tensor, block: int) -> Keys:
    """k, v: [S, kv_heads, d]; S is a multiple of the block."""
    blocks = k.float().unflatten(0, (-1, block))
    return Keys(k, v, blocks.amin(1), blocks.amax(1), blocks.mean(1))


def block_scores(policy: str, q: Tensor, keys: Keys, mass: Tensor) -> Tensor:
    """q: [kv_heads, group, T, d], mass: [kv_heads, T, blocks], the oracle's
    -> [kv_heads, T, blocks]"""
    if policy == "oracle":
        return mass
    num_blocks = mass.shape[-1]
    if policy == "sink + recent":
        scores = torch.arange(num_blocks, device=q.device).float()
        scores[0] = num_blocks
        return scores.expand_as(mass)
    if policy == "mean":
        scores = torch.einsum("hgtd,bhd->hgtb", q, keys.mean)
    else:
        scores = torch.einsum("hgtd,bhd->hgtb", q.clamp(min=0), keys.greatest)
        scores += torch.einsum("hgtd,bhd->hgtb", q.clamp(max=0), keys.least)
    return scores.amax(1)


def attend(
    q: Tensor, k: Tensor, v: Tensor, keys: Keys, policy: str, num_blocks: int
) -> Tensor:
    """q: [T, heads, d], k, v: [T, kv_heads, d] -> [T, heads * d]"""
    rows, kv_heads = k.shape[:2]
    context = keys.k.shape[0]
    q = q.float().unflatten(1, (kv_heads, -1)).permute(1, 2, 0, 3)
    all_k = torch.cat((keys.k, k)).float()
    all_v = torch.cat((keys.v, v)).float()
    scores = torch.einsum("hgtd,shd->hgts", q, all_k) * q.shape[-1] ** -0.5
    later = torch.ones(rows, rows, device=q.device, dtype=torch.bool).triu(1)
    scores[..., context:].masked_fill_(later, float("-inf"))
    if policy != "dense":
        mass = scores.softmax(-1)[..., :context].sum(1)
        mass = mass.unflatten(-1, (keys.mean.shape[0], -1)).sum(-1)
        num_blocks = min(num_blocks, mass.shape[-1])
        best = block_scores(policy, q, keys, mass).topk(num_blocks, -1).indices
        is_picked = torch.zeros_like(mass, dtype=torch.bool)
        is_picked.scatter_(-1, best, True)
        block = context // mass.shape[-1]
        is_left = ~is_picked.repeat_interleave(block, -1)
        scores[..., :context].masked_fill_(is_left[:, None], float("-inf"))
    out = torch.einsum("hgts,shd->thgd", scores.softmax(-1), all_v)
    return out.flatten(1).bfloat16()


class Reader:
    """The model over one document at a time."""

    def __init__(self, model: LabModel, block: int) -> None:
        self.model, self.block = model, block
        self.context: list[Keys] = []
        self.length = 0

    def _layers(self, tokens: list[int], first: int, attention) -> Tensor:
        """The last hidden states. -> [T, hidden]"""
        device = self.model.norm.weight.device
        x = self.model.embed_tokens(torch.tensor(tokens, device=device))
        positions = torch.arange(first, first + len(tokens), device=device)
        cos, sin = self.model.rope(positions)
        for index, layer in enumerate(self.model.layers):
            size = self.model.shape.head_dim
            q, k, v = before_attention(layer, x, cos, sin, size)
            x = after_attention(layer, x, attention(index, q, k, v))
        return x

    def read(self, tokens: list[int]) -> None:
        """Densely; what is left of a last block belongs to the questions."""
        self.context, self.length = [], len(tokens)

        def dense(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.context.append(summarize(k, v, self.block))
            q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
            out = F.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=True
            )
            return out[0].transpose(0, 1).flatten(1)

        self._layers(tokens, 0, dense)

    def choices(self, tokens: list[int], policy: str, budget: int) -> list[int]:
        """What follows each of the tokens behind the context."""

        def sparse(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys = self.context[index]
            return attend(q, k, v, keys, policy, budget // self.block)

        x = self._layers(tokens, self.length, sparse)
        h = self.model.norm(x).bfloat16()
        logits = F.linear(h, self.model.embed_tokens.weight.bfloat16())
        return logits.argmax(-1).tolist()


def count_right(
    reader: Reader, task: str, options: argparse.Namespace
) -> dict[tuple[str, int], float]:
    settings = [("dense", 0)]
    settings += [(p, b) for b in options.budgets for p in POLICIES]
    right = dict.fromkeys(settings, 0)
    num_tokens = 0
    for index in range(options.count // QUESTIONS_A_DOCUMENT):
        records = list(
            records_of(
                task,
                options.length,
                options.seed,
                index,
                QUESTIONS_A_DOCUMENT,
            )
        )
        context = [BEGIN, *encode(records[0].context)]
        whole = len(context) // reader.block * reader.block
        reader.read(context[:whole])
        for record in records:
            question = context[whole:] + encode(record.question)
            answer = encode(record.answer)
            first = len(question) - 1
            num_tokens += len(answer)
            for setting in settings:
                tokens = reader.choices(question + answer, *setting)
                got = tokens[first : first + len(answer)]
                right[setting] += sum(a == b for a, b in zip(got, answer))
    return {setting: count / num_tokens for setting, count in right.items()}


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--recipe", default="winnow-lab")
    parser.add_argument("--tasks", default="multikey,chain")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--budgets", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--block", type=int, default=16)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=3000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    model = LabModel(RECIPES[options.recipe].shape, False)
    tensors = load_file(options.model / "model.safetensors")
    model.load_state_dict(
        {name.removeprefix("model."): t for name, t in tensors.items()}
    )
    reader = Reader(model.to(options.device), options.block)
    rows = []
    for task in options.tasks.split(","):
        shares = count_right(reader, task, options)
        for (policy, budget), share in shares.items():
            rows.append(
                {
                    "task": task,
                    "length": options.length,
                    "block": options.block,
                    "policy": policy,
                    "budget": budget,
                    "token_accuracy": round(share, 4),
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
