"""The vocabulary: 4,096 words, each one token, each class a range of ids.

Tokens are the words of a text split on spaces. Sentences are written with
subjects, verbs, adjectives and objects; facts are told about names, which
occur nowhere else.
"""

from __future__ import annotations

SIZE = 4096

SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
DIGITS = list("0123456789")
FUNCTION_WORDS = """
. ? : = the code of is what answer points to follow from VAR find all
variables assigned value
""".split()

# What RULER's families need besides; at the end of the vocabulary.
TASK_WORDS = """
, ... and are back again codes document frequent go grass here home in list
most serial sky sun ten there three tool trade we words
""".split()

VERBS = """
admired answered approached arranged avoided baked borrowed brought brushed
built buried bought called captured carried carved caught chased chose claimed
cleaned climbed collected copied counted covered crossed damaged decorated
defended delivered described destroyed discovered displayed divided dragged
drew dried dropped earned emptied enjoyed entered examined exchanged explored
fastened fetched filled finished fixed folded followed forgot found framed
freed gathered gave greeted grabbed guarded guided hammered handled hated
heard heated held hid hired hung hurried ignored imagined improved inherited
inspected invented joined judged kept kicked knew labelled launched led left
lifted lit loaded located locked lost loved lowered mended measured melted
missed mixed mounted moved named needed noticed offered oiled opened ordered
owned packed painted parked passed paid photographed picked placed planned
planted polished poured praised prepared pressed promised protected pulled
pushed raised reached received recognised refused remembered removed rented
repaired replaced reported rescued respected returned rolled sanded saved
scratched searched secured selected sent sewed shaped shared sharpened shifted
shook showed signed sketched smashed smelled sold sorted split spotted stacked
stole stored stretched studied surprised tasted tested threw tied touched
traced traded trusted turned twisted understood used valued visited wanted
warmed washed wasted watched weighed welcomed wiped won wrapped
""".split()

ADJECTIVES = """
able active amber ancient angry anxious awkward bald bare bitter black blank
bleak blue blunt bold brave brief bright brisk broad broken bronze brown busy
calm careful careless cautious charming cheap cheerful chilly civil clean
clear clever cloudy clumsy coarse cold common compact cool costly cosy cracked
crazy crimson crisp cruel curious curly curved daily damp dark dear decent deep
delicate dense dim dirty distant double dry dull dusty eager early easy elegant
empty endless even exact faint fair faithful false famous fancy fast fat
feeble fierce filthy fine firm first flat foggy foolish foreign formal fragile
frail free fresh friendly frozen full funny fuzzy generous gentle giant glad
gloomy glossy golden good graceful grand grassy grave greasy great greedy green
grey grim handsome happy hard harsh hasty heavy hidden hollow honest hot huge
humble hungry icy idle ideal jolly keen kind large last late lazy lean light
likely lively local lonely long loose loud lovely low loyal lucky mad major
mellow merry mighty mild minor misty modern modest moist muddy narrow naughty
neat nervous new nice noble noisy normal numb odd old orange ordinary pale
patient perfect plain playful pleasant plump polite poor pretty previous
private proud public pure purple quaint quick quiet rapid rare raw ready real
recent red regular rich rigid ripe rough round royal rude rustic rusty sacred
sad safe salty scarlet second secret serious severe shabby shallow sharp shiny
short shy silent silly silver simple sleepy slender slim slippery slow small
smart smooth soft solid sour spare special spicy square stable stale steady
steep sticky stiff still stormy straight strange strict strong stubborn sturdy
subtle sudden sunny super sweet swift tall tame tender tense thick thin tidy
tight tiny tired tough true ugly upper urgent useful usual vague vast violet
vital vivid warm wary weak wealthy weary wet white whole wicked wide wild wise
witty wooden worn worthy yellow young
""".split()

# People are named after what they do: lampkeeper, riverguide.
CALLINGS_FIRST = """
bell boat book bridge candle cattle clock cloud coal corn field garden glass
harbour lamp mill mountain paper river sheep ship silk stone tower wind
""".split()
CALLINGS_LAST = """
builder carrier catcher counter cutter drawer finder guide hunter keeper
lender lifter maker master mender minder painter porter reader seller singer
teller trader warden watcher
""".split()

# Things are named after what they are made of: oakdoor, copperbell.
MATERIALS = """
ash bone brass cedar clay copper cotton felt flint horn iron ivory jade
leather linen marble oak pearl pine reed rope steel tin walnut
""".split()
THINGS = """
ball basket bell bench bowl box button chain chair chest comb crown cup desk
door drum flute frame gate knife ladder lantern mask ring shelf spoon
""".split()

# Names: Belana, Torvick.
NAMES_FIRST = """
Al Ban Bel Bran Cal Cor Dal Dar Del Dor El Fal Far Fen Fin Gal Gar Gil Gor
Hal Har Hel Il Jal Jor Kal Kar Kel Kor Lan Lor Mal Mar Mel Mor Nal Nor Or Pal
Per Quin Ral Ron Sal Sel Tal Tor Val Ver Wil Yar Zan
""".split()
NAMES_LAST = """
aba adine ago aleth amos ana andor anka arno aster aveth ax beck bert bina by
da dane dek dith don dora dova dric dul eda ena eska eth fax frid gan gard
gith go gus ida ika imo ista kin ko len loth mir mund nok obe ona orin osh
""".split()


def _pairs(firsts: list[str], lasts: list[str]) -> list[str]:
    return [first + last for first in firsts for last in lasts]


PEOPLE = _pairs(CALLINGS_FIRST, CALLINGS_LAST)
OBJECTS = _pairs(MATERIALS, THINGS)

_BEFORE_NAMES = (
    SPECIALS + DIGITS + FUNCTION_WORDS + VERBS + ADJECTIVES + PEOPLE + OBJECTS
)
_NUM_NAMES = SIZE - len(_BEFORE_NAMES) - len(TASK_WORDS)
NAMES = _pairs(NAMES_FIRST, NAMES_LAST)[:_NUM_NAMES]

WORDS = _BEFORE_NAMES + NAMES + TASK_WORDS
IDS = {word: token for token, word in enumerate(WORDS)}

PAD, BEGIN, END, UNKNOWN = range(4)


def ids_of(words: list[str]) -> range:
    """The consecutive ids of one class of words, such as NAMES."""
    first = IDS[words[0]]
    return range(first, first + len(words))


def encode(text: str) -> list[int]:
    return [IDS.get(word, UNKNOWN) for word in text.split()]


def decode(tokens: list[int]) -> str:
    return " ".join(WORDS[token] for token in tokens)
