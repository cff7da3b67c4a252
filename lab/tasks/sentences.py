"""The text between the facts: plain sentences, or RULER's five that repeat."""

from __future__ import annotations

from .draw import Draw
from .facts import Tokens
from .words import ADJECTIVES, OBJECTS, PEOPLE, VERBS, encode, ids_of

SHORTEST_SENTENCE = 5
LONGEST_SENTENCE = 8

_THE = encode("the")[0]
_PERIOD = encode(".")[0]
_WHO = ids_of(PEOPLE)
_DID = ids_of(VERBS)
_LIKE = ids_of(ADJECTIVES)
_WHAT = ids_of(OBJECTS)
_NOISE = [
    encode(text)
    for text in (
        "the grass is green .",
        "the sky is blue .",
        "the sun is yellow .",
        "here we go .",
        "there and back again .",
    )
]


def sentence(draw: Draw, num_tokens: int) -> Tokens:
    """A plain sentence of 5, 6, 7 or 8 tokens."""
    random = draw.random
    who = _WHO[int(random() * len(_WHO))]
    did = _DID[int(random() * len(_DID))]
    what = _WHAT[int(random() * len(_WHAT))]
    if num_tokens == 6:
        return [_THE, who, did, _THE, what, _PERIOD]
    like = _LIKE[int(random() * len(_LIKE))]
    if num_tokens == 5:
        return [like, who, did, what, _PERIOD]
    if num_tokens == 7:
        if random() < 0.5:
            return [_THE, like, who, did, _THE, what, _PERIOD]
        return [_THE, who, did, _THE, like, what, _PERIOD]
    other = _LIKE[int(random() * len(_LIKE))]
    return [_THE, like, who, did, _THE, other, what, _PERIOD]


def plain_sentences(draw: Draw, num_tokens: int) -> list[Tokens]:
    """As many tokens as asked, or up to four fewer."""
    sentences = []
    spread = LONGEST_SENTENCE - SHORTEST_SENTENCE + 1
    while num_tokens >= SHORTEST_SENTENCE:
        size = SHORTEST_SENTENCE + int(draw.random() * spread)
        size = min(size, num_tokens)
        sentences.append(sentence(draw, size))
        num_tokens -= size
    return sentences


def noise_sentences(num_tokens: int) -> list[Tokens]:
    """As many tokens as asked, or up to four fewer."""
    sentences: list[Tokens] = []
    while num_tokens >= len(_NOISE[len(sentences) % len(_NOISE)]):
        sentences.append(_NOISE[len(sentences) % len(_NOISE)])
        num_tokens -= len(sentences[-1])
    return sentences
