"""A tiny random checkpoint that stands in for a trained one, for tests."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

from . import bfloat16
from .source import Source, read_source, shapes_of
from .targets import QWEN3


def config_of(
    architecture: str, hidden: int, head_dim: int, **fields: object
) -> dict:
    return {
        "architectures": [architecture],
        "hidden_size": hidden,
        "intermediate_size": 10,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": head_dim,
        "vocab_size": 12,
        "rope_theta": 100.0,
        "rms_norm_eps": 1e-6 if architecture == QWEN3 else 1e-5,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
    } | fields

def write_stand_in(folder: Path, config: dict, seed: int) -> Source:
    """Norm weights near one, matrices such that branches matter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    sizes = {
        "hidden": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": config["num_attention_heads"],
        "kv_heads": config["num_key_value_heads"],
        "head_dim": config["head_dim"],
        "ffn": config["intermediate_size"],
        "vocabulary": config["vocab_size"],
    }
    shapes = shapes_of(Source(folder, config, **sizes, tensors={}))
    draw = random.Random(seed)
    header, data = {}, b""
    for name, shape in shapes.items():
        if len(shape) == 1:
            values = [draw.uniform(0.7, 1.4) for _ in range(shape[0])]
        else:
            spread = 1.5 / shape[1] ** 0.5
            count = shape[0] * shape[1]
            values = [draw.gauss(0, spread) for _ in range(count)]
        part = bfloat16.from_floats(values)
        header[name] = {
            "dtype": "BF16",
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(part)],
        }
        data += part
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + data
    )
    return read_source(folder)
