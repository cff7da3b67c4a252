"""The small checkpoint that is embedded: read whole, and checked."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from . import bfloat16
from .targets import LLAMA, QWEN3

# Fields whose value changes the function; what they must say, or be absent.
_PLAIN = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "rope_scaling": None,
    "use_sliding_window": False,
}
_SIZES = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "ffn": "intermediate_size",
    "vocabulary": "vocab_size",
}
_HEADS = ("attention", "key_value")
MOST_BYTES = 1 << 30  # It is held in memory.


class BadInput(Exception):
    """What is wrong with a file or an argument, in one line."""


@dataclass
class Source:
    """Owns the weights as bytes; `config` is config.json as it stands."""

    folder: Path
    config: dict
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    tensors: dict[str, bytes]

    @property
    def architecture(self) -> str:
        return self.config["architectures"][0]

    @property
    def is_tied(self) -> bool:
        return "lm_head.weight" not in self.tensors

    def rows(self, name: str, width: int) -> list[bytes]:
        """name: a matrix [rows, width]"""
        data, step = self.tensors[name], width * bfloat16.BYTES
        return [data[at : at + step] for at in range(0, len(data), step)]


def _read_config(path: Path) -> dict:
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    if not isinstance(config, dict):
        raise BadInput(f"{path}: must be a JSON object")
    if config.get("architectures") not in ([LLAMA], [QWEN3]):
        raise BadInput(
            f"{path}: architectures must be [{LLAMA}] or [{QWEN3}], "
            f"is {config.get('architectures')}"
        )
    for name, wanted in _PLAIN.items():
        if config.get(name, wanted) != wanted:
            raise BadInput(
                f"{path}: {name} must be {json.dumps(wanted)}, "
                f"is {json.dumps(config[name])}"
            )
    _check_numbers(path, config)
    return config


def _check_numbers(path: Path, config: dict) -> None:
    whole = [*_SIZES.values(), "max_position_embeddings"]
    for name in (*whole, "rope_theta", "rms_norm_eps"):
        value = config.get(name)
        kinds = int if name in whole else (int, float)
        if not isinstance(value, kinds) or value <= 0:
            raise BadInput(f"{path}: {name} must be above 0, is {value!r}")
    heads, kv_heads = (config[f"num_{n}_heads"] for n in _HEADS)
    if heads % kv_heads or config["head_dim"] % 2:
        raise BadInput(
            f"{path}: {heads} heads of {config['head_dim']} and {kv_heads} KV "
            "heads: the dimension must be even, the one divide the other"
        )


def shapes_of(source: Source) -> dict[str, list[int]]:
    """What a checkpoint of these sizes holds, but for lm_head.weight."""
    q, kv = (n * source.head_dim for n in (source.heads, source.kv_heads))
    hidden, ffn = source.hidden, source.ffn
    shapes = {
        "model.embed_tokens.weight": [source.vocabulary, hidden],
        "model.norm.weight": [hidden],
    }
    layer = {
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
        "self_attn.q_proj": [q, hidden],
        "self_attn.k_proj": [kv, hidden],
        "self_attn.v_proj": [kv, hidden],
        "self_attn.o_proj": [hidden, q],
        "mlp.gate_proj": [ffn, hidden],
        "mlp.up_proj": [ffn, hidden],
        "mlp.down_proj": [hidden, ffn],
    }
    if source.architecture == QWEN3:
        layer |= dict.fromkeys(
            ("self_attn.q_norm", "self_attn.k_norm"), [source.head_dim]
        )
    for number in range(source.layers):
        for name, shape in layer.items():
            shapes[f"model.layers.{number}.{name}.weight"] = shape
    return shapes


def _read_tensors(path: Path) -> tuple[dict, dict[str, bytes]]:
    """The header of a safetensors file, and each tensor's bytes."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise BadInput(f"{path}: {size} bytes, more than {MOST_BYTES}")
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = dict(json.loads(data[8 : 8 + length]))
        header.pop("__metadata__", None)
        tensors = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            tensors[name] = data[8 + length + begin : 8 + length + end]
            assert isinstance(entry["shape"], list), name
            assert isinstance(entry["dtype"], str), name
    except (struct.error, ValueError, LookupError, TypeError, AssertionError):
        raise BadInput(f"{path}: not a safetensors file") from None
    return header, tensors


def read_source(folder: Path) -> Source:
    """A Llama or a Qwen3 in bf16, in one file."""
    config = _read_config(folder / "config.json")
    path = folder / "model.safetensors"
    header, tensors = _read_tensors(path)
    sizes = {ours: config[theirs] for ours, theirs in _SIZES.items()}
    source = Source(folder, config, **sizes, tensors=tensors)
    shapes = shapes_of(source)
    embedding = shapes["model.embed_tokens.weight"]
    if not config.get("tie_word_embeddings", False):
        shapes["lm_head.weight"] = embedding
    else:
        tensors.pop("lm_head.weight", None)
    for name, shape in shapes.items():
        wanted = {"dtype": "BF16", "shape": shape}
        found = header.get(name)
        if found is None:
            raise BadInput(f"{path}: lacks {name}")
        found = {key: found[key] for key in wanted}
        count = bfloat16.BYTES
        for side in shape:
            count *= side
        if found != wanted:
            raise BadInput(f"{path}: {name} must be {wanted}, is {found}")
        if len(tensors[name]) != count:
            raise BadInput(
                f"{path}: {name} must have {count} bytes, "
                f"has {len(tensors[name])}"
            )
    return source
