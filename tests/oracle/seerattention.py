"""SeerAttention-R (arXiv 2506.08889, 3; sheet A5): what a gate says of blocks.

Of a block, before RoPE, the greatest, least and mean of each channel, side by
side, times W_k of the KV head: its key; of a row the q of a group, before RoPE,
side by side, times W_q: the KV head's query. Both are RMS-normalised where the
gates have norms, and turned by RoPE: the row by its position, a block by its
first token's. softmax(q k / sqrt(d)) over the blocks; a block that is not full
has a key of zeros. The best `budget` / block blocks, or all above the
threshold; the own block besides.

Keys are cached after RoPE, so those before it are these turned back.
"""

import math
from dataclasses import replace

import numpy as np

from substrate import Chosen, Narrow, Row, best, round_to, softmax, tokens

EPSILON = 1e-6
SLACK = 2e-5  # of a score, of float32 sums


def turn(x: np.ndarray, position: np.ndarray, back: bool = False) -> np.ndarray:
    """RoPE over the last axis, whose pair i turns by 2^-i a token."""
    half = x.shape[-1] // 2
    angle = position[..., None] * 2.0 ** -np.arange(half)
    cos, sin = np.cos(angle), np.sin(angle) * (-1 if back else 1)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def norm(x: np.ndarray, row: Row, which: int) -> np.ndarray:
    if row.gates.norms is None:
        return x
    scale = np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON)
    return x / scale * row.gates.norms[which]


def scores(row: Row, block: int, unlike: str) -> np.ndarray:
    """q k / sqrt(d) of the full blocks: [kv_heads, blocks]."""
    n, g, d = row.context // block, row.k.shape[1], row.k.shape[2]
    at = np.arange(n * block)
    k = row.k[: n * block]
    if unlike != "keys_after_rope":
        k = turn(k, at[:, None], back=True)
    k = k.reshape(n, block, g, d)
    pools = [k.max(1), k.min(1), k.mean(1)]
    if unlike == "mean_first":
        pools = [pools[2], pools[0], pools[1]]
    pooled = np.concatenate(pools, -1)  # [n, g, 3d]
    keys = norm(np.einsum("nhi,hio->nho", pooled, row.gates.k), row, 1)
    first = np.arange(n) * block
    if unlike == "turned_by_the_last_token":
        first = first + block - 1
    keys = row.kept(round_to(turn(keys, first[:, None]), "float32"))
    q = row.q if unlike == "q_after_rope" else row.q_pre
    query = np.einsum("hi,hio->ho", q.reshape(g, -1), row.gates.q)
    query = turn(norm(query, row, 0), np.array([row.context - 1]))
    return np.einsum("ho,nho->hn", query, keys) * d**-0.5


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    block = p.get("block", 64)
    own = (row.context - 1) // block
    lists = []
    for z in scores(row, block, unlike):
        free = list(range(own))
        slack = SLACK * (1 + np.abs(z))
        if row.dtype == "bfloat16":
            # A float32 sum may round a key to its other neighbour.
            slack = 20 * slack
        if not p.get("threshold"):
            count = tokens(p.get("budget", 2048), row.context) // block
            if unlike == "own_block_inside":
                count -= 1
            lists.append(sorted([*best(z, free, count, slack), own]))
            continue
        open_block = row.context % block != 0 and unlike != "open_left_out"
        share = softmax(np.append(z, 0.0) if open_block else z)
        off = np.abs(share / p["threshold"] - 1)
        if len(slack) and (off[: own] < 4 * slack.max()).any():
            raise Narrow("at the threshold")
        picked = [b for b in free if share[b] > p["threshold"]]
        lists.append([*picked, own])
    return Chosen(block, lists)
