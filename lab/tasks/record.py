"""Task files: one JSON object a question (docs/contract.md)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Callable, Iterator

from .document import (
    LEAST_TURNS,
    MOST_TURNS,
    Document,
    make_conversation,
    make_document,
    make_grid,
)
from .draw import Draw
from .families import FAMILIES
from .words import decode

LEAST_LENGTH = 1024
MOST_LENGTH = 131072
DEPTHS = range(0, 101, 10)
TASKS = [*FAMILIES, "conversation", "grid"]


@dataclass(frozen=True)
class Record:
    """One question of a task file, its document and its answer.

    A prompt is the context, a space, the question. With the begin token in
    front, the answer (its parts joined by spaces) and the end token behind, a
    document with one question has `length` tokens or up to four fewer; more
    questions about it count as if each followed the one before.

    `unordered`: the answers count in any order. `conversation`, `turn`: the
    turns of one conversation, counted from 0, follow each other; a turn's
    question begins with the turns before it, each ended by a period, so that
    each line can be answered alone. `depth`: in percent, where the fact is.
    """

    task: str
    length: int
    answers: list[str]
    context: str
    question: str
    unordered: bool = False
    conversation: str | None = None
    turn: int | None = None
    depth: int | None = None

    @property
    def prompt(self) -> str:
        return f"{self.context} {self.question}"

    @property
    def answer(self) -> str:
        return " ".join(self.answers)

    def fields(self) -> dict:
        """What a line of a task file holds: no field that says nothing."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value is not None and value is not False
        }


def least_length(task: str) -> int:
    return FAMILIES[task].least_length if task in FAMILIES else LEAST_LENGTH


def most_questions(task: str, length: int) -> int:
    """The most that one document of a length can be asked."""
    if task in FAMILIES:
        return FAMILIES[task].most_questions(length)
    return 1 if task == "grid" else min(MOST_TURNS, length // 256)


def least_questions(task: str) -> int:
    return LEAST_TURNS if task == "conversation" else 1


def _records(
    document: Document,
    task: str,
    length: int,
    so_far: Callable[[int], list[int]] = lambda turn: [],
    **fields: object,
) -> Iterator[Record]:
    context = decode(document.context)
    for number, turn in enumerate(document.turns):
        if task == "conversation":
            fields["turn"] = number
        yield Record(
            task,
            length,
            [decode(part) for part in turn.answers],
            context,
            decode([*so_far(number), *turn.question]),
            **fields,
        )


def records_of(
    task: str, length: int, seed: int, index: int, num_questions: int = 1
) -> Iterator[Record]:
    """Document `index` of a file depends on nothing but these five."""
    draw = Draw("test", task, length, seed, index)
    if task == "conversation":
        made = make_conversation(draw, length, num_questions)
        so_far = made.conversation_so_far
        name = f"{length}-{seed}-{index}"
        return _records(made, task, length, so_far, conversation=name)
    if task == "grid":
        depth = DEPTHS[index % len(DEPTHS)]
        made = make_grid(draw, length, depth)
        return _records(made, task, length, depth=depth)
    made = make_document(draw, task, length, num_questions)
    unordered = FAMILIES[task].unordered
    return _records(made, task, length, unordered=unordered)


def make_record(task: str, length: int, seed: int, index: int) -> Record:
    """The one question about document `index`."""
    return next(records_of(task, length, seed, index))


def make_records(
    task: str, length: int, seed: int, count: int, num_questions: int = 1
) -> Iterator[Record]:
    for index in range(count):
        yield from records_of(task, length, seed, index, num_questions)
