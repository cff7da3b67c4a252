"""Tests of shards: what is written can be read again, tensor by tensor."""

from __future__ import annotations

import json
import struct
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

from .construct import Tensor
from .shards import divide, write_shards


def tensor(name: str, count: int, value: int) -> Tensor:
    def make() -> Iterator[bytes]:
        for _ in range(count):  # A block a number: many small ones.
            yield struct.pack("<H", value)

    return Tensor(name, [count], make)


class ShardsTest(unittest.TestCase):
    def test_what_is_written_is_found_by_the_index(self):
        tensors = [tensor(f"t{i}", 10 + i, i) for i in range(7)]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.assertEqual(write_shards(folder, tensors, 50), 5)
            index = json.loads(
                (folder / "model.safetensors.index.json").read_text()
            )
            total = sum(made.num_bytes for made in tensors)
            self.assertEqual(index["metadata"], {"total_size": total})
            names = [made.name for made in tensors]
            self.assertEqual(list(index["weight_map"]), names)
            for made in tensors:
                data = (folder / index["weight_map"][made.name]).read_bytes()
                (length,) = struct.unpack_from("<Q", data)
                self.assertEqual(length % 8, 0)
                entry = json.loads(data[8 : 8 + length])[made.name]
                begin, end = (8 + length + at for at in entry["data_offsets"])
                self.assertEqual(entry["dtype"], "BF16")
                self.assertEqual(entry["shape"], made.shape)
                self.assertEqual(data[begin:end], b"".join(made.make()))

    def test_shards_are_as_full_as_can_be(self):
        sizes = [4, 4, 4, 100, 1, 1]
        tensors = [tensor(str(i), size, 0) for i, size in enumerate(sizes)]
        names = [[t.name for t in shard] for shard in divide(tensors, 16)]
        self.assertEqual(names, [["0", "1"], ["2"], ["3"], ["4", "5"]])


if __name__ == "__main__":
    unittest.main()
