"""SnapKV (arXiv 2404.14469, listing 1; sheet A8): one choice, when the prompt
ends, which all generated tokens read.

The attention that the last w tokens of the prompt pay, A = softmax(q k /
sqrt(d)) with a causal mask, is summed over them for every token before them,
pooled (kernel k, stride 1, a mean counts the padding's zeros), and the best
cap - w tokens stay, with the window. Every q head for itself; `heads=kv` takes
the mean over a group before the pooling (KVCache-Factory, kvpress).

Deviation: probabilities are not rounded to the model's type.
"""

from __future__ import annotations

import numpy as np

from substrate import Chosen, Row, best, softmax, tokens

RELATIVE = 2e-5  # of float32 sums of exponentials


def observed(row: Row, window: int, unlike: str) -> np.ndarray:
    """[q_heads, tokens before the window]"""
    end = row.prompt_tokens
    first = max(end - window, 0)
    sums = np.zeros((len(row.q), first))
    for h, g in row.heads():
        for i in range(first, end):
            seen = end if unlike == "not_causal" else i + 1
            z = row.k[:seen, g] @ row.token_q[i, h] * row.scale
            sums[h] += softmax(z)[:first]
    return sums


def pooled(s: np.ndarray, kernel: int, pool: str, unlike: str) -> np.ndarray:
    if unlike == "not_pooled" or not len(s):
        return s
    pad = kernel // 2
    edge = -np.inf if pool == "max" else 0.0
    around = np.lib.stride_tricks.sliding_window_view(
        np.pad(s, pad, constant_values=edge), kernel
    )
    if pool == "max":
        return around.max(1)
    counts = np.lib.stride_tricks.sliding_window_view(
        np.pad(np.ones(len(s)), pad), kernel
    ).sum(1)
    return around.sum(1) / (counts if unlike == "padding_left_out" else kernel)


def choose(row: Row, p: dict, unlike: str = "") -> Chosen | None:
    """None: the row is one of the prompt, a question's included."""
    end = row.prompt_tokens
    if row.context - 1 < end:
        return None
    window = p.get("window", 32)
    s = observed(row, window, unlike)
    if p.get("heads", "q") == "kv":
        s = s.reshape(row.k.shape[1], row.group, -1)
        s = s.max(1) if unlike == "max_over_the_group" else s.mean(1)
    count = tokens(p.get("budget", 2048), end)
    if unlike != "window_besides":
        count -= window
    first = s.shape[1]
    later = list(range(first, row.context))
    lists = []
    for x in s:
        x = pooled(x, p.get("kernel", 5), p.get("pool", "avg"), unlike)
        free = list(range(first))
        lists.append(best(x, free, min(count, first), x * RELATIVE) + later)
    return Chosen(1, lists)
