"""Quest (arXiv 2406.10774, 3.2; sheet A1): pages by an upper bound.

s(q, page) = sum_c max(q_c m_c, q_c M_c), m and M the least and greatest of
each channel of the page's keys after RoPE. The kernels' rule: of K = B / P
pages the row's own, full or not, is one, and is not scored; each q head
chooses for itself. `heads=kv` is vortex's gqa_quest (sheet A19): the greatest
bound of a group.

Deviation: sinks and a window may be asked for, inside the budget.
"""

import math

import numpy as np

from substrate import (
    Chosen,
    Row,
    best,
    blocks,
    e4m3_scale,
    logits,
    round_to_e4m3,
)


def bounds(row: Row, page: int, pages: int) -> np.ndarray:
    """[q_heads, pages], of complete pages."""
    k = row.k[: pages * page].reshape(pages, page, *row.k.shape[1:])
    least, greatest = k.min(1), k.max(1)
    if row.fp8:
        both = np.concatenate([least, greatest], -1)
        scale = e4m3_scale(both)
        least = round_to_e4m3(least, "down", scale)
        greatest = round_to_e4m3(greatest, "up", scale)
    else:
        least, greatest = row.kept(least), row.kept(greatest)
    s = np.stack(
        [
            np.maximum(row.q[h] * least[:, g], row.q[h] * greatest[:, g]).sum(
                -1
            )
            for h, g in row.heads()
        ]
    )
    # What the paper rests on.
    z = logits(row)[:, : pages * page].reshape(len(row.q), pages, page)
    assert (s >= z.max(-1)).all(), "the bound is none"
    return s


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    page = p.get("block", 16)
    own = (row.context - 1) // page
    sinks = math.ceil(p.get("sink", 0) / page)
    local = own - math.ceil(p.get("recent", 0) / page)
    forced = [b for b in range(own + 1) if b < sinks or b >= local]
    free = [b for b in range(own + 1) if b not in forced]
    count = blocks(p.get("budget", 2048), row.context, page) - len(forced)
    if unlike == "own_page_besides":
        count += 1
    s = bounds(row, page, row.context // page)
    if unlike == "greatest_key_alone":
        k = row.k[: s.shape[1] * page].reshape(-1, page, *row.k.shape[1:])
        s = np.stack([k.max(1)[:, g] @ row.q[h] for h, g in row.heads()])
    if p.get("heads", "q") == "kv":
        s = s.reshape(row.k.shape[1], row.group, s.shape[1])
        s = s.mean(1) if unlike == "mean_over_the_group" else s.max(1)
    return Chosen(page, [sorted(forced + best(x, free, count)) for x in s])
