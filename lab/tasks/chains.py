"""Families in which each answer token is found from the one before it."""

from __future__ import annotations

from .draw import Draw
from .facts import NAME_IDS, PERIOD, Facts, Tokens, Turn, code
from .words import encode

_POINTS_TO = encode("points to")
_FOLLOW_FROM = encode("follow from")
_TO = encode("to")
_COLON = encode(":")
_VAR = encode("VAR")
_EQUALS = encode("=")
_FIND_ALL = encode("find all variables assigned the value")

LINK_TOKENS = 5
MOST_LINKS = 1800
MOST_STEPS = 16
CHAIN_TURN_TOKENS = 6 + MOST_STEPS
LEAST_LONG_STEPS = 200
MOST_LONG_STEPS = 2000
VT_TURN_TOKENS = 20
VT_CHAIN_TOKENS = 40  # At most: five assignments and what is asked of them.


def _links(ring: Tokens) -> list[Tokens]:
    return [
        [here, *_POINTS_TO, there, *PERIOD]
        for here, there in zip(ring, ring[1:] + ring[:1])
    ]


def _follow(ring: Tokens, start: int, num_steps: int) -> Turn:
    path = [ring[(start + i) % len(ring)] for i in range(num_steps + 1)]
    question = [*_FOLLOW_FROM, path[0], *_TO, path[-1], *_COLON]
    return Turn(question, [[name] for name in path[1:]])


def chain(draw: Draw, length: int, num_questions: int) -> Facts:
    """A ring of pointers; every answer token is a retrieval of its own.

    Where there is room for it, no two questions share a pointer, so that no
    answer can be copied from an earlier one.
    """
    room = length - 1 - CHAIN_TURN_TOKENS * num_questions
    share = draw.uniform(0.2, 0.8)
    num_links = max(8, min(MOST_LINKS, int(share * room / LINK_TOKENS)))
    ring = draw.sample(NAME_IDS, num_links)
    most_steps = min(MOST_STEPS, num_links - 1)
    steps = [draw.between(1, most_steps) for _ in range(num_questions)]
    free = num_links - sum(steps)
    turns = []
    start = draw.below(num_links)
    for num_steps in steps:
        if free < num_questions:
            start = draw.below(num_links)
        turns.append(_follow(ring, start, num_steps))
        start += num_steps + max(0, free) // num_questions
    draw.shuffle(turns)
    return Facts(_links(ring), turns)


def most_long_steps(length: int) -> int:
    """Nine tenths of a document are five tokens a pointer and its answer."""
    return min(MOST_LONG_STEPS, length * 9 // 10 // (LINK_TOKENS + 1) - 1)


def long_chain(draw: Draw, length: int, num_questions: int) -> Facts:
    """A chain of 200 to 2,000 steps, or as many as fit into the document."""
    most = most_long_steps(length)
    steps = [draw.between(LEAST_LONG_STEPS, most) for _ in range(num_questions)]
    num_links = max(steps) + 1
    # What is left of the document may hold pointers that no answer needs.
    room = length - 1 - sum(steps) - 8 * num_questions
    spare = min(len(NAME_IDS), room // LINK_TOKENS) - num_links
    if spare > 0:
        num_links += draw.below(spare + 1)
    ring = draw.sample(NAME_IDS, num_links)
    turns = [_follow(ring, draw.below(num_links), s) for s in steps]
    return Facts(_links(ring), turns)


def vt(draw: Draw, length: int, num_questions: int) -> Facts:
    """Variable tracking: chains of assignments, interleaved, told in order."""
    num_chains = draw.between(1, max(1, min(6, length // 128)))
    num_chains = max(num_chains, num_questions)
    chains = [draw.between(2, 5) for _ in range(num_chains)]
    names = draw.sample(NAME_IDS, sum(chains))
    values: dict[tuple[int, ...], None] = {}
    while len(values) < num_chains:
        values[tuple(code(draw))] = None
    # A draw without replacement of whose turn it is keeps every chain's order.
    order = [which for which, hops in enumerate(chains) for _ in range(hops)]
    draw.shuffle(order)
    told: list[Tokens] = [[] for _ in chains]
    value_of = list(values)
    statements = []
    for which in order:
        name = names.pop()
        source = [*_VAR, told[which][-1]] if told[which] else value_of[which]
        statements.append([*_VAR, name, *_EQUALS, *source, *PERIOD])
        told[which].append(name)
    turns = [
        Turn([*_FIND_ALL, *value_of[i], *_COLON], [[name] for name in told[i]])
        for i in draw.sample(range(num_chains), num_questions)
    ]
    return Facts(statements, turns, in_order=True)
