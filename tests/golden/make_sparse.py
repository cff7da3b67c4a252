"""Makes sparse/: golden logits and greedy tokens of MiniCPM4 with
sparse_config, by minicpm4_sparse.py in float64.

    python3 -m venv venv && venv/bin/pip install numpy==2.4.6
    venv/bin/python make_sparse.py           writes sparse/
    venv/bin/python make_sparse.py --check   makes all again and compares

The model is that of models/minicpm4_native, whose weights follow from names
and shapes; README.md says what the files hold. The tokens of a case come from
the first seed for which float32 cannot choose other blocks, nor draw another
greedy token.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import minicpm4_sparse
import tiny_weights

HERE = Path(__file__).resolve().parent
LOGIT_IDS = [1, 56, 111]
GREEDY_MARGIN = 0.01
_PUBLISHED_LIKE = {
    "kernel_size": 8,
    "kernel_stride": 4,
    "init_blocks": 1,
    "block_size": 32,
    "window_size": 32,
    "topk": 3,
    "use_nope": False,
    "dense_len": 144,
}
_SPARSE_ALWAYS = _PUBLISHED_LIKE | {
    "kernel_size": 16,
    "kernel_stride": 8,
    "init_blocks": 0,
    "block_size": 64,
    "window_size": 0,
    "topk": 2,
    "dense_len": -1,
}


@dataclass(frozen=True)
class Case:
    """Tokens [0, prompt) are the prompt, [prompt, given) are given too, the
    rest up to `total` are drawn greedily."""

    name: str
    sparse: dict[str, Any]
    prompt: int
    given: int
    total: int


CASES = [
    # One token below dense_len: the prompt is dense, what follows is not.
    Case("dense_prompt", _PUBLISHED_LIKE, 143, 143, 170),
    Case("at_dense_len", _PUBLISHED_LIKE, 144, 144, 166),
    # 3 modulo 4, where Hugging Face's kernel sees one window fewer.
    Case("three_of_four", _PUBLISHED_LIKE, 203, 203, 211),
    # Every row of a prompt, then across a block's end.
    Case("always", _SPARSE_ALWAYS, 250, 250, 262),
    # Every row a generated one.
    Case("decode", _SPARSE_ALWAYS, 1, 210, 210),
    Case("decode_crossing", _PUBLISHED_LIKE, 20, 200, 200),
]


def weights_of(config: dict[str, Any]) -> minicpm4_sparse.Weights:
    """The tensors of models/minicpm4_native, in float64."""
    path = HERE / "models/minicpm4_native/tensors.json"
    shapes = json.loads(path.read_text())["shapes"]
    assert shapes["lm_head.weight"] == [
        config["vocab_size"],
        config["hidden_size"],
    ]
    return {
        name: tiny_weights.make_tensor(name, shape).astype(np.float64)
        for name, shape in shapes.items()
    }


def run(case: Case, config: dict, weights, seed: int):
    """(tokens, logits of all rows); raises Narrow."""
    h = tiny_weights.hashes(f"sparse:{case.name}:{seed}", case.given)
    tokens = [int(t) for t in (h >> np.uint64(40)) % np.uint64(160)]
    while True:
        logits = minicpm4_sparse.logits(config, weights, tokens, case.prompt)
        if len(tokens) == case.total:
            return tokens, logits
        second, first = np.sort(logits[-1])[-2:]
        if first - second < GREEDY_MARGIN:
            raise minicpm4_sparse.Narrow
        tokens.append(int(logits[-1].argmax()))


def make(case: Case, config: dict, weights) -> tuple[dict, np.ndarray]:
    """A case with the first seed that is sharp enough."""
    for seed in range(1, 1000):
        try:
            tokens, logits = run(case, config, weights, seed)
        except minicpm4_sparse.Narrow:
            continue
        dense = config | {"sparse_config": case.sparse | {"dense_len": 9999}}
        other = minicpm4_sparse.logits(dense, weights, tokens, case.prompt)
        print(
            f"{case.name}: seed {seed}, dense attention is off by "
            f"{np.abs(other - logits).max():.2f}"
        )
        made = {
            "name": case.name,
            "sparse_config": case.sparse,
            "num_prompt_tokens": case.prompt,
            "num_given_tokens": case.given,
            "tokens": tokens,
        }
        return made, logits[:, LOGIT_IDS]
    sys.exit(f"{case.name}: no seed below 1000")


def main() -> int:
    """Writes or checks; 1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    options = parser.parse_args()
    native = HERE / "models/minicpm4_native/config.json"
    config = json.loads(native.read_text())
    weights = weights_of(config)
    made = [
        make(case, config | {"sparse_config": case.sparse}, weights)
        for case in CASES
    ]
    lines = ",\n".join(json.dumps(case) for case, _ in made)
    text = f'{{"logit_ids": {LOGIT_IDS}, "cases": [\n{lines}\n]}}\n'
    logits = np.concatenate([rows for _, rows in made]).astype("<f4")
    folder = HERE / "sparse"
    if not options.check:
        folder.mkdir(exist_ok=True)
        (folder / "cases.json").write_text(text)
        (folder / "logits.bin").write_bytes(logits.tobytes())
        return 0
    old = np.fromfile(folder / "logits.bin", dtype="<f4").reshape(logits.shape)
    same = (folder / "cases.json").read_text() == text
    same = same and np.abs(old - logits).max() <= options.tolerance
    print("sparse/ is as made" if same else "sparse/ differs")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
