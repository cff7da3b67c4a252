"""E 7: one table of logits for which six ways of reducing heads choose six
different first blocks. Blocks are of equal keys, so that a block's mean key
scores what each of its keys does.

    softmax then max      ShadowKV        over the group
    softmax then sum      RetroInfer      over the group
    mean of logits        Kinetics        over the group
    mean over all heads   ArkVale
    max over all heads    OmniKV
    none                  Quest, MagicPIG: q head 0 alone
"""

from __future__ import annotations

import numpy as np

from substrate import softmax

GROUP = 3  # q heads of each of two KV heads
BLOCKS = 8


def first_blocks(z: np.ndarray) -> list[int] | None:
    """What each way chooses for the first list; None where it is narrow.

    z: [2 * GROUP, BLOCKS], scaled.
    """
    p = softmax(z)
    ways = [
        p[:GROUP].max(0),
        p[:GROUP].sum(0),
        z[:GROUP].mean(0),
        z.mean(0),
        z.max(0),
        z[0],
    ]
    tops = []
    for scores in ways:
        order = np.argsort(-scores, kind="stable")
        if scores[order[0]] - scores[order[1]] < 1e-3:
            return None
        tops.append(int(order[0]))
    return tops


def fixture() -> dict:
    """The first table of whole numbers that tells all six apart."""
    random = np.random.Generator(np.random.PCG64(1))
    while True:
        z = random.integers(-4, 5, size=(2 * GROUP, BLOCKS))
        tops = first_blocks(z.astype(np.float64))
        if tops is not None and len(set(tops)) == len(tops):
            return {"group": GROUP, "logits": z.tolist(), "first": tops}
