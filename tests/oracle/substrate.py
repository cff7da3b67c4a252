"""What the oracles share: numbers, attention, and a choice with its margin.

Nothing here, nor in the oracles, is written from Winnow's code: the formulas
are those of the papers, the numbers float64.

q and V are multiples of 1/8, K of 1/64, from a hash that oracle_case.cc
repeats, so that they need not be stored. Float32 holds every inner product and
every mean of a power of two of them exactly: where a selector only adds, its
ties are true ties, and the lowest index must win. bfloat16 holds the keys, and
not their means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

_MASK = (1 << 64) - 1
_Q, _K_TOKEN, _K_RUN, _V, _Q_TOKEN = 1, 2, 3, 4, 5
_GATE_Q, _GATE_K, _GATE_NORM, _Q_PRE, _CLUSTER = 6, 7, 8, 9, 10
RUN_TOKENS = 24  # neighbours share a part of their keys; divides no block


class Narrow(Exception):
    """Rounding could change the choice: another seed is needed."""


def _hashes(seed: int, stream: int, first: int, count: int) -> np.ndarray:
    """SplitMix64 of (seed, stream, index): uint64 [count]."""
    index = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    begin = np.uint64((seed * 0xD1342543DE82EF95 + stream * 0x9E3779B1) & _MASK)
    with np.errstate(over="ignore"):
        z = begin + index * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _whole(
    seed: int, stream: int, shape: tuple[int, ...], most: int
) -> np.ndarray:
    """Whole numbers in [-most, most]: float64 [shape]."""
    h = _hashes(seed, stream, 0, math.prod(shape)) >> np.uint64(40)
    whole = (h % np.uint64(2 * most + 1)).astype(np.float64) - most
    return whole.reshape(shape)


@dataclass
class Case:
    """One request, whose last rows are run in one step."""

    name: str
    selector: str
    parameters: dict[str, object]
    length: int
    rows: int = 1  # the last ones
    prompt_rows: int = 0  # the first of those
    prompt_tokens: int = 0  # of the whole prompt; 0: it ends with its rows
    context_tokens: int = 0  # its prompt rows in all; 0: all of the prompt
    kv_heads: int = 2
    group: int = 2
    dim: int = 16
    dtype: str = "float32"
    q_gain: int = 1  # a power of two
    period: int = 0  # keys repeat after so many tokens; 0: never
    layers: int = 1  # that share what one of them chooses
    seed: int = 0
    # Other readings of the paper, each of which must choose otherwise here.
    unlike: list[str] = field(default_factory=list)
    probes: list[int] = field(default_factory=list)  # of the rows; written out
    measures_recall: bool = False  # of summaries kept in bfloat16
    gate_norms: bool = False  # of learned gates

    @property
    def spec(self) -> str:
        pairs = [f"{k}={v}" for k, v in self.parameters.items()]
        return self.selector + (":" + ",".join(pairs) if pairs else "")

    @property
    def q_heads(self) -> int:
        return self.kv_heads * self.group

    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q [rows, q_heads, dim], K and V [length, kv_heads, dim]."""
        q = _whole(self.seed, _Q, (self.rows, self.q_heads, self.dim), 8) / 8
        shape = (self.length, self.kv_heads, self.dim)
        runs = (math.ceil(self.length / RUN_TOKENS), *shape[1:])
        run = _whole(self.seed, _K_RUN, runs, 32) / 64
        k = _whole(self.seed, _K_TOKEN, shape, 32) / 64
        k += run.repeat(RUN_TOKENS, axis=0)[: self.length]
        if self.period:
            k = k[np.arange(self.length) % self.period]
        return q * self.q_gain, k, _whole(self.seed, _V, shape, 8) / 8


    def token_queries(self, count: int) -> np.ndarray:
        """Of the first tokens, before the rows: [count, q_heads, dim]."""
        shape = (count, self.q_heads, self.dim)
        return _whole(self.seed, _Q_TOKEN, shape, 8) / 8 * self.q_gain


    def gates(self) -> "Gates":
        """Learned gates, and q before RoPE; keys are turned by 2^-i a token."""
        g, d = self.kv_heads, self.dim
        shape = (self.rows, self.q_heads, d)
        norms = 1 + _whole(self.seed, _GATE_NORM, (2, d), 2) / 8
        return Gates(
            _whole(self.seed, _Q_PRE, shape, 8) / 8 * self.q_gain,
            _whole(self.seed, _GATE_Q, (g, self.group * d, d), 8) / 16,
            _whole(self.seed, _GATE_K, (g, 3 * d, d), 8) / 16,
            norms if self.gate_norms else None,
        )

    def assignment(self, clusters: int) -> np.ndarray:
        """Whose cluster each token is, of those of its segment: [length, g]."""
        shape = (self.length, self.kv_heads)
        h = _hashes(self.seed, _CLUSTER, 0, math.prod(shape)) >> np.uint64(40)
        ids = (h % np.uint64(clusters)).astype(int).reshape(shape)
        # Every fifth has no tokens.
        return np.where(ids % 5 == 4, 0, ids)


