"""Gates learn what their checkpoint attends to (SeerAttention-R, arXiv
2506.08889, 3.2).

The loss is KL(wanted, softmax(q k / sqrt(d))) over the blocks before a row's
own; gradients are written out, Adam steps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lab.gates.attention import angles, turn
from lab.gates.documents import Text

BETAS = (0.9, 0.99)
LAST_RATE_SHARE = 0.02


class Gate:
    """One layer's: owns its weights and Adam's moments.

    It begins as the group's mean q against the block's mean key: where plain
    means of blocks are. `weights`: of q [kv_heads, group * d, d], of keys
    [kv_heads, 3 * d, d].
    """

    def __init__(
        self, kv_heads: int, group: int, dim: int, theta: float
    ) -> None:
        self.dim, self.theta = dim, theta
        same = np.eye(dim, dtype=np.float32)
        none = np.zeros_like(same)
        of_q = np.concatenate([same / group] * group)
        of_k = np.concatenate([none, none, same])
        self.weights = [np.stack([w] * kv_heads) for w in (of_q, of_k)]
        self._moments = [
            [np.zeros_like(w) for w in self.weights] for _ in BETAS
        ]
        self._num_steps = 0

    def scores(self, text: Text, layer: int) -> np.ndarray:
        """[kv_heads, rows, blocks]; -infinity from the own block on."""
        return self._forward(text, layer)[0]

    def _forward(self, text: Text, layer: int) -> tuple:
        """The scores, and of q and of keys: turned, cos, sin."""
        seen = text.layers[layer]
        sides = []
        for x, weight, positions in (
            (seen.q, self.weights[0], text.row_positions),
            (seen.pools, self.weights[1], text.block_positions),
        ):
            cos, sin = angles(positions, self.theta, self.dim)
            sides.append((turn(x @ weight, cos, sin), cos, sin))
        (q, *_), (k, *_) = sides
        z = q @ k.swapaxes(1, 2) * np.float32(self.dim**-0.5)
        z[:, np.arange(z.shape[-1]) >= text.own_blocks[:, None]] = -np.inf
        return z, *sides

    def learn(self, text: Text, layer: int) -> tuple[float, list[np.ndarray]]:
        """The loss on a document, mean over rows, and its gradients."""
        seen = text.layers[layer]
        z, (q, *turn_q), (k, *turn_k) = self._forward(text, layer)
        z -= z.max(-1, keepdims=True)
        log_share = z - np.log(np.exp(z).sum(-1, keepdims=True))
        count = seen.wanted.shape[0] * seen.wanted.shape[1]
        is_wanted = seen.wanted > 0
        wanted = seen.wanted[is_wanted]
        loss = wanted @ (np.log(wanted) - log_share[is_wanted]) / count
        dz = np.exp(log_share) - seen.wanted
        dz *= np.float32(self.dim**-0.5 / count)
        # Turning back is the transposed turn.
        dq = turn(dz @ k, turn_q[0], -turn_q[1])
        dk = turn(dz.swapaxes(1, 2) @ q, turn_k[0], -turn_k[1])
        return float(loss), [
            seen.q.swapaxes(1, 2) @ dq,
            seen.pools.swapaxes(1, 2) @ dk,
        ]

    def step(self, gradients: list[np.ndarray], rate: float) -> None:
        """By Adam."""
        self._num_steps += 1
        shares = [1 - beta**self._num_steps for beta in BETAS]
        for weight, gradient, first, second in zip(
            self.weights, gradients, *self._moments
        ):
            first += (1 - BETAS[0]) * (gradient - first)
            second += (1 - BETAS[1]) * (gradient**2 - second)
            scale = np.sqrt(second / shares[1]) + 1e-12
            weight -= rate * (first / shares[0]) / scale


def caught(gate: Gate, text: Text, layer: int, share: int) -> np.ndarray:
    """Of the attention before the own block what the best 1/share of the
    blocks hold, by the gate and by the attention itself, and all of it."""
    mass = text.layers[layer].mass
    count = max(1, mass.shape[-1] // share)
    found = []
    for scores in (gate.scores(text, layer), mass):
        best = np.argpartition(-scores, count - 1, axis=-1)[..., :count]
        found.append(np.take_along_axis(mass, best, -1).sum())
    return np.array([*found, mass.sum()])


def train(
    gates: list[Gate],
    texts: list[Text],
    num_rounds: int,
    rate: float,
    report: Callable[[int, float], None],
) -> None:
    """Each round steps through all texts in a drawn order, at a rate that falls
    as a cosine does; then report(rounds done, mean loss)."""
    order = np.random.default_rng(1)
    num_steps, step = num_rounds * len(texts), 0
    for done in range(1, num_rounds + 1):
        losses = []
        for index in order.permutation(len(texts)):
            share = 0.5 + 0.5 * math.cos(math.pi * step / num_steps)
            now = rate * (LAST_RATE_SHARE + (1 - LAST_RATE_SHARE) * share)
            for layer, gate in enumerate(gates):
                loss, gradients = gate.learn(texts[index], layer)
                gate.step(gradients, now)
                losses.append(loss)
            step += 1
        report(done, sum(losses) / len(losses))
