"""Tests that the committed models and golden answers fit the code."""

from __future__ import annotations

import json
import struct
import unittest
import zlib
from pathlib import Path

from lab.tasks.record import make_record
from lab.tasks.words import END, encode
from lab.train.folder import folder_texts
from lab.train.shape import WINNOW_LAB, WINNOW_LAB_QWEN3, Shape

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / "lab/models"
GOLDEN = ROOT / "tests/golden/winnow_lab_greedy.json"
# Its shape, and the most bytes that its folder may take.
COMMITTED = {
    "winnow-lab": (WINNOW_LAB, 25_000_000),
    "winnow-lab-qwen3": (WINNOW_LAB_QWEN3, 5_000_000),
}


def expected_shapes(shape: Shape) -> dict[str, list[int]]:
    q_size = shape.heads * shape.head_dim
    kv_size = shape.kv_heads * shape.head_dim
    hidden, ffn = shape.hidden, shape.ffn
    layer = {
        "input_layernorm": [hidden],
        "self_attn.q_proj": [q_size, hidden],
        "self_attn.k_proj": [kv_size, hidden],
        "self_attn.v_proj": [kv_size, hidden],
        "self_attn.o_proj": [hidden, q_size],
        "post_attention_layernorm": [hidden],
        "mlp.gate_proj": [ffn, hidden],
        "mlp.up_proj": [ffn, hidden],
        "mlp.down_proj": [hidden, ffn],
    }
    if shape.qk_norm:
        layer["self_attn.q_norm"] = [shape.head_dim]
        layer["self_attn.k_norm"] = [shape.head_dim]
    shapes = {
        "model.embed_tokens.weight": [shape.vocabulary, hidden],
        "model.norm.weight": [hidden],
    }
    for index in range(shape.layers):
        for name, sizes in layer.items():
            shapes[f"model.layers.{index}.{name}.weight"] = sizes
    return shapes


class FolderTest(unittest.TestCase):
    def test_texts_are_what_the_code_writes(self):
        for model, (shape, _) in COMMITTED.items():
            for name, text in folder_texts(shape).items():
                written = (MODELS / model / name).read_text()
                self.assertEqual(written, text, f"{model}/{name}")

    def test_weights_are_whole(self):
        for model, (shape, _) in COMMITTED.items():
            path = MODELS / model / "model.safetensors"
            with path.open("rb") as file:
                (header_bytes,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(header_bytes))
            header.pop("__metadata__")
            self.assertEqual(
                {name: entry["shape"] for name, entry in header.items()},
                expected_shapes(shape),
            )
            self.assertEqual({e["dtype"] for e in header.values()}, {"BF16"})
            end = max(entry["data_offsets"][1] for entry in header.values())
            self.assertEqual(path.stat().st_size, 8 + header_bytes + end)

    def test_the_folders_are_small(self):
        for model, (_, most_bytes) in COMMITTED.items():
            files = (MODELS / model).iterdir()
            total = sum(path.stat().st_size for path in files)
            self.assertLessEqual(total, most_bytes, model)


class GoldenTest(unittest.TestCase):
    def test_prompts_have_not_drifted_and_most_answers_are_right(self):
        entries = json.loads(GOLDEN.read_text())
        num_right = 0
        for entry in entries:
            record = make_record(
                entry["task"], entry["length"], entry["seed"], entry["index"]
            )
            crc32 = zlib.crc32(record.prompt.encode())
            self.assertEqual(crc32, entry["prompt_crc32"], entry)
            self.assertEqual(
                len(encode(record.prompt)) + 1, entry["prompt_tokens"]
            )
            for prefix in ("", "bfloat16_"):
                tokens = entry[f"{prefix}token_ids"]
                self.assertEqual(len(tokens), len(entry[f"{prefix}margins"]))
                self.assertTrue(tokens[-1] == END or len(tokens) == 24)
            num_right += entry["token_ids"] == [*encode(record.answer), END]
        self.assertEqual(len(entries), 68)
        self.assertGreaterEqual(num_right, 0.95 * len(entries))


if __name__ == "__main__":
    unittest.main()
