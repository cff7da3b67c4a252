"""RetroInfer (arXiv 2505.02922, 3; sheet A3): three zones.

Always read: the first `sink` tokens, the last `recent` ones before the row's
own and what follows the last full segment before them. Of the clusters before,
each q head takes a softmax of q . c / sqrt(d), c the mean of their keys, over
those with tokens; the sums over a group rank them. The best budget / cluster
are read, the next estimate / cluster count as one key c and one mean value, of
weight s, their size. Which token is in which cluster is given.
"""

import numpy as np

from substrate import Chosen, Row, best, clusters_of, softmax, tokens

SLACK = 2e-5


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    n, sinks = row.context, p.get("sink", 4)
    recent = p.get("recent", 64)
    held_back = 0 if unlike == "recent_inside_clusters" else recent
    end = max(n - 1 - held_back, 0) // p["segment"] * p["segment"]
    forced = set(range(min(sinks, n))) | set(range(end, n))
    found = clusters_of(row, p, sinks, end)
    lists, estimates = [], []
    for g, c in enumerate(found):
        count = len(c.tokens)
        read = min(tokens(p.get("budget", "1.8%"), n) // p["cluster"], count)
        more = tokens(p.get("estimate", "23.2%"), n) // p["cluster"]
        more = 0 if read == count else min(more, count - read)
        full = [i for i in range(count) if len(c.tokens[i])]
        score = np.full(count, -np.inf)
        if full:
            heads = [h for h, kv in row.heads() if kv == g]
            z = np.array([c.keys[full] @ row.q[h] for h in heads]) * row.scale
            mapped = z if unlike == "logits" else softmax(z)
            reduce = np.max if unlike == "max_over_the_group" else np.sum
            score[full] = reduce(mapped, 0)
        slack = np.where(np.isfinite(score), SLACK * np.abs(score), 0)
        picked = best(score, full, read, slack)
        both = best(score, full, read + more, slack)
        tokens_read = set(forced)
        for i in range(count) if read == count else picked:
            tokens_read |= set(c.tokens[i].tolist())
        lists.append(sorted(tokens_read))
        estimates.append(
            [] if read == count else [i for i in both if i not in picked]
        )
    return Chosen(1, lists, estimates, found)
