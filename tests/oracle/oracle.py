"""The true attention mass: no paper, but the definition. Over all tokens that
the row sees p = softmax(q k / sqrt(d)); a block has the sum of its tokens',
and of the q heads that choose together."""

import math

import numpy as np

from substrate import Chosen, Row, best, logits, softmax, tokens

RELATIVE = 2e-5  # of float32 scores through an exponential


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    """Sinks and window are read besides what the scores choose."""
    block, n = p.get("block", 16), row.context
    own = (n - 1) // block
    sinks = math.ceil(p.get("sink", 4) / block)
    local = own - math.ceil(p.get("recent", 64) / block)
    forced = [b for b in range(own + 1) if b < sinks or b >= local]
    free = [b for b in range(own + 1) if b not in forced]
    count = tokens(p.get("budget", 2048), n) // block
    if unlike == "forced_inside_the_budget":
        count -= len(forced)
    z = logits(row) * (1.0 if unlike == "unscaled" else row.scale)
    mass = softmax(z)
    blocks = np.zeros((len(row.q), own + 1))
    for b in range(own + 1):
        part = mass[:, b * block : (b + 1) * block]
        blocks[:, b] = part.max(1) if unlike == "greatest" else part.sum(1)
    if p.get("heads", "kv") == "kv":
        blocks = blocks.reshape(-1, row.group, own + 1)
        blocks = blocks.max(1) if unlike == "max_over_heads" else blocks.sum(1)
    lists = [
        sorted(forced + best(x, free, count, x * RELATIVE)) for x in blocks
    ]
    return Chosen(block, lists)
