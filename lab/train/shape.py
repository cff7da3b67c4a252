"""The sizes of the lab models."""

from __future__ import annotations

from dataclasses import dataclass

from lab.tasks.words import SIZE


@dataclass(frozen=True)
class Shape:
    """A Llama; with `qk_norm` a Qwen3. `max_positions`: a whole document and
    room for an answer behind it."""

    hidden: int = 384
    layers: int = 6
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 1024
    vocabulary: int = SIZE
    rope_theta: float = 4e6
    rms_norm_eps: float = 1e-5
    qk_norm: bool = False
    max_positions: int = 130 * 1024


WINNOW_LAB = Shape()
WINNOW_LAB_QWEN3 = Shape(
    hidden=192,
    layers=4,
    heads=4,
    ffn=256,
    rope_theta=1e6,
    rms_norm_eps=1e-6,
    qk_norm=True,
    max_positions=18 * 1024,
)
