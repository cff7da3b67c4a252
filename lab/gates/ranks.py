"""Where scores of summaries rank what a row attends to: dense rows of a
document, and the choices of one layer at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.gates.attention import Reader, softmax

SINKS, RECENT = 4, 64


@dataclass
class Turned:
    """One layer of one document, behind RoPE; q is scaled."""

    q: np.ndarray  # [kv_heads, group, rows, d]
    k: np.ndarray  # [kv_heads, n, d]
    shares: np.ndarray  # [kv_heads, group, rows, n]: attention


class RankReader(Reader):
    """Keeps what choices are made of."""

    def _see(self, q, k, turned_q, turned_k, first_row) -> Turned:
        heads, n, dim = turned_q.shape
        shape = (len(k), self.group, n - first_row, dim)
        of_rows = turned_q[:, first_row:].reshape(shape)
        z = of_rows @ turned_k[:, None].swapaxes(-1, -2)
        later = np.arange(n) > np.arange(first_row, n)[:, None]
        return Turned(of_rows, turned_k,
                      softmax(np.where(later, np.float32(-np.inf), z)))


def mean_scores(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """q: [group, d]; keys: [blocks, tokens, d] -> [group, blocks]"""
    return q @ keys.mean(1).T


def bound_scores(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The same of Quest's bounds."""
    least, most = keys.min(1), keys.max(1)
    return np.minimum(q, 0) @ least.T + np.maximum(q, 0) @ most.T


def best_keys(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The same of a block's best key: no bound is below."""
    return (q @ keys.reshape(-1, keys.shape[-1]).T).reshape(
        len(q), *keys.shape[:2]).max(-1)


def rank_of(scores: np.ndarray, wanted: int) -> int:
    """How many stand before, ties to the lowest. scores: [blocks]"""
    ahead = scores > scores[wanted]
    ahead[:wanted] |= scores[:wanted] == scores[wanted]
    return int(ahead.sum())


def cluster(keys: np.ndarray, count: int, iterations: int,
            centered: bool) -> np.ndarray:
    """ClusterIndex of select_program.h. keys: [m, d] -> cluster of each [m]"""
    x = keys - keys.mean(0) if centered else keys
    m = len(x)
    first = ((np.arange(count) + 0.5) * m / count).astype(int)

    def unit(rows):
        return rows / np.maximum(np.linalg.norm(rows, axis=-1,
                                                keepdims=True), 1e-20)

    centroids = unit(x[first])
    for _ in range(iterations):
        of = (x @ centroids.T).argmax(-1)
        for c in range(count):
            if (of == c).any():
                centroids[c] = unit(x[of == c].sum(0))
    return (x @ centroids.T).argmax(-1)


def cluster_means(keys: np.ndarray, of: np.ndarray,
                  count: int) -> tuple[np.ndarray, np.ndarray]:
    """-> [count, d], [count]: means, sizes"""
    sizes = np.bincount(of, minlength=count)
    sums = np.zeros((count, keys.shape[-1]), np.float64)
    np.add.at(sums, of, keys)
    return sums / np.maximum(sizes, 1)[:, None], sizes
