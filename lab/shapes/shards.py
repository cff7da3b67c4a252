"""Writes tensors as a stream: safetensors shards and their index."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path

from .construct import Tensor

SHARD_BYTES = 4 << 30


def divide(tensors: Iterable[Tensor], most_bytes: int) -> list[list[Tensor]]:
    """Tensors in their order, a shard as full as can be; one at least."""
    shards: list[list[Tensor]] = []
    room = 0
    for tensor in tensors:
        if tensor.num_bytes > room or not shards:
            shards.append([])
            room = most_bytes
        shards[-1].append(tensor)
        room -= tensor.num_bytes
    return shards


def header(tensors: list[Tensor]) -> bytes:
    """The length and the JSON, filled up with spaces to 8 bytes."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in tensors:
        end = at + tensor.num_bytes
        entries[tensor.name] = {
            "dtype": "BF16",
            "shape": tensor.shape,
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    return struct.pack("<Q", len(text)) + text


def write_shard(path: Path, tensors: list[Tensor]) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(header(tensors))
        for tensor in tensors:
            num_bytes = 0
            for block in tensor.make():
                view = memoryview(block)
                while view:  # An unbuffered write may take a part.
                    view = view[file.write(view) :]
                num_bytes += len(block)
            assert num_bytes == tensor.num_bytes, (tensor, num_bytes)


def write_shards(
    folder: Path, tensors: Iterable[Tensor], most_bytes: int = SHARD_BYTES
) -> int:
    """Shards and model.safetensors.index.json; how many shards."""
    shards = divide(tensors, most_bytes)
    where = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / name, shard)
        where |= {tensor.name: name for tensor in shard}
    total = sum(tensor.num_bytes for shard in shards for tensor in shard)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    text = json.dumps(index, indent=1) + "\n"
    (folder / "model.safetensors.index.json").write_text(text)
    return len(shards)
