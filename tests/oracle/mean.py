"""Block top-k of Kinetics (arXiv 2506.05333; sheet A18): the mean over the
group of the true logits, then their mean over a block.

Deviations: blocks are counted from token 0, not from behind the sinks, and a
block that a sink or the window touches is read whole. A block's mean key is
kept in the cache's type, so that the mean of logits becomes q . mean(k).
"""

import math
from dataclasses import replace

import numpy as np

from substrate import Chosen, Row, best, logits, tokens


def block_logits(row: Row, block: int, complete: int) -> np.ndarray:
    """Mean of each q head's logits over each complete block."""
    if row.dtype == "float32" and not row.fp8:
        z = logits(row)[:, : complete * block]
        return z.reshape(len(row.q), complete, block).mean(-1)
    k = row.k[: complete * block]
    centroid = row.kept(k.reshape(complete, block, *k.shape[1:]).mean(1))
    return np.stack([centroid[:, g] @ row.q[h] for h, g in row.heads()])


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    """Sinks and window are read besides what the scores choose."""
    if unlike == "unrounded":
        row = replace(row, dtype="float32", fp8=False)
    block, n = p.get("block", 32), row.context
    own = (n - 1) // block
    sinks = math.ceil(p.get("sink", 4) / block)
    local = own - math.ceil(p.get("recent", 64) / block)
    forced = [b for b in range(own + 1) if b < sinks or b >= local]
    free = [b for b in range(own + 1) if b not in forced]
    count = tokens(p.get("budget", 2048), n) // block
    if unlike == "forced_inside_the_budget":
        count -= len(forced)
    z = block_logits(row, block, n // block)
    lists = []
    for g in range(row.k.shape[1]):
        heads = z[g * row.group : (g + 1) * row.group]
        if unlike == "max_over_the_group":
            score = heads.max(0)
        elif unlike == "mean_over_all_heads":
            score = z.mean(0)
        else:
            score = heads.mean(0)
        picked = best(score, free, count, row.inexact)
        lists.append(sorted(forced + picked))
    return Chosen(block, lists)
