"""InfLLM-v2 (arXiv 2509.24663; modeling_minicpm.py of MiniCPM4).

ck1[j] = mean K[j st .. j st + ks), ck2 the same four times as wide and far
apart; S_j = sum over the group of exp(s q ck1_j - z), z = log sum exp of
s q ck2, both over the windows that end at the row or before; a block's score
is the greatest S_j of the windows [R b - 1, R b + R). Read are the first
blocks, the row's own, the local ones before it, and the best of the rest.

Deviations, on purpose (numbers: the list N in README.md; HF is that file):
 4   exact visibility in every row; HF sees one window fewer in prompts whose
     length is 15 modulo 16 (63 modulo 64 for the coarse windows).
 13  a block without a visible window is never chosen; HF drops what lies
     behind the row only after choosing, so that it can cost a place.
 14  a prompt is sparse where its whole length >= dense_len, as one HF call
     decides; a generated row where position + 1 >= dense_len.
 16  groups of less than 16 heads as they are; HF repeats heads to 16, which
     multiplies every S_j alike.
"""

import math
from dataclasses import replace

import numpy as np

from substrate import Chosen, Row, blocks, certain, round_to

RELATIVE = 3e-5  # of float32 scores through two exponentials


def compressed(row: Row, kernel: int, stride: int, lag: int) -> np.ndarray:
    """Means of the windows that end at the row or before: [n, kv, dim]."""
    n = max(0, (row.context - lag - kernel) // stride + 1)
    at = np.arange(n)[:, None] * stride + np.arange(kernel)
    return row.kept(row.k[at].mean(1)) if n else row.k[:0]


def window_scores(row: Row, p: dict, unlike: str) -> np.ndarray:
    """S [kv_heads, windows], before it is rounded."""
    kernel, stride = p.get("kernel", 32), p.get("stride", 16)
    lag = int(unlike == "own_token_left_out")
    if unlike == "unrounded_means":
        row = replace(row, dtype="float32")
    ck1 = compressed(row, kernel, stride, lag)
    ck2 = compressed(row, 4 * kernel, 4 * stride, lag)
    if unlike == "normalised_by_itself":
        ck2 = ck1
    s = np.zeros((row.k.shape[1], len(ck1)))
    for h, g in row.heads():
        if len(ck2) == 0:
            continue
        coarse = row.scale * (ck2[:, g] @ row.q[h])
        z = coarse.max() + math.log(np.exp(coarse - coarse.max()).sum())
        a = np.exp(row.scale * (ck1[:, g] @ row.q[h]) - z)
        s[g] = np.maximum(s[g], a) if unlike == "max_of_group" else s[g] + a
    return s


def choose(row: Row, p: dict, unlike: str = "") -> Chosen | None:
    length = row.prompt_tokens if row.is_prompt else row.context
    dense_len = p.get("dense_len", 8192) + (unlike == "dense_at_dense_len")
    if length < dense_len:
        return None
    block, own = p.get("block", 64), (row.context - 1) // p.get("block", 64)
    init = math.ceil(p.get("sink", 64) / block)
    local = math.ceil(p.get("recent", 2048) / block)
    if unlike == "own_block_is_local":
        local -= 1
    topk = blocks(p.get("budget", 6144), row.context, block)
    if unlike == "local_besides_topk":
        topk += local
    forced = [b for b in range(own + 1) if b < init or b >= own - local]
    free = [b for b in range(own + 1) if b not in forced]
    ratio = block // p.get("stride", 16)
    left = 0 if unlike == "pooled_without_the_left" else 1
    exact = window_scores(row, p, unlike)
    lists = []
    for s in exact:
        bound = []
        for x in (s, s * (1 - RELATIVE), s * (1 + RELATIVE)):
            if row.dtype == "bfloat16" and unlike != "unrounded":
                x = round_to(x, "bfloat16")
            pooled = np.full(own + 1, -math.inf)
            for b in range(own + 1):
                of_block = x[max(0, ratio * b - left) : ratio * b + ratio]
                if len(of_block):
                    pooled[b] = of_block.max()
            bound.append(pooled)
        lists.append(sorted(forced + certain(*bound, free, topk - len(forced))))
    return Chosen(block, lists)
