"""Training batches from the task grammar, made by worker processes.

Every batch has the same number of tokens, whatever the length of its
documents. A batch is decided by the run's seed and its number alone.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass

import numpy as np

from lab.tasks.draw import Draw
from lab.tasks.words import END, PAD, encode
from lab.train.curriculum import Stage
from lab.train.portions import (
    FAMILY_NAMES,
    choose_weighted,
    sources_of,
    training_document,
    with_few_digits,
)

_PERIOD = encode(".")[0]
MOST_GAPS = 8
LABELS = {"": 0} | {name: i for i, name in enumerate(FAMILY_NAMES, start=1)}


@dataclass
class Batch:
    """tokens, targets, positions, labels, weights, sources: [documents, length].

    A label says whose answer the target belongs to (0: none); a weight is zero
    where the target is no answer. The n answer tokens of a family in a
    document weigh sqrt(n): many count for more, but not n times. A source is
    where the target stands in the document, if the stage points at it and it is
    known, else -1.
    """

    stage: int
    number: int
    tokens: np.ndarray
    targets: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    sources: np.ndarray


def spread_positions(
    draw: Draw, tokens: np.ndarray, longest: int
) -> np.ndarray:
    """Positions of a document as if it were cut out of a longer one.

    Gaps behind one to eight of its sentences let a short document show
    distances of up to `longest` tokens (Zhu et al. 2023, "PoSE", skips
    positions between chunks to the same end). tokens: [length] -> [length]
    """
    length = len(tokens)
    ends = np.flatnonzero(tokens == _PERIOD)
    num_gaps = draw.between(1, MOST_GAPS)
    whole = int(draw.random() * (longest - length))
    cuts = sorted(draw.below(whole + 1) for _ in range(num_gaps - 1))
    sizes = np.diff([0, *cuts, whole])
    steps = np.ones(length, np.int64)
    steps[0] = 0
    for size in sizes:
        place = int(ends[draw.below(len(ends))]) + 1 if len(ends) else 1
        if place < length:
            steps[place] += size
    return np.cumsum(steps)


def weigh(labels: np.ndarray) -> np.ndarray:
    """labels: [length] -> weights [length]"""
    counts = np.bincount(labels, minlength=len(LABELS)).astype(np.float32)
    shares = 1.0 / np.sqrt(np.maximum(counts, 1.0))
    shares[0] = 0.0
    return shares[labels]


def make_batch(
    seed: int, stage: int, number: int, plan: Stage, size: int
) -> Batch:
    """`size`: tokens of a whole batch."""
    draw = Draw("train", seed, number)
    length = choose_weighted(draw, plan.lengths)
    shape = (int(size * plan.batch_share) // length, length)
    tokens = np.full(shape, PAD, np.uint16)
    targets = np.full(shape, PAD, np.uint16)
    labels = np.zeros(shape, np.uint8)
    weights = np.zeros(shape, np.float32)
    sources = np.full(shape, -1, np.int32)
    positions = np.tile(np.arange(length, dtype=np.int32), (shape[0], 1))
    for row in range(shape[0]):
        document = training_document(
            draw, length, plan.core_only, plan.other_shares
        )
        # Where one turn follows another a task file has a period (record.py),
        # a server's conversation the end token that the model itself wrote.
        separator = END if draw.random() < 0.5 else _PERIOD
        told = document.training(separator)
        text = with_few_digits(draw, told)
        end = len(text.tokens)
        tokens[row, :end] = text.tokens
        targets[row, :end] = text.targets
        labels[row, :end] = [LABELS[family] for family in text.families]
        weights[row] = weigh(labels[row])
        if plan.pointing:
            sources[row, :end] = sources_of(told)
        if length < plan.longest and draw.random() < plan.spread_share:
            positions[row] = spread_positions(draw, tokens[row], plan.longest)
    return Batch(
        stage, number, tokens, targets, positions, labels, weights, sources
    )


class BatchMaker:
    """Owns the worker processes; the training loop asks it for batches."""

    def __init__(
        self, seed: int, stages: list[Stage], size: int, first_number: int
    ) -> None:
        context = multiprocessing.get_context("fork")
        self._stage = context.Value("i", 0)
        self._number = context.Value("q", first_number)
        self._queue = context.Queue(maxsize=32)
        self._stages = stages
        self._seed, self._size = seed, size
        workers = max(1, len(os.sched_getaffinity(0)) - 2)
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
            plan = self._stages[stage]
            self._queue.put(
                make_batch(self._seed, stage, number, plan, self._size)
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
