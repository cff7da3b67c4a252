"""What a task family says: facts to tell, and what is asked about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from .draw import Draw
from .words import DIGITS, NAMES, encode, ids_of

Tokens = list[int]

NAME_IDS = ids_of(NAMES)
DIGIT_IDS = ids_of(DIGITS)
PERIOD = encode(".")
CODE_DIGITS = 5


@dataclass
class Turn:
    """One question; its answer, in the parts that a task file lists."""

    question: Tokens
    answers: list[Tokens]
    family: str = ""

    @property
    def answer(self) -> Tokens:
        return [token for part in self.answers for token in part]

    @property
    def num_tokens(self) -> int:
        """Question, answer and the token that ends it."""
        return len(self.question) + len(self.answer) + 1


@dataclass
class Facts:
    """Statements to strew over a document, and the turns that follow it.

    `in_order`: the statements keep their order. `haystack`: "plain" sentences
    or the "noise" of five that repeat. `depths`: where each statement stands,
    in percent of the document, instead of a random place.
    """

    statements: list[Tokens]
    turns: list[Turn]
    in_order: bool = False
    haystack: str = "plain"
    depths: list[int] = field(default_factory=list)

    def num_tokens(self) -> int:
        """Statements, questions, answers, and an end token an answer."""
        told = sum(map(len, self.statements))
        return told + sum(turn.num_tokens for turn in self.turns)


@dataclass(frozen=True)
class Family:
    """How to make Facts for (draw, length, num_questions), and the limits.

    `most_questions`: the most that a document of a length can be asked; so
    many are asked as `make` is told. `unordered`: the parts of an answer count
    in any order.
    """

    make: Callable[[Draw, int, int], Facts]
    most_questions: Callable[[int], int]
    unordered: bool = False
    least_length: int = 1024


def at_most(limit: int) -> Callable[[int], int]:
    return lambda length: limit


def a_share(tokens_a_question: int) -> Callable[[int], int]:
    """A quarter of the document at most is what is asked."""
    return lambda length: max(1, length // 4 // tokens_a_question)


def code(draw: Draw) -> Tokens:
    return [draw.choose(DIGIT_IDS) for _ in range(CODE_DIGITS)]


def different(draw: Draw, count: int, size: int) -> list[tuple[int, ...]]:
    """`count` different tuples of `size` names."""
    made: dict[tuple[int, ...], None] = {}
    while len(made) < count:
        made[tuple(draw.choose(NAME_IDS) for _ in range(size))] = None
    return list(made)


def neighbours(draw: Draw, count: int) -> list[tuple[int, int]]:
    """Different pairs of names; every second shares the first with the last."""
    made: dict[tuple[int, int], None] = {}
    first = 0
    while len(made) < count:
        if len(made) % 2 == 0:
            first = draw.choose(NAME_IDS)
        made[first, draw.choose(NAME_IDS)] = None
    return list(made)
