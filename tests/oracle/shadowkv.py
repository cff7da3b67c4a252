"""ShadowKV (arXiv 2410.21465, 4.1, algorithms 1 and 2; sheet A2), with K and V
themselves in place of their low ranks.

Of the context's S tokens, S // 8 - 4 chunks of 8 have landmarks, the means of
their keys after RoPE. The 48 chunks of which some key has the least cosine
with its landmark are outliers: they are read always, and leave the landmarks.
A row scores the rest: softmax over landmarks of q . landmark / sqrt(d) for each
head, the greatest of a group. Outliers, the context's last chunks and all that
follows are read besides.

Deviation: scores are not rounded to the model's type.
"""

from __future__ import annotations

import math

import numpy as np

from substrate import Chosen, Row, best, softmax, tokens

RELATIVE = 2e-5  # of float32 scores through an exponential
COSINE = 1e-6  # of float32's


def landmarks(row: Row, block: int, count: int) -> np.ndarray:
    """[chunks, kv_heads, dim]"""
    k = row.k[: count * block]
    return row.kept(k.reshape(count, block, *k.shape[1:]).mean(1))


def least_cosines(
    row: Row, marks: np.ndarray, block: int, unlike: str
) -> np.ndarray:
    """[chunks, kv_heads]"""
    count = len(marks)
    k = row.k[: count * block].reshape(count, block, *row.k.shape[1:])
    norms = np.linalg.norm(k, axis=-1) * np.linalg.norm(marks, axis=-1)[:, None]
    cosines = (k * marks[:, None]).sum(-1) / np.maximum(norms, 1e-16)
    if unlike == "mean_cosine":
        return cosines.mean(1)
    return cosines.max(1) if unlike == "greatest_cosine" else cosines.min(1)


def choose(row: Row, p: dict, unlike: str = "") -> Chosen | None:
    """None: the row is one of the context."""
    end = row.context_tokens
    if row.context - 1 < end:
        return None
    block = p.get("block", 8)
    local = math.ceil(p.get("recent", 32) / block)
    whole = row.context if unlike == "local_moves_on" else end
    count = max(whole // block - local, 0)
    later = list(range(count, (row.context - 1) // block + 1))
    num_outliers = min(tokens(p.get("outliers", 384), end) // block, count)
    marks = landmarks(row, block, count)
    cosines = least_cosines(row, marks, block, unlike)
    z = np.stack([marks[:, g] @ row.q[h] for h, g in row.heads()]) * row.scale
    lists = []
    for g in range(row.k.shape[1]):
        everything = list(range(count))
        outliers = best(-cosines[:, g], everything, num_outliers, COSINE)
        free = [b for b in everything if b not in outliers]
        heads = z[g * row.group : (g + 1) * row.group]
        if unlike == "outliers_in_the_softmax":
            score = softmax(heads).max(0)[free]
        elif unlike == "max_before_softmax":
            score = heads.max(0)[free]
        elif free:
            mass = softmax(heads[:, free])
            score = (
                mass.sum(0) if unlike == "sum_over_the_group" else mass.max(0)
            )
        else:
            score = np.zeros(0)
        chosen = best(
            score,
            list(range(len(free))),
            min(tokens(p.get("budget", 2048), row.context) // block, len(free)),
            np.abs(score) * RELATIVE,
        )
        picked = [free[i] for i in chosen]
        lists.append(sorted(outliers + picked) + later)
    return Chosen(block, lists)
