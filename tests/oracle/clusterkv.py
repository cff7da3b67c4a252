"""ClusterKV (arXiv 2412.03213, 3; sheet A4): clusters, cut at the budget.

Each q head ranks clusters by q . c, c the mean of their keys, and reads them
until it has B tokens with the first `sink` ones; of the last cluster the first
tokens. Which token is in which cluster is given: ours are those of a segment,
theirs of the whole prompt. What follows the last full segment before the row's
own token is read besides.
"""

import numpy as np

from substrate import Chosen, Narrow, Row, clusters_of, tokens

SLACK = 1e-5


def ranked(score: np.ndarray, sizes: list[int], wanted: int) -> list[int]:
    """Clusters in the order that they are read in, until `wanted` tokens."""
    order = sorted(range(len(score)), key=lambda c: (-score[c], c))
    order = [c for c in order if sizes[c]]
    end, total = 0, 0
    while end < len(order) and total < wanted:
        total += sizes[order[end]]
        end += 1
    # Whole, cut, and left out: no rounding may move one to another part.
    s = score[order]
    parts = [range(end - 1), range(end - 1, end), range(end, len(order))]
    for a, part in enumerate(parts):
        for other in parts[a + 1 :]:
            for i in part:
                for j in other:
                    if 0 < s[i] - s[j] < SLACK * (1 + abs(s[i])):
                        raise Narrow(f"clusters {order[i]} and {order[j]}")
    return order[:end]


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    n, sinks = row.context, p.get("sink", 16)
    end = max(n - 1, 0) // p["segment"] * p["segment"]
    if unlike == "own_token_in_a_cluster":
        end = n // p["segment"] * p["segment"]
    wanted = tokens(p.get("budget", 1024), n) - min(sinks, n)
    if unlike == "sinks_besides":
        wanted += min(sinks, n)
    forced = set(range(min(sinks, n))) | set(range(end, n))
    lists = []
    found = clusters_of(row, p, sinks, end)
    groups = [[h] for h in range(len(row.q))]
    if p.get("heads", "q") == "kv":
        groups = [
            [h for h, g in row.heads() if g == kv] for kv in range(len(found))
        ]
    for heads in groups:
        c = found[heads[0] // row.group]
        read = set(forced)
        if c.tokens and wanted > 0:
            keys = c.keys
            if unlike == "cosine":
                keys = keys / (np.linalg.norm(keys, axis=1)[:, None] + 1e-30)
            score = np.max([keys @ row.q[h] for h in heads], 0)
            if unlike == "mean_over_the_group":
                score = np.mean([keys @ row.q[h] for h in heads], 0)
            left = wanted
            for i in ranked(score, [len(t) for t in c.tokens], wanted):
                part = c.tokens[i] if unlike == "not_cut" else c.tokens[i][:left]
                read |= set(part.tolist())
                left -= len(part)
        lists.append(sorted(read))
    return Chosen(1, lists)
