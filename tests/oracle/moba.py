"""MoBA (arXiv 2502.13189, eq. 5 and 6; the naive form).

gate = q . mean(K_chunk), unscaled, each q head for itself, decode and prompt
alike. The row's own chunk is always attended and counts among the topk;
candidates are the chunks before it, all complete.

The mean is kept in the cache's type. topk = 1 reads the own chunk alone, as
the naive form does (the efficient one then returns full attention).
"""

from dataclasses import replace

import numpy as np

from substrate import Chosen, Row, best, blocks


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    if unlike == "unrounded":
        row = replace(row, dtype="float32")
    chunk = p.get("block", 4096)
    topk = blocks(p.get("budget", 48 * 1024), row.context, chunk)
    own = (row.context - 1) // chunk
    k = row.k[: own * chunk].reshape(own, chunk, *row.k.shape[1:])
    centroid = row.kept(k.mean(1))
    gate = np.stack([centroid[:, g] @ row.q[h] for h, g in row.heads()])
    if unlike == "group_shared":
        shared = gate.reshape(row.k.shape[1], row.group, own).sum(1)
        gate = shared.repeat(row.group, axis=0)
    others = topk if unlike == "own_chunk_besides" else topk - 1
    lists = [best(s, list(range(own)), others) + [own] for s in gate]
    return Chosen(chunk, lists)
