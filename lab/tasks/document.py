"""A document of a given length: facts strewn among plain sentences."""

from __future__ import annotations

from dataclasses import dataclass

from .draw import Draw
from .families import FAMILIES, Facts, Tokens, Turn
from .words import (
    ADJECTIVES,
    BEGIN,
    END,
    OBJECTS,
    PEOPLE,
    VERBS,
    encode,
    ids_of,
)

SHORTEST_SENTENCE = 5
LONGEST_SENTENCE = 8

_THE = encode("the")[0]
_PERIOD = encode(".")[0]
_WHO = ids_of(PEOPLE)
_DID = ids_of(VERBS)
_LIKE = ids_of(ADJECTIVES)
_WHAT = ids_of(OBJECTS)


@dataclass
class Document:
    """Its context as token ids (without the begin token), and its turns."""

    context: Tokens
    turns: list[Turn]

    def training_tokens(self) -> tuple[Tokens, list[int]]:
        """The whole text as a model reads it, and 1 where it is an answer."""
        tokens = [BEGIN, *self.context]
        is_answer = [0] * len(tokens)
        for turn in self.turns:
            answer = [*turn.answer, END]
            tokens += turn.question + answer
            is_answer += [0] * len(turn.question) + [1] * len(answer)
        return tokens, is_answer


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


def weave(draw: Draw, facts: Facts, num_tokens: int) -> Tokens:
    """The statements at random places among `num_tokens` of sentences."""
    if not facts.in_order:
        draw.shuffle(facts.statements)
    sentences = plain_sentences(draw, num_tokens)
    places = len(sentences) + 1
    place_of = sorted(draw.below(places) for _ in facts.statements)
    context: Tokens = []
    done = 0
    for place, statement in zip(place_of, facts.statements):
        for plain in sentences[done:place]:
            context += plain
        done = place
        context += statement
    for plain in sentences[done:]:
        context += plain
    return context


def make_document(
    draw: Draw, task: str, length: int, num_questions: int = 1
) -> Document:
    """A document with its turns: `length` tokens, or up to four fewer.

    What counts: the begin token, the context, each question, each answer and
    the end token after it. REQUIRES: length >= 256, and a sixteenth of it at
    most is asked: num_questions <= max(8, length / 64).
    """
    facts = FAMILIES[task](draw, length, num_questions)
    room = length - 1 - facts.num_tokens()
    if room < 0:
        raise ValueError(
            f"length: {num_questions} questions on {task} do not fit into "
            f"{length} tokens"
        )
    return Document(weave(draw, facts, room), facts.turns)
