"""The published shapes that a small model can be given.

Sizes are those of the checkpoints' config.json: Llama 3.1 and 3.2 (Grattafiori
et al. 2024, arXiv 2407.21783), MiniCPM4 (arXiv 2506.07900), Qwen3 (arXiv
2505.09388). What is no size (RoPE's base, epsilon, scales) is chosen by
construct.py so that the small model's function comes out.
"""

from __future__ import annotations

from dataclasses import dataclass

LLAMA = "LlamaForCausalLM"
QWEN3 = "Qwen3ForCausalLM"
MINICPM = "MiniCPMForCausalLM"


@dataclass(frozen=True)
class Target:
    """A shape; `source` is the architecture of models that it can be given."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    architecture: str = LLAMA
    tied: bool = False

    @property
    def source(self) -> str:
        return QWEN3 if self.architecture == QWEN3 else LLAMA


TARGETS = {
    "llama-3.1-8b": Target(4096, 32, 32, 8, 128, 14336, 128256),
    "llama-3.1-70b": Target(8192, 80, 64, 8, 128, 28672, 128256),
    "llama-3.2-1b": Target(2048, 16, 32, 8, 64, 8192, 128256, tied=True),
    "minicpm4-8b": Target(4096, 32, 32, 2, 128, 16384, 73448, MINICPM),
    "qwen3-14b": Target(5120, 40, 40, 8, 128, 17408, 151936, QWEN3),
    "qwen3-32b": Target(5120, 64, 64, 8, 128, 25600, 151936, QWEN3),
}
