"""Tests of the construction, against a float64 oracle in plain Python."""

from __future__ import annotations

import math
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from . import bfloat16
from .construct import Construction, Tensor, dyadic_shares, padded, spread
from .oracle import Oracle, floats_of
from .source import BadInput, Source
from .stand_in import config_of, write_stand_in
from .targets import LLAMA, QWEN3, TARGETS, Target

TOKENS = [1, 7, 3, 7, 11, 2, 3]
UNIT = 2.0**-9  # How far, of a number, bf16 rounds it at most.


def small_target(name: str, hidden: int, head_dim: int) -> Target:
    """The shape with its heads, but narrow, so that plain Python can run it."""
    sizes = {"hidden": hidden, "head_dim": head_dim}
    return replace(TARGETS[name], **sizes, ffn=24, vocabulary=17)


def weights_of(tensors: list[Tensor]) -> dict[str, list[float]]:
    return floats_of({t.name: b"".join(t.make()) for t in tensors})


class ConstructTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def source(self, name: str, hidden: int, head_dim: int, **fields) -> Source:
        config = config_of(TARGETS[name].source, hidden, head_dim, **fields)
        return write_stand_in(self.folder / name, config, seed=len(name))

    def large_logits(self, made: Construction) -> list[float]:
        weights = weights_of(list(made.tensors()))
        return Oracle(made.config(), weights).logits(TOKENS)

    def test_equal_where_every_factor_is_a_power_of_two(self):
        # hidden times 4 and head_dim times 4: norms are scaled by 1/2, q by 2.
        # Nothing is rounded, so both are one function, but for float64 sums.
        for name in TARGETS:
            source = self.source(name, 8, 2)
            made = Construction(source, small_target(name, 32, 8), 3)
            small = Oracle(source.config, floats_of(source.tensors))
            expected = small.logits(TOKENS)
            found = self.large_logits(made)
            for token, logit in enumerate(expected):
                self.assertAlmostEqual(found[token], logit, 9, (name, token))
            for logit in found[len(expected) :]:
                self.assertAlmostEqual(logit, expected[0], 9, name)

    def rounded(self, source: Source, name: str) -> list[str]:
        """The tensors that are scaled by no power of two."""
        kinds = ["norm.weight", "layernorm.weight"]
        kinds.append("k_norm.weight" if name[0] == "q" else "q_proj.weight")
        return [
            tensor
            for tensor in source.tensors
            if tensor.endswith(tuple(kinds)) and "q_norm" not in tensor
        ]

    def test_within_the_bound_of_what_is_rounded(self):
        # A weight w_j that is rounded moves by UNIT * |w_j| at most. To first
        # order a logit then moves by UNIT * sum_j |w_j * d logit / d w_j| at
        # most; derivatives are differences of the small model's own logits.
        # A tenth more is for the second order, which is UNIT times as large
        # times the number of layers that a change passes.
        for name in ("llama-3.1-8b", "minicpm4-8b", "qwen3-14b"):
            source = self.source(name, 6, 4, num_hidden_layers=1)
            weights = floats_of(source.tensors)
            small = Oracle(source.config, weights)
            expected = small.logits(TOKENS)
            bounds = [0.0] * len(expected)
            step = 1e-6
            for tensor in self.rounded(source, name):
                for j, weight in enumerate(weights[tensor]):
                    weights[tensor][j] = weight * (1 + step)
                    moved = small.logits(TOKENS)
                    weights[tensor][j] = weight
                    for token, logit in enumerate(moved):
                        change = abs(logit - expected[token]) / step
                        bounds[token] += UNIT * change
            made = Construction(source, small_target(name, 20, 8), 2)
            found = self.large_logits(made)
            differences = [abs(f - e) for f, e in zip(found, expected)]
            for token, difference in enumerate(differences):
                self.assertLess(difference, 1.1 * bounds[token], name)
            self.assertGreater(max(differences), 0, name)

    def test_heads_share_the_output_exactly(self):
        self.assertEqual(dyadic_shares(1), [1.0])
        self.assertEqual(dyadic_shares(3), [0.5, 0.25, 0.25])
        for name, target in TARGETS.items():
            source = self.source(name, 6, 4)
            copies = Construction(source, target, 2).copies
            self.assertEqual(len(copies), target.heads, name)
            for head in range(source.heads):
                shares = [share for one, share in copies if one == head]
                self.assertEqual(sum(shares), 1.0, name)
                self.assertTrue(all(math.frexp(s)[0] == 0.5 for s in shares))

    def test_layers_between_are_idle(self):
        source = self.source("llama-3.1-8b", 6, 4)
        made = Construction(source, small_target("llama-3.1-8b", 24, 8), 5)
        self.assertEqual(made.real_layers, {0: 0, 2: 1})
        weights = weights_of(list(made.tensors()))
        for layer in range(5):
            at = f"model.layers.{layer}."
            for name in ("self_attn.o_proj", "mlp.down_proj"):
                works = any(weights[f"{at}{name}.weight"])
                self.assertEqual(works, layer in (0, 2), (layer, name))
            self.assertTrue(any(weights[f"{at}self_attn.k_proj.weight"]))

    def test_sizes_are_the_targets(self):
        for name, target in TARGETS.items():
            made = Construction(self.source(name, 6, 4), target, target.layers)
            tensors = {t.name: t.shape for t in made.tensors()}
            config = made.config()
            self.assertEqual(config["num_hidden_layers"], target.layers)
            o = tensors["model.layers.1.self_attn.o_proj.weight"]
            self.assertEqual(o, [target.hidden, target.heads * target.head_dim])
            self.assertEqual("lm_head.weight" in tensors, not target.tied)
            norm = "model.layers.0.self_attn.q_norm.weight"
            self.assertEqual(norm in tensors, target.architecture == QWEN3)
            self.assertIs(config["tie_word_embeddings"], target.tied)

    def test_what_does_not_fit_is_one_line(self):
        target = small_target("llama-3.1-8b", 24, 8)
        cases = [
            ({"num_hidden_layers": 4}, "--layers must be 4 at least"),
            ({"hidden_size": 25}, "hidden is 25, more than the shape's 24"),
            ({"head_dim": 6}, "head_dim must divide the shape's 8, is 6"),
            ({"num_key_value_heads": 3}, "must divide the shape's 8, is 3"),
            ({"vocab_size": 18}, "vocabulary is 18, more than the shape's 17"),
        ]
        for fields, message in cases:
            config = config_of(LLAMA, 6, 4) | fields
            if "num_key_value_heads" in fields:
                config["num_attention_heads"] = 6
            source = write_stand_in(self.folder / "bad", config, seed=1)
            with self.assertRaises(BadInput) as raised:
                Construction(source, target, 3)
            self.assertIn(message, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaises(BadInput) as raised:
            Construction(source, TARGETS["qwen3-14b"], 3)
        self.assertIn("must be Qwen3ForCausalLM", str(raised.exception))


class PiecesTest(unittest.TestCase):
    def test_bf16_rounds_to_the_nearest_and_ties_to_even(self):
        cases = {1.0: 1.0, 1 + 2**-8: 1.0, 1 + 3 * 2**-8: 1 + 2**-6}
        cases |= {1 + 2**-8 + 2**-20: 1 + 2**-7, -0.1: -0.10009765625}
        for value, expected in cases.items():
            data = bfloat16.from_floats([value])
            self.assertEqual(bfloat16.to_floats(data)[0], expected, value)

    def test_scaling_by_a_power_of_two_is_exact(self):
        data = bytes(range(1, 64)) + b"\x3f"
        back = bfloat16.scale(bfloat16.scale(data, 0.25), 4.0)
        self.assertEqual(back, data)

    def test_dimensions_keep_their_frequency(self):
        self.assertEqual(spread(list("abcd"), 2, "-"), list("a-b-c-d-"))
        theta, d, times = 4e6, 64, 2
        placed = spread(list(range(d)), times, None)
        for at, i in enumerate(placed[: d * times // 2]):
            if i is not None:
                large = theta ** (-2 * at / (d * times))
                self.assertAlmostEqual(large, theta ** (-2 * i / d))

    def test_rows_are_filled_up(self):
        rows = [b"ab", None, b"cd"]
        made = b"".join(padded(rows, 5, 3, b"x"))
        self.assertEqual(made, b"ab\0x\0\0cd\0x\0\0x\0\0")


if __name__ == "__main__":
    unittest.main()
