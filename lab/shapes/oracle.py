"""Logits of a small checkpoint in float64, in plain Python, for tests.

Llama (arXiv 2302.13971), Qwen3's norms of each head of q and k (arXiv
2505.09388), MiniCPM's scales (arXiv 2404.06395): written from the papers, a
whole prompt at once, and for sizes of some tens only.
"""

from __future__ import annotations

import math

from . import bfloat16

Vector = list[float]
Weights = dict[str, Vector]


def floats_of(tensors: dict[str, bytes]) -> Weights:
    return {name: list(bfloat16.to_floats(d)) for name, d in tensors.items()}


def _times(matrix: Vector, x: Vector) -> Vector:
    """matrix: [N, len(x)], flat -> [N]"""
    width = len(x)
    # Zeros of x, most of a padded one, add nothing.
    some = [(i, value) for i, value in enumerate(x) if value]
    return [
        math.fsum(matrix[at + i] * value for i, value in some)
        for at in range(0, len(matrix), width)
    ]


def _norm(x: Vector, weight: Vector, epsilon: float) -> Vector:
    square = math.fsum(value * value for value in x) / len(x)
    rate = 1 / math.sqrt(square + epsilon)
    return [value * rate * w for value, w in zip(x, weight)]


def _rotate(x: Vector, position: int, theta: float) -> Vector:
    half = len(x) // 2
    turned = list(x)
    for i in range(half):
        angle = position * theta ** (-i / half)
        cos, sin = math.cos(angle), math.sin(angle)
        turned[i] = x[i] * cos - x[half + i] * sin
        turned[half + i] = x[half + i] * cos + x[i] * sin
    return turned


def _add(x: Vector, y: Vector, scale: float) -> Vector:
    return [a + scale * b for a, b in zip(x, y)]


class Oracle:
    """config: of config.json; weights: float values by tensor name."""

    def __init__(self, config: dict, weights: Weights) -> None:
        self.config, self.weights = config, weights
        self.epsilon = config["rms_norm_eps"]
        self.dim = config["head_dim"]
        self.layers = config["num_hidden_layers"]
        depth = config.get("scale_depth", math.sqrt(self.layers))
        self.branch = depth / math.sqrt(self.layers)
        hidden = config["hidden_size"]
        self.logit_scale = config.get("dim_model_base", hidden) / hidden

    def _heads(self, h: Vector, at: str, which: str) -> list[Vector]:
        y = _times(self.weights[f"{at}self_attn.{which}_proj.weight"], h)
        heads = [y[i : i + self.dim] for i in range(0, len(y), self.dim)]
        norm = self.weights.get(f"{at}self_attn.{which}_norm.weight")
        if norm is None:
            return heads
        return [_norm(head, norm, self.epsilon) for head in heads]

    def _attend(self, at: str, hs: list[Vector]) -> list[Vector]:
        """hs: of each token, normed -> of each, before o_proj"""
        theta = self.config["rope_theta"]
        turned = {
            which: [
                [_rotate(x, p, theta) for x in self._heads(h, at, which)]
                for p, h in enumerate(hs)
            ]
            for which in ("q", "k")
        }
        values = [self._heads(h, at, "v") for h in hs]
        group = len(turned["q"][0]) // len(values[0])
        attended = []
        for row, heads in enumerate(turned["q"]):
            out: Vector = []
            for head, q in enumerate(heads):
                kv = head // group
                scores = [
                    math.fsum(map(float.__mul__, q, turned["k"][p][kv]))
                    for p in range(row + 1)
                ]
                most = max(scores)
                masses = [
                    math.exp((s - most) / math.sqrt(self.dim)) for s in scores
                ]
                total = math.fsum(masses)
                for i in range(self.dim):
                    column = [value[kv][i] for value in values[: row + 1]]
                    summed = math.fsum(map(float.__mul__, masses, column))
                    out.append(summed / total)
            attended.append(out)
        return attended

    def _feed(self, at: str, h: Vector) -> Vector:
        gate = _times(self.weights[f"{at}mlp.gate_proj.weight"], h)
        up = _times(self.weights[f"{at}mlp.up_proj.weight"], h)
        act = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
        return _times(self.weights[f"{at}mlp.down_proj.weight"], act)

    def logits(self, tokens: list[int]) -> Vector:
        """Those behind the last token. -> [vocabulary]"""
        weights, width = self.weights, self.config["hidden_size"]
        table = weights["model.embed_tokens.weight"]
        scale = self.config.get("scale_emb", 1.0)
        xs = [
            [scale * v for v in table[t * width : (t + 1) * width]]
            for t in tokens
        ]
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            norm = weights[at + "input_layernorm.weight"]
            hs = [_norm(x, norm, self.epsilon) for x in xs]
            o = weights[at + "self_attn.o_proj.weight"]
            for i, attended in enumerate(self._attend(at, hs)):
                xs[i] = _add(xs[i], _times(o, attended), self.branch)
            norm = weights[at + "post_attention_layernorm.weight"]
            for i, x in enumerate(xs):
                fed = self._feed(at, _norm(x, norm, self.epsilon))
                xs[i] = _add(x, fed, self.branch)
        last = _norm(xs[-1], weights["model.norm.weight"], self.epsilon)
        head = weights.get("lm_head.weight", table)
        return [v * self.logit_scale for v in _times(head, last)]
