"""The task families: which facts a document tells, and what is asked of it.

A family is a function of (draw, length, num_questions) that returns Facts; it
asks at most `num_questions` questions and leaves room for the document. All
text is token ids of words.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from .draw import Draw
from .words import DIGITS, NAMES, encode, ids_of

Tokens = list[int]


@dataclass
class Turn:
    """One question; its answer, in the parts that a task file lists."""

    question: Tokens
    answers: list[Tokens]

    @property
    def answer(self) -> Tokens:
        return [token for part in self.answers for token in part]


@dataclass
class Facts:
    """Statements to strew over a document, and the turns that follow it."""

    statements: list[Tokens]
    turns: list[Turn]
    in_order: bool = False

    def num_tokens(self) -> int:
        """Statements, questions, answers, and an end token an answer."""
        told = sum(map(len, self.statements))
        return told + sum(
            len(t.question) + len(t.answer) + 1 for t in self.turns
        )


_NAME_IDS = ids_of(NAMES)
_DIGIT_IDS = ids_of(DIGITS)
_PERIOD = encode(".")
_THE_CODE_OF = encode("the code of")
_IS = encode("is")
_WHAT_IS = encode("what is the code of")
_ANSWER = encode("? answer :")
_POINTS_TO = encode("points to")
_FOLLOW_FROM = encode("follow from")
_TO = encode("to")
_COLON = encode(":")
_VAR = encode("VAR")
_EQUALS = encode("=")
_FIND_ALL = encode("find all variables assigned the value")

CODE_DIGITS = 5
CODE_FACT_TOKENS = 12
CODE_TURN_TOKENS = 16
LINK_TOKENS = 5
MOST_LINKS = 1800
MOST_STEPS = 16


def _code(draw: Draw) -> Tokens:
    return [draw.choose(_DIGIT_IDS) for _ in range(CODE_DIGITS)]


def _codes_of_names(
    draw: Draw, owners: list[tuple[int, int]], num_asked: int
) -> Facts:
    codes = [_code(draw) for _ in owners]
    statements = [
        [*_THE_CODE_OF, *owner, *_IS, *code, *_PERIOD]
        for owner, code in zip(owners, codes)
    ]
    turns = [
        Turn([*_WHAT_IS, *owners[i], *_ANSWER], [codes[i]])
        for i in draw.sample(range(len(owners)), num_asked)
    ]
    return Facts(statements, turns)


def niah(draw: Draw, length: int, num_questions: int) -> Facts:
    """Needles in a haystack: one to eight codes among plain sentences."""
    del length  # Eight needles and their questions fit into any document.
    owners: dict[tuple[int, int], None] = {}
    num_needles = draw.between(1, 8)
    while len(owners) < num_needles:
        owners[draw.choose(_NAME_IDS), draw.choose(_NAME_IDS)] = None
    return _codes_of_names(draw, list(owners), min(num_needles, num_questions))


def multikey(draw: Draw, length: int, num_questions: int) -> Facts:
    """Codes everywhere; every second owner shares its neighbour's first name."""
    room = length - 1 - CODE_TURN_TOKENS * num_questions
    share = draw.uniform(0.3, 0.8)
    num_codes = max(4, int(share * room / CODE_FACT_TOKENS))
    owners: dict[tuple[int, int], None] = {}
    first = 0
    while len(owners) < num_codes:
        if len(owners) % 2 == 0:
            first = draw.choose(_NAME_IDS)
        owners[first, draw.choose(_NAME_IDS)] = None
    return _codes_of_names(draw, list(owners), min(num_codes, num_questions))


def chain(draw: Draw, length: int, num_questions: int) -> Facts:
    """A ring of pointers; every answer token is a retrieval of its own."""
    turn_tokens = 7 + MOST_STEPS
    room = length - 1 - turn_tokens * num_questions
    share = draw.uniform(0.2, 0.8)
    num_links = max(8, min(MOST_LINKS, int(share * room / LINK_TOKENS)))
    ring = draw.sample(_NAME_IDS, num_links)
    statements = [
        [here, *_POINTS_TO, there, *_PERIOD]
        for here, there in zip(ring, ring[1:] + ring[:1])
    ]
    turns = []
    for _ in range(num_questions):
        start = draw.below(num_links)
        num_steps = draw.between(1, min(MOST_STEPS, num_links - 1))
        path = [ring[(start + i) % num_links] for i in range(num_steps + 1)]
        question = [*_FOLLOW_FROM, path[0], *_TO, path[-1], *_COLON]
        turns.append(Turn(question, [[name] for name in path[1:]]))
    return Facts(statements, turns)


def vt(draw: Draw, length: int, num_questions: int) -> Facts:
    """Variable tracking: chains of assignments, interleaved, told in order."""
    num_chains = draw.between(1, max(1, min(6, length // 128)))
    chains = [draw.between(2, 5) for _ in range(num_chains)]
    names = draw.sample(_NAME_IDS, sum(chains))
    values: dict[tuple[int, ...], None] = {}
    while len(values) < num_chains:
        values[tuple(_code(draw))] = None
    # A draw without replacement of whose turn it is keeps every chain's order.
    order = [which for which, hops in enumerate(chains) for _ in range(hops)]
    draw.shuffle(order)
    told: list[Tokens] = [[] for _ in chains]
    value_of = list(values)
    statements = []
    for which in order:
        name = names.pop()
        source = [*_VAR, told[which][-1]] if told[which] else value_of[which]
        statements.append([*_VAR, name, *_EQUALS, *source, *_PERIOD])
        told[which].append(name)
    turns = [
        Turn([*_FIND_ALL, *value_of[i], *_COLON], [[name] for name in told[i]])
        for i in draw.sample(range(num_chains), min(num_chains, num_questions))
    ]
    return Facts(statements, turns, in_order=True)


FAMILIES: dict[str, Callable[[Draw, int, int], Facts]] = {
    "niah": niah,
    "multikey": multikey,
    "chain": chain,
    "vt": vt,
}
