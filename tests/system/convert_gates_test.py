#!/usr/bin/env python3
"""Published gates come as a pickle: the program says so and names the way out,
and what scripts/convert_gates writes is what it reads.

A stand-in for torch, as much of it as the script uses, is put before any real
one: it reads a file of safetensors and insists on weights_only.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "lab/models/winnow-lab"
FILE = "attn_gate_weights.safetensors"
PICKLED = "attn_gate_weights.pth"
PROMPT = "The code of the harbour is 4471. " * 24
WINNOW = ""

TORCH = '''
import json, struct
from pathlib import Path

uint8 = "torch.uint8"
NAMES = {"F32": "torch.float32", "BF16": "torch.bfloat16",
         "F16": "torch.float16", "I64": "torch.int64"}

class Array:
    def __init__(self, numbers): self.numbers = numbers
    def tobytes(self): return self.numbers

class Tensor:
    def __init__(self, dtype, shape, numbers):
        self.dtype, self.shape, self.numbers = dtype, shape, numbers
        self.is_flat = self.is_contiguous = False
    def flatten(self):
        self.is_flat = True
        return self
    def contiguous(self):
        self.is_contiguous = True
        return self
    def view(self, dtype):
        assert dtype == uint8 and self.is_flat and self.is_contiguous
        self.dtype = dtype
        return self
    def numpy(self):
        assert self.dtype == uint8, "numpy knows no bfloat16"
        return Array(self.numbers)

def load(path, map_location=None, weights_only=False):
    assert weights_only, "a pickle may do anything"
    assert map_location == "cpu"
    whole = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    tensors = {}
    for name, entry in json.loads(whole[8:8 + length]).items():
        if name == "__metadata__": continue
        begin, end = entry["data_offsets"]
        tensors[name] = Tensor(NAMES[entry["dtype"]], tuple(entry["shape"]),
                               whole[8 + length + begin:8 + length + end])
    return tensors
'''


def read_tensors(path: Path) -> tuple[dict, dict]:
    """What the file says of itself, and name -> dtype, shape, bytes."""
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8:8 + length])
    data = whole[8 + length:]
    metadata = header.pop("__metadata__", {})
    return metadata, {name: (entry["dtype"], entry["shape"],
                             data[slice(*entry["data_offsets"])])
                      for name, entry in header.items()}


def write_tensors(path: Path, names: list[str], dtype: str = "F32") -> None:
    entries = {name: {"dtype": dtype, "shape": [2],
                      "data_offsets": [8 * i, 8 * i + 8]}
               for i, name in enumerate(names)}
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8 * len(names)))


class ConvertGatesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "torch.py").write_text(TORCH)
        self.model, self.gates = self.root / "model", self.root / "gates"
        self.model.mkdir()
        self.gates.mkdir()
        for file in LAB.iterdir():
            if file.name != FILE:
                (self.model / file.name).symlink_to(file)

    def convert(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, ROOT / "scripts/convert_gates",
             self.gates / PICKLED, self.model, *arguments],
            capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(self.root)})

    def generate(self, model: Path, select: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [WINNOW, "generate", model, "--prompt", PROMPT, "--max-tokens", "8",
             "--select", select, "--batch-invariant", "--json", "--quiet"],
            capture_output=True, text=True)

    def refused(self, why: str, *arguments) -> None:
        done = self.convert(*arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(why, done.stderr)
        self.assertFalse((self.model / FILE).exists())

    def test_a_pickle_is_refused_and_converted(self) -> None:
        spec = "seerattention-r:budget=64"
        (self.gates / PICKLED).write_bytes((LAB / FILE).read_bytes())
        (self.model / PICKLED).symlink_to(self.gates / PICKLED)
        refused = self.generate(self.model, spec)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("attn_gate_weights.pth is not read", refused.stderr)
        self.assertIn("scripts/convert_gates", refused.stderr)

        (self.gates / "config.json").write_text(
            '{"seerattn_gate_block_size": 16}')
        done = self.convert()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_tensors(self.model / FILE),
                         read_tensors(LAB / FILE))
        answers = [json.loads(self.generate(model, spec).stdout)["token_ids"]
                   for model in (self.model, LAB)]
        self.assertEqual(*answers)

    def test_blocks_are_those_that_somebody_names(self) -> None:
        write_tensors(self.gates / PICKLED,
                      ["model.layers.0.self_attn.attn_gate.attngate_knorm"
                       ".weight", "model.norm.weight"])
        done = self.convert()
        self.assertIn("say nothing of their blocks", done.stdout)
        metadata, tensors = read_tensors(self.model / FILE)
        self.assertEqual(metadata, {})
        self.assertEqual(len(tensors), 1, "a weight of the model is no gate")
        self.convert("--block", "32")
        self.assertEqual(read_tensors(self.model / FILE)[0],
                         {"block_tokens": "32"})

    def test_what_is_wrong_is_said(self) -> None:
        self.refused("No such file")
        gate = "model.layers.0.self_attn.attn_gate.attngate_linear_q.weight"
        write_tensors(self.gates / PICKLED, ["model.norm.weight"])
        self.refused("has none among 1")
        write_tensors(self.gates / PICKLED, [gate], "I64")
        self.refused(f"{gate}: dtype must be one of")
        write_tensors(self.gates / PICKLED, [gate])
        (self.gates / "config.json").write_text(
            '{"seerattn_gate_block_size": 64}')
        self.refused("says, 64, is 16", "--block", "16")
        (self.root / "torch.py").write_text("raise ModuleNotFoundError")
        self.refused("needs torch")


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
