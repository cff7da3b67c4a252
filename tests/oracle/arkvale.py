"""ArkVale (NeurIPS 2024, 3.3; sheet A13): pages by a box around their keys.

c = (max + min) / 2, r = mean_t |c - k_t| by channel; the page's digest is the
box [c - r, c + r], scored as Quest's; the mean over ALL q heads makes one
choice for the layer. 2 sink and 2 window pages (the own one is one of these).

Deviation: there a step reads all pages that are resident; here it reads its
budget, sinks and window included, so that the answer has no state.
"""

import math
from dataclasses import replace

import numpy as np

from substrate import Chosen, Row, best, blocks


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    if unlike == "unrounded":
        row = replace(row, dtype="float32")
    page = p.get("block", 32)
    own = (row.context - 1) // page
    sinks = math.ceil(p.get("sink", 64) / page)
    local = own - math.ceil(p.get("recent", 32) / page)
    forced = [b for b in range(own + 1) if b < sinks or b >= local]
    free = [b for b in range(own + 1) if b not in forced]
    count = blocks(p.get("budget", 2048), row.context, page) - len(forced)
    pages = row.context // page
    k = row.k[: pages * page].reshape(pages, page, *row.k.shape[1:])
    centre = (k.max(1) + k.min(1)) / 2
    radius = np.abs(centre[:, None] - k).mean(1)
    if unlike == "whole_cuboid":
        radius = (k.max(1) - k.min(1)) / 2
    low, high = row.kept(centre - radius), row.kept(centre + radius)
    s = np.stack(
        [
            np.maximum(row.q[h] * low[:, g], row.q[h] * high[:, g]).sum(-1)
            for h, g in row.heads()
        ]
    )
    score = s.max(0) if unlike == "max_over_the_heads" else s.mean(0)
    if unlike == "mean_over_the_group":
        score = s[: row.group].mean(0)
    picked = best(score, free, count, row.inexact)
    return Chosen(page, [sorted(forced + picked)] * row.k.shape[1])
