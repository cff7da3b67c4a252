"""The sizes of a lab model."""

from __future__ import annotations

from dataclasses import dataclass

from lab.tasks.words import SIZE


@dataclass(frozen=True)
class Shape:
    hidden: int = 384
    layers: int = 6
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 1024
    vocabulary: int = SIZE
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-5
