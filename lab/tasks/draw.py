"""Random choices that are the same on any machine and Python version."""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Sequence, TypeVar

Item = TypeVar("Item")


class Draw:
    """A stream of random choices, decided by its key alone.

    Built on Random.random() only: Python promises that this one method gives
    the same numbers in every version. Keys of different words or numbers give
    unrelated streams, so "train" and "test" never share a document.
    """

    def __init__(self, *key: str | int) -> None:
        digest = sha256("/".join(map(str, key)).encode()).digest()
        self.random = Random(int.from_bytes(digest, "big")).random

    def below(self, limit: int) -> int:
        """One of 0 .. limit - 1."""
        return int(self.random() * limit)

    def between(self, least: int, most: int) -> int:
        """One of least .. most, both included."""
        return least + self.below(most - least + 1)

    def uniform(self, least: float, most: float) -> float:
        return least + (most - least) * self.random()

    def choose(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def shuffle(self, items: list) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different places of `items`, in random order."""
        pool = list(items)
        for place in range(count):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]
