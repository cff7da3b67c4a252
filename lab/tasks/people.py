"""Question answering over distractors: short documents about people.

RULER asks questions of SQuAD and HotpotQA whose paragraphs hide among others;
here each paragraph tells the trade, the home and the tool of one person.
"""

from __future__ import annotations

from .draw import Draw
from .facts import NAME_IDS, PERIOD, Facts, Tokens, Turn, neighbours
from .sentences import plain_sentences
from .words import OBJECTS, PEOPLE, encode, ids_of

_KINDS = [
    (encode("trade"), ids_of(PEOPLE)),
    (encode("home"), NAME_IDS),
    (encode("tool"), ids_of(OBJECTS)),
]
_THE = encode("the")
_OF = encode("of")
_IS = encode("is")
_WHAT_IS_THE = encode("what is the")
_ANSWER = encode("? answer :")
_DOCUMENT = encode("document :")

FACT_TOKENS = 8
PLAIN_TOKENS = 20
PARAGRAPH_TOKENS = len(_DOCUMENT) + len(_KINDS) * FACT_TOKENS + PLAIN_TOKENS
QA_TURN_TOKENS = 13


def _paragraph(
    draw: Draw, owner: tuple[int, int], known: list[Tokens]
) -> Tokens:
    sentences = plain_sentences(draw, PLAIN_TOKENS)
    for (kind, _), value in zip(_KINDS, known):
        fact = [*_THE, *kind, *_OF, *owner, *_IS, *value, *PERIOD]
        sentences.append(fact)
    draw.shuffle(sentences)
    return sum(sentences, _DOCUMENT)


def qa(draw: Draw, length: int, num_questions: int) -> Facts:
    """Paragraphs about people; one thing about one person is asked."""
    share = draw.uniform(0.5, 0.95)
    room = length - 1 - QA_TURN_TOKENS * num_questions
    num_people = max(1, int(share * room / PARAGRAPH_TOKENS))
    owners = neighbours(draw, num_people)
    known = [[[draw.choose(ids)] for _, ids in _KINDS] for _ in owners]
    statements = [
        _paragraph(draw, owner, values) for owner, values in zip(owners, known)
    ]
    turns = []
    asked = draw.sample(range(num_people * len(_KINDS)), num_questions)
    for which in asked:
        person, kind = divmod(which, len(_KINDS))
        question = [*_WHAT_IS_THE, *_KINDS[kind][0], *_OF, *owners[person]]
        turns.append(Turn([*question, *_ANSWER], [known[person][kind]]))
    return Facts(statements, turns)
