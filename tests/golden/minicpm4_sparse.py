"""MiniCPM4 with sparse_config (InfLLM-v2) in numpy's float64, row by row.

A transcription of what modeling_minicpm.py and the paper (arXiv 2509.24663)
say, in the order of a decode step: keys after rotation are averaged over
windows of kernel_size every kernel_stride tokens (c1), and over windows four
times as wide and as far apart (c2); a row's q heads score c1 as
exp(s q c1 - z), z = log sum exp(s q c2), summed over the heads of a KV head; a
block has the greatest score of the windows that begin in it or one stride
before; the first init_blocks, the row's own and the window_size / block_size
before it are read in any case, the best others up to topk + the window's.

A prompt is sparse as a whole if its length is at least dense_len, a generated
row if its position + 1 is. Deviations from that code: tests/oracle/infllm_v2.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Weights = dict[str, np.ndarray]
# Scores nearer to each other than this share could change places in float32.
MARGIN = 2e-4


class Narrow(Exception):
    """A float32 model may choose otherwise: take other tokens."""


def _rope(config: dict[str, Any], length: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin [length, head_dim / 2] of an unscaled LongRoPE."""
    scaling = config["rope_scaling"]
    original = scaling["original_max_position_embeddings"]
    assert length <= original == config["max_position_embeddings"]
    dim = config["hidden_size"] // config["num_attention_heads"]
    factors = np.array(scaling["short_factor"])
    frequency = 1 / (factors * 10000.0 ** (np.arange(0, dim, 2) / dim))
    angles = np.outer(np.arange(length), frequency)
    return np.cos(angles), np.sin(angles)


def _rotate(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """x [length, heads, head_dim], half against half."""
    low, high = np.split(x, 2, axis=-1)
    cos, sin = cos[:, None], sin[:, None]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


def _norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def _windows(k: np.ndarray, width: int, stride: int) -> np.ndarray:
    """Means of the full windows of k [tokens, dim]."""
    count = max(0, (len(k) - width) // stride + 1)
    means = [k[j * stride : j * stride + width].mean(0) for j in range(count)]
    return np.array(means).reshape(count, k.shape[1])


def read_blocks(q: np.ndarray, k: np.ndarray, sparse: dict) -> list[int]:
    """What the last token of k reads: q [group, dim], k [tokens, dim]."""
    width, stride = sparse["kernel_size"], sparse["kernel_stride"]
    block = sparse["block_size"]
    own, ratio = (len(k) - 1) // block, block // stride
    local = sparse["window_size"] // block
    scale = q.shape[1] ** -0.5
    c1, c2 = _windows(k, width, stride), _windows(k, 4 * width, 4 * stride)
    s = np.zeros(len(c1))
    for head in q:
        if len(c2):
            z = math.log(np.exp(scale * (c2 @ head)).sum())
            s += np.exp(scale * (c1 @ head) - z)
    score = []
    for b in range(own + 1):
        of_block = s[max(ratio * b - 1, 0) : ratio * b + ratio]
        is_forced = b < sparse["init_blocks"] or b >= own - local
        score.append(
            math.inf if is_forced else max(of_block, default=-math.inf)
        )
    order = sorted(range(own + 1), key=lambda b: (-score[b], b))
    count = min(sparse["topk"] + local, own + 1)
    if count <= own:
        last, first = score[order[count - 1]], score[order[count]]
        if last != first and last - first < MARGIN * last:
            raise Narrow
    return sorted(order[:count])


def _attention(
    x: np.ndarray,
    weights: Weights,
    config: dict[str, Any],
    is_sparse: list[bool],
) -> np.ndarray:
    """One layer's attention of all rows: [length, hidden] -> the same.

    weights: those of self_attn, by q, k, v, o.
    """
    heads, kv_heads = (
        config["num_attention_heads"],
        config["num_key_value_heads"],
    )
    length, group = len(x), heads // kv_heads
    dim = config["hidden_size"] // heads
    tables = _rope(config, length)
    q = _rotate((x @ weights["q"].T).reshape(length, heads, dim), *tables)
    k = _rotate((x @ weights["k"].T).reshape(length, kv_heads, dim), *tables)
    v = (x @ weights["v"].T).reshape(length, kv_heads, dim)
    out = np.zeros((length, heads, dim))
    block = config["sparse_config"]["block_size"]
    for row in range(length):
        for g in range(kv_heads):
            of_group = slice(g * group, (g + 1) * group)
            at = np.arange(row + 1)
            if is_sparse[row]:
                blocks = read_blocks(
                    q[row, of_group], k[: row + 1, g], config["sparse_config"]
                )
                at = at[np.isin(at // block, blocks)]
            score = q[row, of_group] @ k[at, g].T * dim**-0.5
            p = np.exp(score - score.max(1, keepdims=True))
            out[row, of_group] = p @ v[at, g] / p.sum(1, keepdims=True)
    return out.reshape(length, -1) @ weights["o"].T


def logits(
    config: dict[str, Any], weights: Weights, tokens: list[int], prompt: int
) -> np.ndarray:
    """float64 logits [len(tokens), vocab]; the first `prompt` rows are its."""
    sparse, eps = config["sparse_config"], config["rms_norm_eps"]
    lengths = [prompt] * prompt + list(range(prompt + 1, len(tokens) + 1))
    is_sparse = [n >= sparse["dense_len"] for n in lengths]
    branch = config["scale_depth"] / math.sqrt(config["num_hidden_layers"])
    x = weights["model.embed_tokens.weight"][tokens] * config["scale_emb"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        attn = {n: weights[f"{at}self_attn.{n}_proj.weight"] for n in "qkvo"}
        y = _norm(x, weights[at + "input_layernorm.weight"], eps)
        x = x + branch * _attention(y, attn, config, is_sparse)
        y = _norm(x, weights[at + "post_attention_layernorm.weight"], eps)
        gate = y @ weights[at + "mlp.gate_proj.weight"].T
        up = y @ weights[at + "mlp.up_proj.weight"].T
        y = gate / (1 + np.exp(-gate)) * up
        x = x + branch * (y @ weights[at + "mlp.down_proj.weight"].T)
    x = _norm(x, weights["model.norm.weight"], eps)
    x = x / (config["hidden_size"] / config["dim_model_base"])
    return x @ weights["lm_head.weight"].T
