"""Gradients against differences, and a gate that learns. Needs numpy."""

import unittest

try:
    import numpy as np
except ModuleNotFoundError:
    raise unittest.SkipTest("needs numpy: scripts/bootstrap gates") from None

from lab.gates.attention import Seen
from lab.gates.distil import Gate, train
from lab.gates.documents import Text

HEADS, GROUP, DIM, ROWS, BLOCKS, BLOCK = 2, 3, 8, 5, 7, 4


def drawn_text(seed: int) -> Text:
    draw = np.random.default_rng(seed)
    wanted = draw.random((HEADS, ROWS, BLOCKS))
    own = np.arange(ROWS) + BLOCKS - ROWS + 1
    wanted[:, np.arange(BLOCKS) >= own[:, None]] = 0
    wanted /= wanted.sum(-1, keepdims=True)
    seen = Seen(
        draw.normal(size=(HEADS, ROWS, GROUP * DIM)),
        draw.normal(size=(HEADS, BLOCKS, 3 * DIM)),
        wanted,
        wanted,
    )
    return Text("drawn", [seen], own * BLOCK, np.arange(BLOCKS) * BLOCK, own)


class DistilTest(unittest.TestCase):
    def gate(self) -> Gate:
        gate = Gate(HEADS, GROUP, DIM, theta=100.0)
        draw = np.random.default_rng(3)
        gate.weights = [draw.normal(size=w.shape) for w in gate.weights]
        return gate

    def test_gradients_are_those_of_differences(self) -> None:
        text, gate = drawn_text(1), self.gate()
        _, gradients = gate.learn(text, 0)
        draw = np.random.default_rng(2)
        for weight, gradient in zip(gate.weights, gradients):
            for _ in range(20):
                place = tuple(draw.integers(0, n) for n in weight.shape)
                kept, losses = weight[place], []
                for change in (1e-4, -1e-4):
                    weight[place] = kept + change
                    losses.append(gate.learn(text, 0)[0])
                weight[place] = kept
                slope = (losses[0] - losses[1]) / 2e-4
                self.assertAlmostEqual(slope, gradient[place], delta=1e-5)

    def test_nothing_is_lost_where_shares_are_as_wanted(self) -> None:
        text, gate = drawn_text(1), self.gate()
        z = gate.scores(text, 0)
        shares = np.exp(z - z.max(-1, keepdims=True))
        text.layers[0].wanted = shares / shares.sum(-1, keepdims=True)
        loss, gradients = gate.learn(text, 0)
        self.assertAlmostEqual(loss, 0, places=6)
        for gradient in gradients:
            self.assertLess(np.abs(gradient).max(), 1e-6)

    def test_learns(self) -> None:
        losses = []
        gate = Gate(HEADS, GROUP, DIM, theta=100.0)
        train([gate], [drawn_text(1)], 60, 0.02, lambda _, x: losses.append(x))
        self.assertLess(losses[-1], 0.5 * losses[0])


if __name__ == "__main__":
    unittest.main()
