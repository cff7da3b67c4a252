"""Families that look up what belongs to a name: RULER's needles.

RULER writes its keys as adjective and noun and its values as numbers of seven
digits or uuids; here a key is two names, a number ("code") five digits, and
four names stand for a uuid ("serial"), so that each token is a word.
"""

from __future__ import annotations

from .draw import Draw
from .facts import (
    PERIOD,
    Facts,
    Tokens,
    Turn,
    code,
    different,
    neighbours,
)
from .words import encode

_THE_CODE_OF = encode("the code of")
_THE_SERIAL_OF = encode("the serial of")
_IS = encode("is")
_WHAT_IS = encode("what is")
_WHAT_ARE_ALL = encode("what are all the codes of")
_WHAT_ARE = encode("what are the codes of")
_ANSWER = encode("? answer :")
_COMMA = encode(",")
_AND = encode("and")

SERIAL_NAMES = 4
CODE_FACT_TOKENS = 12
CODE_TURN_TOKENS = 17
SERIAL_FACT_TOKENS = 13
SERIAL_TURN_TOKENS = 18
MOST_NEEDLES = 8
VALUES_A_KEY = 4
KEYS_A_QUERY = 4


def _told(
    draw: Draw,
    what: Tokens,
    owners: list[tuple[int, ...]],
    values: list[Tokens],
    num_asked: int,
) -> Facts:
    """One statement an owner; `num_asked` of them are asked about."""
    statements = [
        [*what, *owner, *_IS, *value, *PERIOD]
        for owner, value in zip(owners, values)
    ]
    turns = [
        Turn([*_WHAT_IS, *what, *owners[i], *_ANSWER], [values[i]])
        for i in draw.sample(range(len(owners)), num_asked)
    ]
    return Facts(statements, turns)


def _codes(draw: Draw, owners: list[tuple[int, ...]], num_asked: int) -> Facts:
    codes = [code(draw) for _ in owners]
    return _told(draw, _THE_CODE_OF, owners, codes, num_asked)


def _serials(draw: Draw, owners: list[tuple[int, ...]], num_asked: int) -> Facts:
    serials = [list(s) for s in different(draw, len(owners), SERIAL_NAMES)]
    return _told(draw, _THE_SERIAL_OF, owners, serials, num_asked)


def niah(draw: Draw, length: int, num_questions: int) -> Facts:
    """Needles in a haystack: one to eight codes among plain sentences."""
    del length  # Eight needles and their questions fit into any document.
    num_needles = max(draw.between(1, MOST_NEEDLES), num_questions)
    return _codes(draw, different(draw, num_needles, 2), num_questions)


def niah_single_1(draw: Draw, length: int, num_questions: int) -> Facts:
    """One code in a haystack of five sentences that repeat."""
    facts = niah_single_2(draw, length, num_questions)
    facts.haystack = "noise"
    return facts


def niah_single_2(draw: Draw, length: int, num_questions: int) -> Facts:
    """One code among plain sentences."""
    del length
    return _codes(draw, different(draw, 1, 2), num_questions)


def niah_single_3(draw: Draw, length: int, num_questions: int) -> Facts:
    """One serial among plain sentences; to train on, as many as are asked."""
    del length
    return _serials(draw, different(draw, num_questions, 2), num_questions)


def niah_multikey_1(draw: Draw, length: int, num_questions: int) -> Facts:
    """Four codes among plain sentences."""
    del length
    return _codes(draw, different(draw, 4, 2), num_questions)


def _num_filling(
    length: int, num_questions: int, fact: int, turn: int, share: float = 1.0
) -> int:
    """How many facts fill a share of the document beside its questions."""
    room = length - 1 - turn * num_questions
    return max(4, num_questions, int(share * room / fact))


def niah_multikey_2(draw: Draw, length: int, num_questions: int) -> Facts:
    """Nothing but codes."""
    num_codes = _num_filling(
        length, num_questions, CODE_FACT_TOKENS, CODE_TURN_TOKENS
    )
    return _codes(draw, different(draw, num_codes, 2), num_questions)


def niah_multikey_3(draw: Draw, length: int, num_questions: int) -> Facts:
    """Nothing but serials, of owners that are four names too."""
    num_serials = _num_filling(
        length, num_questions, SERIAL_FACT_TOKENS, SERIAL_TURN_TOKENS
    )
    owners = different(draw, num_serials, SERIAL_NAMES)
    return _serials(draw, owners, num_questions)


def multikey(draw: Draw, length: int, num_questions: int) -> Facts:
    """Codes everywhere; every second owner shares its neighbour's first name."""
    share = draw.uniform(0.3, 0.8)
    num_codes = _num_filling(
        length, num_questions, CODE_FACT_TOKENS, CODE_TURN_TOKENS, share
    )
    return _codes(draw, neighbours(draw, num_codes), num_questions)


def niah_multivalue(draw: Draw, length: int, num_questions: int) -> Facts:
    """Four codes a name; all are asked, as they come in the document."""
    del length
    owners = different(draw, num_questions, 2)
    told = [which for which in range(num_questions)] * VALUES_A_KEY
    draw.shuffle(told)
    values: list[list[Tokens]] = [[] for _ in owners]
    statements = []
    for which in told:
        value = code(draw)
        while value in values[which]:
            value = code(draw)
        values[which].append(value)
        statements.append(
            [*_THE_CODE_OF, *owners[which], *_IS, *value, *PERIOD]
        )
    turns = [
        Turn([*_WHAT_ARE_ALL, *owner, *_ANSWER], values_of_one)
        for owner, values_of_one in zip(owners, values)
    ]
    return Facts(statements, turns, in_order=True)


def niah_multiquery(draw: Draw, length: int, num_questions: int) -> Facts:
    """Codes among plain sentences; four of them are asked at once."""
    del length
    owners = different(draw, KEYS_A_QUERY * num_questions, 2)
    facts = _codes(draw, owners, 0)
    begin, end = len(_THE_CODE_OF) + 3, -len(PERIOD)
    codes = [statement[begin:end] for statement in facts.statements]
    for first in range(0, len(owners), KEYS_A_QUERY):
        asked = slice(first, first + KEYS_A_QUERY)
        one, two, three, four = owners[asked]
        question = [*_WHAT_ARE, *one, *_COMMA, *two, *_COMMA, *three]
        question += [*_AND, *four, *_ANSWER]
        facts.turns.append(Turn(question, codes[asked]))
    return facts