@dataclass
class Gates:
    """SeerAttention-R's: weights by KV head, and what rows look at."""

    q_pre: np.ndarray  # [rows, q_heads, dim]
    q: np.ndarray  # [kv_heads, group * dim, dim]
    k: np.ndarray  # [kv_heads, 3 * dim, dim]
    norms: np.ndarray | None  # [2, dim]: of the query, of the key


@dataclass
class Row:
    """What a row's choice is made from: itself, and the keys it may see."""

    q: np.ndarray  # [q_heads, dim]
    k: np.ndarray  # [context, kv_heads, dim]
    group: int
    is_prompt: bool
    prompt_tokens: int
    dtype: str  # of what a selector keeps
    context_tokens: int = 0
    token_q: np.ndarray | None = None  # [prompt_tokens, q_heads, dim]
    fp8: bool = False  # in place of dtype
    gates: Gates | None = None
    q_pre: np.ndarray | None = None  # [q_heads, dim]
    assignment: np.ndarray | None = None  # [context, kv_heads]

    @property
    def context(self) -> int:
        return len(self.k)

    @property
    def scale(self) -> float:
        return self.q.shape[1] ** -0.5

    @property
    def inexact(self) -> float:
        """How far float32 means over a group may be off."""
        return 0.0 if self.group & (self.group - 1) == 0 else 1e-5

    def heads(self):
        """(q head, its KV head)"""
        return [(h, h // self.group) for h in range(len(self.q))]

    def kept(self, x: np.ndarray) -> np.ndarray:
        """x as a selector stores it: rounded once."""
        if self.fp8:
            return round_to_e4m3(x, "nearest")
        return round_to(x, self.dtype)


@dataclass
class Chosen:
    """The blocks that each list reads, ascending."""

    block: int
    lists: list[list[int]]
    # Clusters that each list reads as what is kept of them.
    estimates: list[list[int]] | None = None
    clusters: "list[Clusters] | None" = None


@dataclass
class Clusters:
    """What is kept of the clusters of one KV head, in the order of segments."""

    tokens: list[np.ndarray]  # of each
    keys: np.ndarray  # [clusters, dim]: means, as they are stored
    head: int = 0

    def values(self, row: "Row", v: np.ndarray) -> np.ndarray:
        return means(row, v[:, self.head], self.tokens)


def means(row: "Row", x: np.ndarray, parts: list[np.ndarray]) -> np.ndarray:
    """Means over the tokens of each part, rounded as they are kept."""
    if not parts:
        return np.zeros((0, x.shape[1]))
    plain = [x[t].mean(0) if len(t) else np.zeros(x.shape[1]) for t in parts]
    return row.kept(round_to(np.array(plain), "float32"))


def clusters_of(row: Row, p: dict, sinks: int, end: int) -> list[Clusters]:
    """By KV head, of the full segments of the first `end` tokens."""
    segment, size = p["segment"], p["cluster"]
    each = segment // size
    found = []
    for g in range(row.k.shape[1]):
        tokens = []
        for s in range(0, end, segment):
            ids = row.assignment[s : s + segment, g]
            for c in range(each):
                members = s + np.flatnonzero(ids == c)
                tokens.append(members[members >= sinks])
        keys = means(row, row.k[:, g], tokens) if tokens else np.zeros((0, row.k.shape[2]))
        found.append(Clusters(tokens, keys, g))
    return found


def round_to(x: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest number of a float type, ties to even."""
    x = np.asarray(x, np.float64)
    if dtype == "float16":
        return x.astype(np.float16).astype(np.float64)
    bits = 24 if dtype == "float32" else 8
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)


def e4m3_scale(x: np.ndarray) -> np.ndarray:
    """Over the last axis: the power of two that brings all below 448."""
    greatest = np.abs(x).max(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        exponent = np.ceil(np.log2(greatest / 448))
    return np.where(greatest == 0, 1.0, np.exp2(exponent))


def round_to_e4m3(
    x: np.ndarray, way: str, scale: np.ndarray | None = None
) -> np.ndarray:
    """Multiples of the scale with 3 bits behind the point, from 2^-6 on."""
    scale = e4m3_scale(x) if scale is None else scale
    y = x / scale
    exponent = np.floor(np.log2(np.maximum(np.abs(y), 2.0**-6)))
    step = np.exp2(exponent - 3)
    rounded = {"nearest": np.rint, "down": np.floor, "up": np.ceil}[way](
        y / step
    )
    return rounded * step * scale


def tokens(amount: object, context: int) -> int:
    """2048, or "1/16" of the context."""
    if isinstance(amount, int):
        return amount
    if str(amount).endswith("%"):
        return int(float(str(amount)[:-1]) / 100 * context)
    above, below = str(amount).split("/")
    return int(int(above) / int(below) * context)


def blocks(amount: object, context: int, block: int) -> int:
    """That an amount buys: whole ones, and all with the whole context (E 1)."""
    bought = tokens(amount, context)
    return -(-context // block) if bought >= context else bought // block


def best(
    scores: np.ndarray,
    candidates: list[int],
    count: int,
    slack: np.ndarray | float = 0.0,
) -> list[int]:
    """The `count` candidates of greatest score, ties to the lowest index.

    Raises Narrow where errors of at most `slack` could change the answer.
    """
    low, high = scores - slack, scores + slack
    return certain(scores, low, high, candidates, count)


def certain(
    scores: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    candidates: list[int],
    count: int,
) -> list[int]:
    """best() of scores that lie in [low, high].

    Equal scores are the same number (of a window that two blocks share, or of
    sums without rounding), so that their order is certain.
    """
    order = sorted(candidates, key=lambda b: (-scores[b], b))
    chosen = np.array(order[: max(count, 0)], dtype=int)
    left = np.array(order[max(count, 0) :], dtype=int)
    for c in chosen:
        narrow = (low[c] < high[left]) & (scores[c] != scores[left])
        narrow |= (low[c] == high[left]) & (left < c)
        if narrow.any():
            raise Narrow(f"block {c} scores {scores[c]}")
    return [int(c) for c in sorted(chosen)]


def logits(row: Row) -> np.ndarray:
    """q . k of every head and visible token: [q_heads, context]."""
    return np.stack([row.k[:, g] @ row.q[h] for h, g in row.heads()])


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(
    row: Row, v: np.ndarray, chosen: Chosen | None
) -> tuple[np.ndarray, np.ndarray]:
    """Exact softmax over what was chosen: out [q_heads, dim], lse [q_heads]."""
    z = logits(row) * row.scale
    out, lse = [], []
    for h, g in row.heads():
        at = np.arange(row.context)
        if chosen is not None:
            blocks = chosen.lists[h * len(chosen.lists) // len(row.q)]
            at = at[np.isin(at // chosen.block, blocks)]
        logit, value = z[h, at], v[at, g]
        if chosen is not None and chosen.estimates is not None:
            which = h * len(chosen.lists) // len(row.q)
            c = chosen.clusters[g]
            ids = np.array(chosen.estimates[which], dtype=int)
            # Exact attention over a cluster's centre, once a token of it.
            count = np.array([len(c.tokens[i]) for i in ids])
            at_centre = row.scale * c.keys[ids] @ row.q[h] + np.log(count)
            logit = np.concatenate([logit, at_centre])
            value = np.concatenate([value, c.values(row, v)[ids]])
        top = logit.max()
        weights = np.exp(logit - top)
        out.append(weights @ value / weights.sum())
        lse.append(top + math.log(weights.sum()))
    return np.array(out), np.array(lse)
