"""The lab model: a small Llama or Qwen3, its loss, and the pieces that are compiled.

Everything but attention works on a flat list of tokens. The number of tokens
of a step is the same at every length, so each piece is compiled once. Module
names are those of a Hugging Face checkpoint, less the "model." prefix.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lab.tasks.words import PAD
from lab.train.shape import Shape

POINTING_LAYER = 1  # Whose first group of heads is told where to look.

# By preference. At 128K tokens a step with cuDNN's takes 0.68 of the time that
# it takes with FlashAttention-2 (one H200, torch 2.11).
_ATTENTION = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.MATH,
]


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        q_size = shape.heads * shape.head_dim
        kv_size = shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, q_size, bias=False)
        self.k_proj = nn.Linear(shape.hidden, kv_size, bias=False)
        self.v_proj = nn.Linear(shape.hidden, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, shape.hidden, bias=False)
        self.q_norm = self.k_norm = None
        if shape.qk_norm:
            self.q_norm = nn.RMSNorm(shape.head_dim, shape.rms_norm_eps)
            self.k_norm = nn.RMSNorm(shape.head_dim, shape.rms_norm_eps)


class Mlp(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.down_proj = nn.Linear(shape.ffn, shape.hidden, bias=False)


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        size, eps = shape.hidden, shape.rms_norm_eps
        self.input_layernorm = nn.RMSNorm(size, eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(size, eps)
        self.mlp = Mlp(shape)


def linear(x: Tensor, projection: nn.Linear) -> Tensor:
    """A bf16 product with a float32 weight. x: [N, in] -> [N, out]"""
    return F.linear(x.bfloat16(), projection.weight.bfloat16())


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE by halves. x: [N, heads, d]; cos, sin: [N, d] -> bf16 like x"""
    x = x.float()
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (x * cos[:, None] + turned * sin[:, None]).bfloat16()


def before_attention(
    layer: Layer, x: Tensor, cos: Tensor, sin: Tensor, head_dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """x: [N, hidden] -> q [N, heads, d], k and v [N, kv_heads, d]"""
    h = layer.input_layernorm(x)
    attention = layer.self_attn
    q = linear(h, attention.q_proj).unflatten(1, (-1, head_dim))
    k = linear(h, attention.k_proj).unflatten(1, (-1, head_dim))
    v = linear(h, attention.v_proj).unflatten(1, (-1, head_dim))
    if attention.q_norm is not None:
        q, k = attention.q_norm(q.float()), attention.k_norm(k.float())
    return rotate(q, cos, sin), rotate(k, cos, sin), v


def after_attention(layer: Layer, x: Tensor, attended: Tensor) -> Tensor:
    """x: [N, hidden], attended: [N, heads * d] -> [N, hidden]"""
    x = x + linear(attended, layer.self_attn.o_proj)
    h = layer.post_attention_layernorm(x)
    gate, up = linear(h, layer.mlp.gate_proj), linear(h, layer.mlp.up_proj)
    return x + linear(F.silu(gate) * up, layer.mlp.down_proj)


def answer_loss(
    x: Tensor, norm: nn.RMSNorm, table: Tensor, targets: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Loss on answers plus a tenth of that on all text, and what was right.

    x: [N, hidden], table: [V, hidden], targets: [N], weights: [N], zero where
    the target is no answer -> loss [], right [N]
    """
    h = norm(x).bfloat16()
    logits = F.linear(h, table.bfloat16())
    losses = F.cross_entropy(
        logits.float(), targets, reduction="none", ignore_index=PAD
    )
    loss = (losses * weights).sum() / weights.sum() + 0.1 * losses.mean()
    return loss, logits.argmax(dim=-1) == targets


def pointing_loss(q: Tensor, k: Tensor, sources: Tensor) -> Tensor:
    """Of attending, where a token's source is known, to it and nothing else.

    q: [batch, heads, length, d], k: [batch, 1, length, d], sources: [batch,
    length], negative where not known -> loss []
    """
    length = sources.shape[1]
    scores = (q @ k.transpose(2, 3)).float() / math.sqrt(q.shape[-1])
    future = torch.ones(
        length, length, dtype=torch.bool, device=q.device
    ).triu(1)
    shares = scores.masked_fill(future, -math.inf).log_softmax(dim=-1)
    places = sources.clamp(min=0)[:, None, :, None]
    places = places.expand(-1, q.shape[1], -1, 1)
    losses = -shares.gather(3, places).squeeze(3).mean(dim=1)
    is_known = sources >= 0
    return (losses * is_known).sum() / is_known.sum().clamp(min=1)


class LabModel(nn.Module):
    """Owns the float32 master weights; one training thread calls it.

    `rope_theta` may change between two steps.
    """

    def __init__(self, shape: Shape, compiled: bool) -> None:
        super().__init__()
        self.shape = shape
        self.rope_theta = shape.rope_theta
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=shape.rms_norm_eps)
        self.initialize()
        wrap = torch.compile(dynamic=False) if compiled else lambda f: f
        self._before = wrap(before_attention)
        self._after = wrap(after_attention)
        self._loss = wrap(answer_loss)
        self._pointing_loss = wrap(pointing_loss)

    def initialize(self) -> None:
        """Draws all weights."""
        residual_std = 0.02 / math.sqrt(2 * self.shape.layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                into_residual = "o_proj" in name or "down_proj" in name
                std = residual_std if into_residual else 0.02
                nn.init.normal_(parameter, 0.0, std)
            else:
                nn.init.ones_(parameter)

    def rope(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions: [batch, length] -> cos and sin [batch * length, d]"""
        steps = torch.arange(0, self.shape.head_dim, 2, device=positions.device)
        rates = self.rope_theta ** (-steps / self.shape.head_dim)
        places = positions.flatten().float()
        angles = torch.outer(places, rates.float()).repeat(1, 2)
        return angles.cos(), angles.sin()

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        targets: Tensor,
        weights: Tensor,
        sources: Tensor,
        pointing: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """All [batch, length] -> loss [], right [batch, length]

        `sources`: where in the document each target stands, or -1; `pointing`:
        the weight of the loss of not attending to it.
        """
        batch, length = tokens.shape
        cos, sin = self.rope(positions)
        x = self.embed_tokens(tokens.flatten())
        extra = 0.0
        for i, layer in enumerate(self.layers):
            q, k, v = (
                piece.unflatten(0, (batch, length)).transpose(1, 2)
                for piece in self._before(
                    layer, x, cos, sin, self.shape.head_dim
                )
            )
            if i == POINTING_LAYER and pointing:
                group = self.shape.heads // self.shape.kv_heads
                extra = pointing * self._pointing_loss(
                    q[:, :group], k[:, :1], sources
                )
            with sdpa_kernel(_ATTENTION, set_priority=True):
                attended = F.scaled_dot_product_attention(
                    q, k, v, is_causal=True, enable_gqa=True
                )
            attended = attended.transpose(1, 2).reshape(batch * length, -1)
            x = self._after(layer, x, attended)
        loss, right = self._loss(
            x,
            self.norm,
            self.embed_tokens.weight,
            targets.flatten(),
            weights.flatten(),
        )
        return loss + extra, right.view(batch, length)
