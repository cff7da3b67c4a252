"""Task files: one JSON object a document (docs/design.md section 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator

from .document import make_document
from .draw import Draw
from .words import decode


@dataclass(frozen=True)
class Record:
    """One document of a task file, its one question and its answer.

    A prompt is the context, a space, the question. With the begin token in
    front, the answer (its parts joined by spaces) and the end token behind, it
    has `length` tokens or up to four fewer.
    """

    task: str
    length: int
    answers: list[str]
    context: str
    question: str

    @property
    def prompt(self) -> str:
        return f"{self.context} {self.question}"

    @property
    def answer(self) -> str:
        return " ".join(self.answers)


def make_record(task: str, length: int, seed: int, index: int) -> Record:
    """Document `index` of a file depends on nothing but these four."""
    draw = Draw("test", task, length, seed, index)
    document = make_document(draw, task, length)
    turn = document.turns[0]
    return Record(
        task,
        length,
        [decode(part) for part in turn.answers],
        decode(document.context),
        decode(turn.question),
    )


def make_records(
    task: str, length: int, seed: int, count: int
) -> Iterator[Record]:
    return (make_record(task, length, seed, index) for index in range(count))
