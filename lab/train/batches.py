"""Training batches from the task grammar, made by worker processes.

Every step has the same number of tokens, whatever the length of its
documents. A batch is decided by the run's seed and its number alone.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass

import numpy as np

from lab.tasks.document import make_document
from lab.tasks.draw import Draw
from lab.tasks.families import FAMILIES
from lab.tasks.words import PAD

# What a document is asked about. Variable tracking has the fewest answer
# tokens a document, so it gets the most documents.
SHARES = {"niah": 0.2, "multikey": 0.25, "chain": 0.25, "vt": 0.3}
TASKS = list(FAMILIES)


@dataclass
class Batch:
    """tokens, targets, weights: [documents, length]; tasks: [documents].

    A weight is zero where the target is no answer. A document of n answer
    tokens weighs sqrt(n): many answers count for more, but not n times.
    """

    stage: int
    number: int
    tokens: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    tasks: np.ndarray


def most_questions(length: int) -> int:
    return min(32, max(8, length // 64))


def _draw_weighted(draw: Draw, shares: dict) -> object:
    left = draw.uniform(0.0, sum(shares.values()))
    for item, share in shares.items():
        left -= share
        if left < 0:
            return item
    return item


def make_batch(
    seed: int, stage: int, number: int, lengths: dict[int, float], size: int
) -> Batch:
    """`lengths`: how likely each length is; `size`: tokens of the batch."""
    draw = Draw("train", seed, number)
    length = _draw_weighted(draw, lengths)
    documents = size // length
    tokens = np.full((documents, length), PAD, np.uint16)
    weights = np.zeros((documents, length), np.float32)
    tasks = np.zeros(documents, np.uint8)
    for row in range(documents):
        task = _draw_weighted(draw, SHARES)
        asked = draw.between(1, most_questions(length))
        document = make_document(draw, task, length, asked)
        text, is_answer = document.training_tokens()
        tokens[row, : len(text)] = text
        # The weight of a target lies where it is predicted: one place before.
        weights[row, : len(text) - 1] = is_answer[1:]
        weights[row] /= np.sqrt(sum(is_answer))
        tasks[row] = TASKS.index(task)
    targets = np.full_like(tokens, PAD)
    targets[:, :-1] = tokens[:, 1:]
    return Batch(stage, number, tokens, targets, weights, tasks)


class BatchMaker:
    """Owns the worker processes; the training loop asks it for batches."""

    def __init__(
        self,
        seed: int,
        lengths_by_stage: list[dict[int, float]],
        size: int,
        first_number: int,
    ) -> None:
        context = multiprocessing.get_context("fork")
        self._stage = context.Value("i", 0)
        self._number = context.Value("q", first_number)
        self._queue = context.Queue(maxsize=32)
        self._lengths_by_stage = lengths_by_stage
        self._seed, self._size = seed, size
        workers = max(1, (os.cpu_count() or 2) - 2)
        self._workers = [
            context.Process(target=self._work, daemon=True)
            for _ in range(workers)
        ]
        self.seconds_waited = 0.0

    def start(self, stage: int) -> None:
        self._stage.value = stage
        for worker in self._workers:
            worker.start()

    def _work(self) -> None:
        while True:
            with self._number.get_lock():
                number = self._number.value
                self._number.value += 1
            stage = self._stage.value
            lengths = self._lengths_by_stage[stage]
            self._queue.put(
                make_batch(self._seed, stage, number, lengths, self._size)
            )

    def next(self, stage: int) -> Batch:
        """The next batch of `stage`; what was made for an earlier is lost."""
        self._stage.value = stage
        began = time.monotonic()
        while True:
            batch = self._queue.get()
            if batch.stage == stage:
                self.seconds_waited += time.monotonic() - began
                return batch

    def stop(self) -> None:
        for worker in self._workers:
            worker.terminate()
