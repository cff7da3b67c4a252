"""What is seen of attention, against plain Python in float64. Needs numpy."""

import math
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
except ModuleNotFoundError:
    raise unittest.SkipTest("needs numpy: scripts/bootstrap gates") from None

from lab.gates.attention import Reader, narrow, widen
from lab.shapes.oracle import Oracle, _rotate, floats_of
from lab.shapes.stand_in import config_of, write_stand_in
from lab.shapes.targets import LLAMA, QWEN3

BLOCK, FIRST_ROW = 4, 9
TOKENS = [3, 7, 1, 11, 0, 5, 5, 2, 9, 4, 8, 6, 10, 1, 3]


class Watcher(Oracle):
    """Keeps what each layer's attention is computed from."""

    def _attend(self, at: str, hs: list) -> list:
        self.hs[at] = hs
        return super()._attend(at, hs)

    def watch(self, tokens: list[int]) -> list[list]:
        """Of each layer: q and k before RoPE, [tokens][heads][d]."""
        self.hs = {}
        self.logits(tokens)
        return [
            [[self._heads(h, at, which) for h in hs] for which in ("q", "k")]
            for at, hs in self.hs.items()
        ]

    def shares(self, q: list, k: list, row: int, head: int) -> list[float]:
        """Of each key up to the row's own."""
        theta = self.config["rope_theta"]
        kv_head = head * len(k[0]) // len(q[0])
        of_q = _rotate(q[row][head], row, theta)
        scores = [
            sum(map(float.__mul__, of_q, _rotate(k[t][kv_head], t, theta)))
            for t in range(row + 1)
        ]
        weights = [math.exp(s / math.sqrt(self.dim)) for s in scores]
        return [w / sum(weights) for w in weights]


class AttentionTest(unittest.TestCase):
    def check_layer(self, oracle: Watcher, seen, q: list, k: list) -> None:
        """Against loops over rows, blocks and heads."""
        kv_heads, group = len(k[0]), len(q[0]) // len(k[0])
        for kv_head in range(kv_heads):
            for i, row in enumerate(range(FIRST_ROW, len(TOKENS))):
                heads = range(kv_head * group, (kv_head + 1) * group)
                flat = [x for head in heads for x in q[row][head]]
                np.testing.assert_allclose(seen.q[kv_head, i], flat, atol=1e-4)
                shares = [oracle.shares(q, k, row, head) for head in heads]
                most, mass = [], []
                for block in range(len(TOKENS) // BLOCK):
                    parts = [s[block * BLOCK :][:BLOCK] for s in shares]
                    before = block < row // BLOCK
                    most.append(max(map(max, parts)) if before else 0)
                    total = sum(map(sum, parts)) if before else 0
                    mass.append(total / group)
                most = [m / sum(most) for m in most]
                for ours, theirs in ((seen.wanted, most), (seen.mass, mass)):
                    np.testing.assert_allclose(
                        ours[kv_head, i], theirs, atol=1e-4
                    )
            for block in range(len(TOKENS) // BLOCK):
                keys = [k[block * BLOCK + t][kv_head] for t in range(BLOCK)]
                columns = list(zip(*keys))
                pool = [
                    *map(max, columns),
                    *map(min, columns),
                    *(sum(c) / BLOCK for c in columns),
                ]
                np.testing.assert_allclose(
                    seen.pools[kv_head, block], pool, atol=1e-4
                )

    def test_is_that_of_plain_loops(self) -> None:
        for architecture in (LLAMA, QWEN3):
            config = config_of(architecture, hidden=16, head_dim=8)
            with self.subTest(architecture), tempfile.TemporaryDirectory() as f:
                source = write_stand_in(Path(f) / "model", config, seed=5)
                oracle = Watcher(source.config, floats_of(source.tensors))
                seen = Reader(source, BLOCK).read(
                    np.array(TOKENS), np.arange(len(TOKENS)), FIRST_ROW
                )
                watched = oracle.watch(TOKENS)
                self.assertEqual(len(seen), len(watched))
                for layer, (q, k) in zip(seen, watched):
                    self.check_layer(oracle, layer, q, k)

    def test_narrows_to_the_nearest(self) -> None:
        numbers = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, -1.004], np.float32)
        narrowed = widen(narrow(numbers), (-1,))
        expected = [1, 1, 1 + 2**-6, -1.0078125]
        np.testing.assert_array_equal(narrowed, np.array(expected, np.float32))


if __name__ == "__main__":
    unittest.main()
