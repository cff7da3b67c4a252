"""The task families: RULER's, and those in which a cache lives or dies.

A family is a function of (draw, length, num_questions) that returns Facts; it
asks exactly `num_questions` questions, which its Family bounds. All text is
token ids of words.py.
"""

from __future__ import annotations

from . import chains, codes, counts, people
from .facts import Family, a_share, at_most


def _vt_questions(length: int) -> int:
    return min(64, a_share(chains.VT_CHAIN_TOKENS)(length))


def _chain_questions(length: int) -> int:
    return a_share(chains.CHAIN_TURN_TOKENS)(length)


def _long_chain_questions(length: int) -> int:
    """Answers behind the first take room from the document."""
    steps = chains.most_long_steps(length)
    links = chains.LINK_TOKENS * (steps + 1)
    return max(1, (length - links) // (steps + 8))


def _qa_questions(length: int) -> int:
    return min(256, length // 128)


_CODES = a_share(codes.CODE_TURN_TOKENS)
_SERIALS = a_share(codes.SERIAL_TURN_TOKENS)
_QUERIES = a_share(128)

FAMILIES: dict[str, Family] = {
    "niah": Family(codes.niah, at_most(codes.MOST_NEEDLES)),
    "multikey": Family(codes.multikey, _CODES),
    "chain": Family(chains.chain, _chain_questions),
    "vt": Family(chains.vt, _vt_questions),
    "niah_single_1": Family(codes.niah_single_1, at_most(1)),
    "niah_single_2": Family(codes.niah_single_2, at_most(1)),
    "niah_single_3": Family(codes.niah_single_3, at_most(1)),
    "niah_multikey_1": Family(codes.niah_multikey_1, at_most(4)),
    "niah_multikey_2": Family(codes.niah_multikey_2, _CODES),
    "niah_multikey_3": Family(codes.niah_multikey_3, _SERIALS),
    "niah_multivalue": Family(codes.niah_multivalue, _QUERIES, unordered=True),
    "niah_multiquery": Family(codes.niah_multiquery, _QUERIES),
    "cwe": Family(counts.cwe, at_most(1), unordered=True),
    "fwe": Family(counts.fwe, at_most(1), unordered=True),
    "qa": Family(people.qa, _qa_questions),
    "long_chain": Family(
        chains.long_chain, _long_chain_questions, least_length=2048
    ),
}
