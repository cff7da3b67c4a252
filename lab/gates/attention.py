"""What a checkpoint attends to: its forward pass in numpy, float32.

Of chosen rows it keeps what a gate sees (q and keys before RoPE) and what the
gate should say (the attention that each block of keys gets).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lab.shapes.source import QWEN3, Source

TILE_ROWS = 128  # Whose scores stay in a core's cache.


@dataclass
class Seen:
    """One layer's view of one document; rows are those from a first one on.

    A block of keys that is not full has no pool. `wanted`: the greatest
    attention of a group's heads to a key of the block, as a share of that of
    all blocks before the row's own. `mass`: the block's attention, mean over
    the heads.
    """

    q: np.ndarray  # [kv_heads, rows, group * d], before RoPE
    pools: np.ndarray  # [kv_heads, blocks, 3 * d]: greatest, least, mean
    wanted: np.ndarray  # [kv_heads, rows, blocks]
    mass: np.ndarray  # [kv_heads, rows, blocks], or empty

    def without_mass(self) -> Seen:
        return replace(self, mass=np.empty((0, 0, 0), np.float32))


def widen(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """bf16 -> float32"""
    bits = np.frombuffer(data, "<u2").astype(np.uint32) << 16
    return bits.view(np.float32).reshape(shape)


def narrow(numbers: np.ndarray) -> bytes:
    """float32 -> bf16, the nearest, ties to even"""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


def turn(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """RoPE by halves. x: [..., n, d]; cos, sin: [n, d / 2]"""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate(
        (first * cos - second * sin, second * cos + first * sin), axis=-1
    )


def angles(
    positions: np.ndarray, theta: float, dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """positions: [n] -> cos, sin [n, d / 2]"""
    turned = np.outer(positions, float(theta) ** (-np.arange(0, dim, 2) / dim))
    return np.cos(turned).astype(np.float32), np.sin(turned).astype(np.float32)


def softmax(z: np.ndarray) -> np.ndarray:
    """Over the last axis, in place."""
    z -= z.max(-1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(-1, keepdims=True)
    return z


class Reader:
    """Owns the weights in float32. Const after it is made."""

    def __init__(self, source: Source, block: int) -> None:
        self.source = source
        self.block = block
        self.group = source.heads // source.kv_heads
        self.epsilon = np.float32(source.config["rms_norm_eps"])
        table = source.tensors["model.embed_tokens.weight"]
        self.table = widen(table, (-1, source.hidden))
        self._layers = [self._weights(i) for i in range(source.layers)]

    def _weights(self, layer: int) -> dict[str, np.ndarray]:
        source, found = self.source, {}
        inputs = {
            "o_proj": source.heads * source.head_dim,
            "down_proj": source.ffn,
        }
        prefix = f"model.layers.{layer}."
        for name, data in source.tensors.items():
            if name.startswith(prefix):
                short = name.split(".")[-2]
                width = inputs.get(short, source.hidden)
                shape = (-1,) if short.endswith("norm") else (-1, width)
                found[short] = widen(data, shape)
        return found

    def _norm(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        squares = np.einsum("...i,...i->...", x, x) / x.shape[-1]
        return x / np.sqrt(squares + self.epsilon)[..., None] * weight

    def read(
        self, tokens: np.ndarray, positions: np.ndarray, first_row: int
    ) -> list[Seen]:
        """Both [tokens]; a block's tokens stand at consecutive positions."""
        source = self.source
        x = self.table[tokens]
        cos, sin = angles(
            positions, source.config["rope_theta"], source.head_dim
        )
        seen = []
        for number, weights in enumerate(self._layers):
            q, k, v = self._project(x, weights)
            turned_q = turn(q, cos, sin) * np.float32(source.head_dim**-0.5)
            turned_k = turn(k, cos, sin)
            seen.append(self._see(q, k, turned_q, turned_k, first_row))
            if number + 1 < source.layers:
                x = self._go_on(x, turned_q, turned_k, v, weights)
        return seen

    def _project(self, x: np.ndarray, weights: dict) -> list[np.ndarray]:
        """x: [n, hidden] -> q, k and v [heads, n, d], before RoPE"""
        h = self._norm(x, weights["input_layernorm"])
        parts = []
        for name in "qkv":
            part = (h @ weights[f"{name}_proj"].T).reshape(
                len(x), -1, self.source.head_dim
            )
            if self.source.architecture == QWEN3 and name != "v":
                part = self._norm(part, weights[f"{name}_norm"])
            parts.append(part.swapaxes(0, 1))
        return parts

    def _go_on(
        self,
        x: np.ndarray,
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        weights: dict,
    ) -> np.ndarray:
        """Behind the layer's attention. x: [n, hidden] -> [n, hidden]"""
        x = x + self._attend(q, k, v) @ weights["o_proj"].T
        h = self._norm(x, weights["post_attention_layernorm"])
        gate = h @ weights["gate_proj"].T
        gate /= 1 + np.exp(-gate)
        gate *= h @ weights["up_proj"].T
        return x + gate @ weights["down_proj"].T

    def _attend(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Causal. q: [heads, n, d]; k, v: [kv_heads, n, d] -> [n, heads * d]"""
        heads, n, dim = q.shape
        out = np.empty((n, heads, dim), np.float32)
        for first in range(0, n, TILE_ROWS):
            end = min(first + TILE_ROWS, n)
            later = np.triu(np.full((end - first,) * 2, -np.inf, np.float32), 1)
            for head in range(heads):
                kv_head = head // self.group
                z = q[head, first:end] @ k[kv_head, :end].T
                z[:, first:] += later
                out[first:end, head] = softmax(z) @ v[kv_head, :end]
        return out.reshape(n, -1)

    def _see(
        self,
        q: np.ndarray,
        k: np.ndarray,
        turned_q: np.ndarray,
        turned_k: np.ndarray,
        first_row: int,
    ) -> Seen:
        kv_heads, n, dim = k.shape
        rows, blocks = n - first_row, n // self.block
        full = blocks * self.block
        parts = k[:, :full].reshape(kv_heads, blocks, self.block, dim)
        pools = (parts.max(2), parts.min(2), parts.mean(2))
        places = np.arange(first_row, n)[:, None]
        later = np.where(np.arange(n) > places, np.float32(-np.inf), np.float32(0))
        wanted = np.zeros((kv_heads, rows, blocks), np.float32)
        mass = np.zeros_like(wanted)
        for head in range(len(q)):
            kv_head = head // self.group
            z = turned_q[head, first_row:] @ turned_k[kv_head].T
            z = softmax(z + later)[:, :full].reshape(rows, blocks, self.block)
            np.maximum(wanted[kv_head], z.max(2), out=wanted[kv_head])
            mass[kv_head] += z.sum(2) / self.group
        is_before = np.arange(blocks) < places // self.block
        wanted *= is_before
        mass *= is_before
        wanted /= np.maximum(wanted.sum(-1, keepdims=True), 1e-30)
        grouped = q[:, first_row:].reshape(kv_heads, self.group, rows, dim)
        grouped = grouped.transpose(0, 2, 1, 3).reshape(kv_heads, rows, -1)
        return Seen(grouped, np.concatenate(pools, axis=-1), wanted, mass)
