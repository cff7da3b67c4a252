"""Families about how often words occur: RULER's common and frequent words.

All of the context matters to them, so no small selection answers them: the
control of sparse attention, not its showcase. RULER numbers its list of words
and has thousands of rare words; here the list is bare and a rare word occurs
as often as the length needs, a common one ten times as often.
"""

from __future__ import annotations

from .draw import Draw
from .facts import NAME_IDS, Facts, Turn
from .words import OBJECTS, PEOPLE, encode, ids_of

_LIST_WORDS = [*ids_of(PEOPLE), *ids_of(OBJECTS)]
_THE_LIST = encode("here is the list of words :")
_COMMON = encode("what are the ten most common words in the list ? answer :")
_FREQUENT = encode("what are the three most frequent words ? answer :")
_DOTS = encode("...")[0]

NUM_COMMON = 10
TIMES_AS_COMMON = 10
LEAST_RARE_TIMES = 3
NUM_FREQUENT = 3
ZETA_2_TIMES_10000 = 16449  # The sum of 1 / rank**2 over all ranks.


def cwe(draw: Draw, length: int, num_questions: int) -> Facts:
    """Common words: ten words of a list occur ten times as often as others."""
    del num_questions  # One can be asked.
    room = length - 1 - len(_THE_LIST) - len(_COMMON) - NUM_COMMON - 1
    most_rare = len(_LIST_WORDS) - NUM_COMMON
    shares = NUM_COMMON * TIMES_AS_COMMON
    num_rare = min(most_rare, room // LEAST_RARE_TIMES - shares)
    times = room // (shares + num_rare)
    chosen = draw.sample(_LIST_WORDS, NUM_COMMON + num_rare)
    common, rare = chosen[:NUM_COMMON], chosen[NUM_COMMON:]
    words = common * (times * TIMES_AS_COMMON) + rare * times
    left = room - len(words)
    while left > 0:
        words += rare[:left]
        left = room - len(words)
    draw.shuffle(words)
    is_common = set(common)
    in_order = [w for w in dict.fromkeys(words) if w in is_common]
    turn = Turn(_COMMON, [[word] for word in in_order])
    return Facts([[*_THE_LIST, *words]], [turn])


def fwe(draw: Draw, length: int, num_questions: int) -> Facts:
    """Frequent words: the share of a word falls with its rank squared."""
    del num_questions  # One can be asked.
    room = length - 1 - len(_FREQUENT) - NUM_FREQUENT - 1
    ranks = draw.sample(NAME_IDS, min(len(NAME_IDS), length // 50))
    words = []
    for rank, word in enumerate(ranks, start=2):
        words += [word] * (room * 10000 // (rank * rank * ZETA_2_TIMES_10000))
    words += [_DOTS] * (room - len(words))
    draw.shuffle(words)
    answers = [[word] for word in ranks[:NUM_FREQUENT]]
    return Facts([words], [Turn(_FREQUENT, answers)])
