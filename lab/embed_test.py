"""Tests of lab/embed, the command."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

from lab.shapes.stand_in import config_of, write_stand_in
from lab.shapes.targets import LLAMA, TARGETS

EMBED = Path(__file__).resolve().parent / "embed"
TEXTS = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def load() -> object:
    """The script as a module, so that a shape can be narrowed for a test."""
    loader = importlib.machinery.SourceFileLoader("lab_embed", str(EMBED))
    spec = importlib.util.spec_from_loader("lab_embed", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class EmbedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.folder / "model"
        self.out = self.folder / "out"
        self.config = config_of(LLAMA, 8, 4)
        write_stand_in(self.model, self.config, seed=1)
        for name in TEXTS:
            (self.model / name).write_text(f'"{name}"')

    def run_it(self, *arguments: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, EMBED, *map(str, arguments)],
            capture_output=True,
            text=True,
        )

    def test_writes_a_folder_whole(self):
        target = replace(
            TARGETS["llama-3.1-8b"],
            hidden=32,
            head_dim=8,
            ffn=20,
            vocabulary=30,
        )
        module = load()
        arguments = f"embed {self.model} --shape llama-3.1-8b --layers 3"
        printed = io.StringIO()
        with (
            mock.patch.dict(module.TARGETS, {"llama-3.1-8b": target}),
            mock.patch.object(sys, "argv", [*arguments.split(), str(self.out)]),
            contextlib.redirect_stdout(printed),
        ):
            self.assertEqual(module.main(), 0)
        self.assertIn("3 layers", printed.getvalue())
        config = json.loads((self.out / "config.json").read_text())
        self.assertEqual(config["num_hidden_layers"], 3)
        self.assertEqual(config["max_position_embeddings"], 4096)
        for name in TEXTS:
            self.assertEqual((self.out / name).read_text(), f'"{name}"')
        self.assertTrue((self.out / "model.safetensors.index.json").exists())
        self.assertEqual(
            sorted(self.folder.iterdir()), [self.model, self.out]
        )

    def expect(self, code: int, message: str, *arguments: object) -> None:
        ran = self.run_it(*arguments)
        self.assertEqual((ran.returncode, ran.stdout), (code, ""), ran.stderr)
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        self.assertTrue(ran.stderr.startswith("embed: "), ran.stderr)
        self.assertIn(message, ran.stderr)
        self.assertFalse(self.out.exists())

    def test_bad_arguments_are_one_line_and_exit_2(self):
        good = [self.model, "--shape", "llama-3.1-8b"]
        self.expect(2, "--shape", self.model, self.out)
        unknown = [self.model, "--shape", "gpt", self.out]
        self.expect(2, "invalid choice: 'gpt'", *unknown)
        for layers in ("0", "1025", "-1", "x", "1_0"):
            self.expect(2, "--layers", *good, "--layers", layers, self.out)

    def test_bad_models_are_one_line_and_exit_1(self):
        good = ["--shape", "llama-3.1-8b", self.out]
        self.expect(1, "No such file", self.folder / "none", *good)
        self.expect(
            1, "--layers must be 2 at least", self.model, *good, "--layers", "1"
        )
        other = [self.model, "--shape", "qwen3-14b", self.out]
        self.expect(1, "must be Qwen3ForCausalLM", *other)
        (self.model / TEXTS[0]).unlink()
        self.expect(1, f"{TEXTS[0]}: no such file", self.model, *good)
        weights = self.model / "model.safetensors"
        data = weights.read_bytes()
        weights.write_bytes(data[:-2])
        self.expect(1, "must have ", self.model, *good)
        for bad in (b"", data[:50], b"\0" * 16, b"\x01" + data[1:]):
            weights.write_bytes(bad)
            self.expect(1, "model.safetensors: ", self.model, *good)
        weights.write_bytes(data)
        bad_fields = [
            ("rope_scaling", {"type": "yarn"}, "rope_scaling must be null"),
            ("architectures", ["X"], "architectures must be"),
            ("hidden_size", 9, "must be {'dtype': 'BF16', 'shape': [12, 9]}"),
            ("hidden_size", None, "hidden_size must be above 0, is None"),
            ("num_key_value_heads", 3, "the one divide the other"),
            ("num_hidden_layers", 3, "lacks model.layers.2."),
        ]
        for name, value, message in bad_fields:
            text = json.dumps(self.config | {name: value})
            (self.model / "config.json").write_text(text)
            self.expect(1, message, self.model, *good)
        for text in ("", "[1]", "{"):
            (self.model / "config.json").write_text(text)
            self.expect(1, "config.json: ", self.model, *good)

    def test_nothing_is_replaced(self):
        self.out.mkdir()
        ran = self.run_it(
            self.model, "--shape", "llama-3.1-8b", self.out
        )
        self.assertEqual(ran.returncode, 1)
        self.assertIn("exists already", ran.stderr)
        self.assertEqual(list(self.out.iterdir()), [])

    def test_what_a_run_left_that_was_cut_off_is_told(self):
        (self.folder / "out.partial").mkdir()
        good = [self.model, "--shape", "llama-3.1-8b", self.out]
        self.expect(1, "is of a run that was cut off; remove it", *good)


class CheckEmbedTest(unittest.TestCase):
    def test_bad_input_is_one_line(self):
        for status, words, arguments in (
            (2, "unknown shape 'gpt'", ["M", "--shapes", "llama-3.2-1b,gpt"]),
            (1, "/no/config.json: No", ["/no", "--shapes", "llama-3.2-1b"]),
        ):
            ran = subprocess.run(
                [sys.executable, EMBED.with_name("check_embed"), *arguments],
                capture_output=True,
                text=True,
            )
            self.assertEqual(ran.returncode, status)
            self.assertEqual(ran.stderr.count("\n"), 1)
            self.assertIn(words, ran.stderr)


if __name__ == "__main__":
    unittest.main()
