"""A document of a given length: facts strewn among plain sentences."""

from __future__ import annotations

from dataclasses import dataclass

from . import codes
from .draw import Draw
from .facts import PERIOD, Facts, Tokens, Turn
from .families import FAMILIES
from .sentences import noise_sentences, plain_sentences
from .words import BEGIN, END

# What a conversation is about. No two of them tell facts that look alike.
CONVERSATION = ("niah", "chain", "vt", "qa")
LEAST_TURNS = 2
MOST_TURNS = 16


@dataclass
class Training:
    """A document as a model is trained on it; lists of one length.

    `targets`: what follows each token. `families`: whose answer the target
    belongs to, or "". Behind an answer that is not the last the model must
    say the end token, but it reads `separator`.
    """

    tokens: Tokens
    targets: Tokens
    families: list[str]


@dataclass
class Document:
    """Its context as token ids (without the begin token), and its turns."""

    context: Tokens
    turns: list[Turn]

    def training(self, separator: int = END) -> Training:
        tokens = [BEGIN, *self.context]
        targets = [*self.context]
        families = [""] * len(targets)
        for turn in self.turns:
            answer = turn.answer
            tokens += [*turn.question, *answer, separator]
            targets += [*turn.question, *answer, END]
            families += [""] * len(turn.question)
            families += [turn.family] * (len(answer) + 1)
        return Training(tokens[: len(targets)], targets, families)

    def conversation_so_far(self, num_turns: int) -> Tokens:
        """The first turns as the next one's question repeats them."""
        return [
            token
            for turn in self.turns[:num_turns]
            for token in (*turn.question, *turn.answer, *PERIOD)
        ]


def weave(draw: Draw, facts: Facts, num_tokens: int) -> Tokens:
    """The statements at their places among `num_tokens` of sentences."""
    if not facts.in_order:
        draw.shuffle(facts.statements)
    if facts.haystack == "noise":
        sentences = noise_sentences(num_tokens)
    else:
        sentences = plain_sentences(draw, num_tokens)
    if facts.depths:
        place_of = [(d * len(sentences) + 50) // 100 for d in facts.depths]
    else:
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


def mix(draw: Draw, parts: list[Facts]) -> Facts:
    """The facts of all parts, in one order, and their turns in another."""
    order = []
    for which, part in enumerate(parts):
        if not part.in_order:
            draw.shuffle(part.statements)
        order += [which] * len(part.statements)
    draw.shuffle(order)
    told = [iter(part.statements) for part in parts]
    turns = [turn for part in parts for turn in part.turns]
    draw.shuffle(turns)
    return Facts([next(told[which]) for which in order], turns, in_order=True)


def make_facts(draw: Draw, task: str, length: int, num_questions: int) -> Facts:
    facts = FAMILIES[task].make(draw, length, num_questions)
    for turn in facts.turns:
        turn.family = task
    return facts


def finish(draw: Draw, facts: Facts, length: int) -> Document:
    """A document of `length` tokens, or up to four fewer.

    What counts: the begin token, the context, each question, each answer and
    the end token after it.
    """
    room = length - 1 - facts.num_tokens()
    if room < 0:
        raise ValueError(
            f"length: {len(facts.turns)} questions and their facts take "
            f"{length - room} tokens, more than {length}"
        )
    return Document(weave(draw, facts, room), facts.turns)


def make_document(
    draw: Draw, task: str, length: int, num_questions: int = 1
) -> Document:
    """REQUIRES: length >= 256, and that so many questions fit."""
    return finish(draw, make_facts(draw, task, length, num_questions), length)


def make_mixed(
    draw: Draw, num_questions: dict[str, int], length: int
) -> Document:
    """The facts of several families in one document, in equal shares."""
    share = length // len(num_questions)
    parts = [
        make_facts(draw, task, share, asked)
        for task, asked in num_questions.items()
    ]
    return finish(draw, mix(draw, parts), length)


def make_conversation(draw: Draw, length: int, num_turns: int) -> Document:
    """Several turns over one document, about facts of several families."""
    asked = dict.fromkeys(CONVERSATION, 0)
    for turn in range(num_turns):
        asked[CONVERSATION[turn % len(CONVERSATION)]] += 1
    return make_mixed(draw, asked, length)


def make_grid(draw: Draw, length: int, depth: int) -> Document:
    """One needle, `depth` percent into the document."""
    facts = codes.niah_single_2(draw, length, 1)
    facts.depths = [depth]
    return finish(draw, facts, length)
