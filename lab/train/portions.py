"""What training documents are about, and how much each is asked.

More is asked of a training document than of a test: many answers a document
are what retrieval is learned from. Families whose answers have few tokens get
more documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.tasks.document import Document, Training, make_document, make_mixed
from lab.tasks.draw import Draw
from lab.tasks.facts import DIGIT_IDS

MOST_ASKED = 256
LEAST_MIXED_LENGTH = 4096
LEAST_LONG_CHAIN_LENGTH = 2048
MIXED_SHARE = 0.4
FEW_DIGITS_SHARE = 0.5


@dataclass(frozen=True)
class Portion:
    """A family's share of the documents between two lengths.

    One question for each `tokens_a_question` of the document is asked at
    most, and never more than `most_asked`.
    """

    share: float
    tokens_a_question: int = 1
    most_asked: int = MOST_ASKED
    least_length: int = 256
    most_length: int = 131072


PORTIONS = {
    "niah": Portion(0.05, most_asked=8),
    "niah_single_1": Portion(0.03, most_asked=1),
    "niah_single_2": Portion(0.02, most_asked=1),
    "niah_single_3": Portion(0.06, most_asked=8),
    "niah_multikey_1": Portion(0.02, most_asked=4),
    "niah_multikey_2": Portion(0.07),
    "niah_multikey_3": Portion(0.2, tokens_a_question=48, most_asked=1024),
    "niah_multivalue": Portion(0.12, tokens_a_question=84, most_asked=32),
    "niah_multiquery": Portion(0.10, tokens_a_question=96, most_asked=32),
    "multikey": Portion(0.12),
    "qa": Portion(0.06, tokens_a_question=85, most_asked=128),
    "chain": Portion(0.10, most_asked=64),
    "vt": Portion(0.13, tokens_a_question=128, most_asked=64),
    "long_chain": Portion(
        0.07, most_asked=1, least_length=LEAST_LONG_CHAIN_LENGTH
    ),
    "cwe": Portion(0.01, most_asked=1, least_length=1024, most_length=16384),
    "fwe": Portion(0.01, most_asked=1, least_length=1024, most_length=16384),
}
FAMILY_NAMES = list(PORTIONS)
# From scratch, on which looking up two names together is learned best: all
# families at once got stuck on matching one of the two.
CORE_SHARES = {"niah": 0.2, "multikey": 0.25, "chain": 0.25, "vt": 0.3}

# A mixed document has one of these, one chain or two, and vt.
_MIXED_CODES = (
    "niah",
    "niah_single_3",
    "niah_multikey_2",
    "niah_multikey_2",
    "niah_multikey_3",
    "niah_multikey_3",
    "niah_multivalue",
    "niah_multivalue",
    "niah_multiquery",
    "multikey",
    "multikey",
    "qa",
)
_MIXED_CHAINS = ("chain", "long_chain")


def most_asked(length: int) -> int:
    """8 at 256 tokens, 32 at 2K to 4K, 1,024 at 128K."""
    short = min(32, max(8, length // 64))
    return max(short, length // 128)


def num_asked(draw: Draw, family: str, length: int) -> int:
    portion = PORTIONS[family]
    most = min(
        most_asked(length),
        portion.most_asked,
        max(1, length // portion.tokens_a_question),
    )
    return draw.between(1, most)


def choose_weighted(draw: Draw, shares: dict) -> object:
    left = draw.uniform(0.0, sum(shares.values()))
    for item, share in shares.items():
        left -= share
        if left < 0:
            return item
    return item


def training_document(
    draw: Draw,
    length: int,
    core_only: bool,
    other_shares: Mapping[str, float] | None = None,
) -> Document:
    """`other_shares`: of families, in place of those in PORTIONS."""
    if core_only:
        family = choose_weighted(draw, CORE_SHARES)
        asked = num_asked(draw, family, length)
        return make_document(draw, family, length, asked)
    if length >= LEAST_MIXED_LENGTH and draw.random() < MIXED_SHARE:
        share = length // 3
        chains = _MIXED_CHAINS[: 1 + (share >= LEAST_LONG_CHAIN_LENGTH)]
        families = [draw.choose(_MIXED_CODES), draw.choose(chains), "vt"]
        asked = {name: num_asked(draw, name, share) for name in families}
        return make_mixed(draw, asked, length)
    shares = {
        name: portion.share
        for name, portion in PORTIONS.items()
        if portion.least_length <= length <= portion.most_length
    }
    for name in shares.keys() & (other_shares or {}):
        shares[name] = other_shares[name]
    family = choose_weighted(draw, shares)
    return make_document(draw, family, length, num_asked(draw, family, length))


def with_few_digits(draw: Draw, text: Training) -> Training:
    """Writes the codes of every second document with two or three digits.

    Where digits repeat within a code, the one that comes next cannot be told
    by those before it, only by how many there were. What vt asks for are the
    names of a code, of which there would be too few.
    """
    if draw.random() >= FEW_DIGITS_SHARE or "vt" in text.families:
        return text
    kept = draw.sample(DIGIT_IDS, draw.between(2, 3))
    digit_of = {d: kept[i % len(kept)] for i, d in enumerate(DIGIT_IDS)}
    return Training(
        [digit_of.get(token, token) for token in text.tokens],
        [digit_of.get(target, target) for target in text.targets],
        text.families,
    )


def sources_of(text: Training) -> list[int]:
    """Where the digit that an answer says next stands in the document, or -1.

    A code is looked up by its digits: the first place that has them all, and
    no others beside them (of several codes in a row there is none).
    """
    digits = set(DIGIT_IDS)
    sources = [-1] * len(text.tokens)
    places: dict[tuple, int] = {}
    for first, last in runs(text.tokens, digits):
        places.setdefault(tuple(text.tokens[first:last]), first)
    for first, last in runs(text.targets, digits):
        place = places.get(tuple(text.targets[first:last]))
        is_told = place is not None and place < first
        if is_told and all(text.families[first:last]):
            sources[first:last] = range(place, place + last - first)
    return sources


def runs(tokens: list[int], kind: set[int]) -> Iterator[tuple[int, int]]:
    """Where tokens of a kind begin and end."""
    first = None
    for i, token in enumerate([*tokens, -1]):
        if token in kind:
            first = i if first is None else first
        elif first is not None:
            yield first, i
            first = None
