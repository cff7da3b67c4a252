"""How a small model's function is carried to a larger shape.

Zeros fill what the small model lacks: hidden channels, head dimensions, rows
of the feed-forward. What that changes is put right in the weights:

- RMSNorm: the mean square over `Hidden` channels, of which `hidden` are not
  zero, is hidden / Hidden of the small one's: the norm's weight is scaled by
  sqrt(hidden / Hidden), epsilon by hidden / Hidden.
- Heads of m times the dimension d: RoPE's frequency j of m d is theta **
  (-2 j / (m d)), so frequency i of d stands at j = m i of each half. Scores
  are divided by sqrt(m d) instead of sqrt(d): q is scaled by sqrt(m). Where
  each head is normed (Qwen3), zeros scale q and k by sqrt(m) already: q_norm's
  weight stays and k_norm's is scaled by 1 / sqrt(m).
- More heads: each KV head is repeated, and each q head within its group. The
  copies share the output by powers of two that sum to one, so o_proj is exact.
- More layers: copies of the layer before, whose o_proj and down_proj are zero,
  between the small model's: they attend and cost like any other.
- A larger vocabulary: the padding token's row again; it is never an answer.
- MiniCPM's scales: scale_emb and scale_depth / sqrt(layers) are chosen as
  powers of two, the weights divided by them; the final norm multiplies what
  hidden_size / dim_model_base divides.

All but norms and q is exact in bf16; those are rounded once, so the large
model is the small one with these weights changed by 2 ** -9 of each at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from . import bfloat16
from .source import BadInput, Source
from .targets import MINICPM, QWEN3, Target

BLOCK_BYTES = 4 << 20
SCALE_EMB = 16.0  # MiniCPM4 has 12, which bf16 weights cannot be divided by.
RESIDUAL_SCALE = 0.25  # It has 1.4 / sqrt(32) = 0.2475.
DIM_MODEL_BASE = 256


@dataclass(frozen=True)
class Tensor:
    """`make` yields its bytes in blocks, and may be called again."""

    name: str
    shape: list[int]
    make: Callable[[], Iterator[bytes]] = field(repr=False)

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * bfloat16.BYTES


def dyadic_shares(count: int) -> list[float]:
    """`count` powers of two that sum to one, as equal as can be."""
    shares = [1.0]
    while len(shares) < count:
        half = max(shares) / 2
        shares.remove(2 * half)
        shares += [half, half]
    return sorted(shares, reverse=True)


def padded(
    rows: Iterable[bytes | None], num_rows: int, row_bytes: int, fill: bytes
) -> Iterator[bytes]:
    """Rows filled with zeros on the right, and `fill` for what lacks, None."""
    fill = fill.ljust(row_bytes, b"\0")
    a_block = max(1, BLOCK_BYTES // row_bytes)
    block: list[bytes] = []
    left = num_rows
    for row in rows:
        block.append(fill if row is None else row.ljust(row_bytes, b"\0"))
        if len(block) == a_block:
            yield b"".join(block)
            left -= a_block
            block.clear()
    yield b"".join(block)
    left -= len(block)
    if left >= a_block:
        whole = fill * a_block
        for _ in range(left // a_block):
            yield whole
    yield fill * (left % a_block)


def spread(halves: list, times: int, empty: object) -> list:
    """What stands at i of each half comes to stand at times * i."""
    half = len(halves) // 2
    placed = [empty] * (len(halves) * times)
    for index, value in enumerate(halves):
        which, i = divmod(index, half)
        placed[which * half * times + i * times] = value
    return placed


class Construction:
    """Owns nothing: reads `source`, whose function it gives to `target`."""

    def __init__(self, source: Source, target: Target, layers: int) -> None:
        self.source, self.target, self.layers = source, target, layers
        self._check()
        self.times = target.head_dim // source.head_dim
        self.norm_scale = math.sqrt(source.hidden / target.hidden)
        self.is_minicpm = target.architecture == MINICPM
        self.branch_scale = 1 / RESIDUAL_SCALE if self.is_minicpm else 1.0
        self.real_layers = {
            index * layers // source.layers: index
            for index in range(source.layers)
        }

    def _check(self) -> None:
        source, target = self.source, self.target
        path = source.folder / "config.json"
        if source.architecture != target.source:
            raise BadInput(
                f"{path}: architectures must be {target.source} for this "
                f"shape, is {source.architecture}"
            )
        if self.layers < source.layers:
            raise BadInput(
                f"--layers must be {source.layers} at least, the layers of "
                f"{source.folder}, is {self.layers}"
            )
        for name in ("hidden", "ffn", "vocabulary"):
            least, most = getattr(source, name), getattr(target, name)
            if least > most:
                raise BadInput(
                    f"{path}: {name} is {least}, more than the shape's {most}"
                )
        group = source.heads // source.kv_heads
        checks = {
            "head_dim": (target.head_dim, source.head_dim),
            "num_key_value_heads": (target.kv_heads, source.kv_heads),
        }
        for name, (large, small) in checks.items():
            if large % small:
                raise BadInput(
                    f"{path}: {name} must divide the shape's {large}, "
                    f"is {small}"
                )
        if target.heads // target.kv_heads < group:
            raise BadInput(
                f"{path}: {group} query heads a KV head, more than the "
                f"shape's {target.heads // target.kv_heads}"
            )
        if target.tied and not source.is_tied:
            raise BadInput(f"{path}: the shape needs tie_word_embeddings")

    @cached_property
    def copies(self) -> list[tuple[int, float]]:
        """Of each large q head: the small one, and its share of the output."""
        source, target = self.source, self.target
        group = source.heads // source.kv_heads
        large_group = target.heads // target.kv_heads
        kv_shares = dyadic_shares(target.kv_heads // source.kv_heads)
        more = large_group % group
        found = []
        for kv_head in range(source.kv_heads):
            for kv_share in kv_shares:
                for place in range(group):
                    count = large_group // group + (place < more)
                    head = kv_head * group + place
                    for share in dyadic_shares(count):
                        found.append((head, share * kv_share))
        return found

    @cached_property
    def kv_copies(self) -> list[int]:
        """Of each large KV head, the small one."""
        times = self.target.kv_heads // self.source.kv_heads
        return [head // times for head in range(self.target.kv_heads)]

    def config(self) -> dict:
        source, target = self.source, self.target
        kept = {
            name: value
            for name, value in source.config.items()
            if name.endswith("_token_id") or name.startswith("rope_")
        }
        config = kept | {
            "architectures": [target.architecture],
            "model_type": target.architecture.removesuffix(
                "ForCausalLM"
            ).lower(),
            "vocab_size": target.vocabulary,
            "hidden_size": target.hidden,
            "intermediate_size": target.ffn,
            "num_hidden_layers": self.layers,
            "num_attention_heads": target.heads,
            "num_key_value_heads": target.kv_heads,
            "head_dim": target.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": source.config[
                "max_position_embeddings"
            ],
            "rms_norm_eps": source.config["rms_norm_eps"]
            * (source.hidden / target.hidden),
            "attention_bias": False,
            "tie_word_embeddings": target.tied,
            "torch_dtype": "bfloat16",
        }
        if self.is_minicpm:
            config |= {
                "scale_emb": SCALE_EMB,
                "scale_depth": RESIDUAL_SCALE * math.sqrt(self.layers),
                "dim_model_base": DIM_MODEL_BASE,
            }
        if target.architecture == QWEN3:
            config |= {"use_sliding_window": False, "sliding_window": None}
        return config

    def tensors(self) -> Iterator[Tensor]:
        """In the order in which they are written."""
        source, target = self.source, self.target
        table = "model.embed_tokens.weight"
        embed = 1 / SCALE_EMB if self.is_minicpm else 1.0
        yield self._vocabulary(table, table, embed)
        index = 0
        for layer in range(self.layers):
            index = self.real_layers.get(layer, index)
            yield from self._layer(layer, index, layer in self.real_layers)
        final = self.norm_scale
        if self.is_minicpm:
            final *= target.hidden / DIM_MODEL_BASE
            final *= SCALE_EMB if target.tied else 1.0
        yield self._norm("model.norm.weight", "model.norm.weight", final)
        if not target.tied:
            head = table if source.is_tied else "lm_head.weight"
            yield self._vocabulary("lm_head.weight", head, 1.0)

    def _vocabulary(self, name: str, small: str, factor: float) -> Tensor:
        source, target = self.source, self.target
        pad = source.config.get("pad_token_id") or 0

        def make() -> Iterator[bytes]:
            rows = self._scaled_rows(small, source.hidden, factor)
            fill = rows[pad]
            return padded(rows, target.vocabulary, target.hidden * 2, fill)

        return Tensor(name, [target.vocabulary, target.hidden], make)

    def _scaled_rows(self, name: str, width: int, factor: float) -> list[bytes]:
        data = bfloat16.scale(self.source.tensors[name], factor)
        step = width * bfloat16.BYTES
        return [data[at : at + step] for at in range(0, len(data), step)]

    def _norm(self, name: str, small: str, factor: float) -> Tensor:
        def make() -> Iterator[bytes]:
            row = bfloat16.scale(self.source.tensors[small], factor)
            return padded([row], 1, self.target.hidden * 2, b"")

        return Tensor(name, [self.target.hidden], make)

    def _head_norm(self, name: str, small: str, factor: float) -> Tensor:
        def make() -> Iterator[bytes]:
            data = bfloat16.scale(self.source.tensors[small], factor)
            values = [data[at : at + 2] for at in range(0, len(data), 2)]
            yield b"".join(spread(values, self.times, b"\0\0"))

        return Tensor(name, [self.target.head_dim], make)

    def _matrix(self, name: str, rows: int, width: int, small) -> Tensor:
        """`small` makes the first rows, or some of them."""

        def make() -> Iterator[bytes]:
            return padded(small(), rows, width * bfloat16.BYTES, b"")

        return Tensor(name, [rows, width], make)

    def _layer(self, layer: int, index: int, is_real: bool) -> Iterator[Tensor]:
        """Layer `layer` is the small model's `index`, or an idle copy of it."""
        source, target = self.source, self.target
        at, small = f"model.layers.{layer}.", f"model.layers.{index}."
        q_size = target.heads * target.head_dim
        kv_size = target.kv_heads * target.head_dim
        for norm in ("input_layernorm", "post_attention_layernorm"):
            name = f"{norm}.weight"
            yield self._norm(at + name, small + name, self.norm_scale)
        if target.architecture == QWEN3:
            factors = {"q_norm": 1.0, "k_norm": 1 / math.sqrt(self.times)}
            for norm, factor in factors.items():
                name = f"self_attn.{norm}.weight"
                yield self._head_norm(at + name, small + name, factor)
        for which, size in (("q", q_size), ("k", kv_size), ("v", kv_size)):
            name = f"self_attn.{which}_proj.weight"

            def rows(small_name: str = small + name, which: str = which):
                return self._head_rows(small_name, which)

            yield self._matrix(at + name, size, target.hidden, rows)
        for which in ("gate", "up"):
            name = f"mlp.{which}_proj.weight"

            def rows(small_name: str = small + name):
                return source.rows(small_name, source.hidden)

            yield self._matrix(at + name, target.ffn, target.hidden, rows)
        name = "self_attn.o_proj.weight"
        yield self._matrix(
            at + name,
            target.hidden,
            q_size,
            lambda: self._o_rows(small + name) if is_real else [],
        )
        down = "mlp.down_proj.weight"
        yield self._matrix(
            at + down,
            target.hidden,
            target.ffn,
            lambda: self._scaled_rows(
                small + down, source.ffn, self.branch_scale
            )
            if is_real
            else [],
        )

    def _head_rows(self, name: str, which: str) -> list[bytes | None]:
        """The rows of q, k or v, head by head; None where a row is zero."""
        source = self.source
        factor = 1.0
        if which == "q" and source.architecture != QWEN3:
            factor = math.sqrt(self.times)
        rows = self._scaled_rows(name, source.hidden, factor)
        heads = self.kv_copies
        if which == "q":
            heads = [head for head, _ in self.copies]
        dim = source.head_dim
        placed: list[bytes | None] = []
        for head in heads:
            own = rows[head * dim : (head + 1) * dim]
            if which == "v":
                placed += own + [None] * (dim * (self.times - 1))
            else:
                placed += spread(own, self.times, None)
        return placed

    def _o_rows(self, name: str) -> Iterator[bytes]:
        source = self.source
        dim_bytes = source.head_dim * bfloat16.BYTES
        zeros = bytes(dim_bytes * (self.times - 1))
        width = source.heads * source.head_dim
        shares = {share for _, share in self.copies}
        scaled = {
            share: self._scaled_rows(name, width, share * self.branch_scale)
            for share in shares
        }
        for row in range(source.hidden):
            pieces = []
            for head, share in self.copies:
                begin = head * dim_bytes
                pieces.append(scaled[share][row][begin : begin + dim_bytes])
                pieces.append(zeros)
            yield b"".join(pieces)
