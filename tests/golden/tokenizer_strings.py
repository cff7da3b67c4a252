"""The text that tokenizers are trained on and the strings they must encode.

Both come from the lists below and a small generator, hence are always equal.
"""

_WORDS = (
    "the of and to in is that it was for on are with as his they be at one "
    "have this from or had by hot but some what there we can out other were "
    "all your when up use word how said an each she which do their time if "
    "will way about many then them would write like so these her long make "
    "thing see him two has look more day could go come did my sound no most "
    "number who over know water than call first people may down side been "
    "now find any new work part take get place made live where after back "
    "little only round man year came show every good me give our under name "
    "very through just form great think say help low line before turn cause "
    "page token cache memory attention selection budget model layer window"
).split()

_FOREIGN = (
    "naïve café Straße übergroß señor mañana française œuvre cœur żółć "
    "Ελληνικά γλώσσα привет мир Москва каждый שלום עולם مرحبا بالعالم "
    "नमस्ते दुनिया ภาษาไทย 你好 世界 语言 模型 日本語 ひらがな カタカナ "
    "한국어 안녕하세요 Tiếng Việt İstanbul ქართული Հայերեն አማርኛ தமிழ்"
).split()

_CODE = (
    "for (int i = 0; i < n; ++i) { sum += a[i]; }\n",
    'def f(x: int) -> str:\n    return f"{x:>8}"\n',
    "#include <vector>\n\ttemplate <typename T> struct Page;\n",
    "SELECT name, count(*) FROM pages WHERE id >= 1024;\n",
    "std::cout << \"a\\tb\" << '\\n';\r\n",
    '<div class="x">&amp;</div><!-- note -->\n',
    '{"k": [1, 2.5e-3, null, true]}\n',
    "git commit -m 'x' && make -j2 | tail -n 5\n",
)

# Among them: the added tokens of every tokenizer here.
_MARKERS = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
    "<|end_header_id|>", "<|eot_id|>", "<|endoftext|>", "<|im_start|>",
    "<|im_end|>", "<think>", "</think>", "<s>", "</s>", "<unk>", "<pad>",
    "[INST]", "[/INST]", "[UNK]", "[BOS]", "[SEP]", "<|user|>", "<|note|>",
    "<0x41>", "<0x0A>", "▁", "Ġ", "##s", "<mask>", "extra word",
)  # fmt: skip

_SPACES = (
    " ", "  ", "   ", "     ", "\t", "\n", "\n\n", "\r\n", "\r", " \n ",
    "\t\t", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\u2029",
    "\u0085", "\v", "\f", "\u1680", "\u202f", "\ufeff", "\u2060",
)  # fmt: skip

_EMOJI = (
    "😀", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇯🇵", "☺️", "❤️‍🔥", "#️⃣", "🧑🏿‍🚀", "🫠", "✈︎",
)  # fmt: skip

_MARKS = (
    "e\u0301", "a\u0308\u0323", "\u0041\u030a", "\u212b", "o\u0302\u0301",
    "Z\u0351\u036b\u0343a\u0334l\u0321", "\u1112\u1161\u11ab",
    "\ufb01", "\u2460", "\uff21\uff11", "\u0958", "\u0301", "क्षि", "กำ",
    "\u1e9b\u0323", "ǆ", "ﷺ", "½", "x²", "Ⅷ",
)  # fmt: skip

_CONTROLS = (
    "\x00", "\x01\x02", "\x07", "\x1b[31m", "\x7f", "\x80", "\u009f",
    "\u202e", "\u200d", "\u200e", "\ufffd", "\ufffe", "\U0010ffff",
    "\ue000", "\U000e0041", "\u00ad",
)  # fmt: skip

_RARE = (
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𐍈𐌰", "𒀀𒁀", "𠮷野家", "ᚠᚢᚦ", "ⴰⵣⵓⵍ", "𞤀𞤣𞤤𞤢𞤥", "ⵣ",
    "ﻻ", "߷", "꧁꧂", "𓀀", "ᐃᓄᒃ", "ꯃꯤꯇꯩ",
)  # fmt: skip

_NUMBERS = (
    "0", "7", "42", "123", "1234", "12345", "1234567890", "3.14159", "1,000",
    "-17", "1e-9", "0xFF", "٣٤٥", "१२३", "１２３", "2026-11-21", "$5.00",
    "50%", "10:30", "000000", "1234567890" * 4,
)  # fmt: skip

_CONTRACTIONS = (
    "don't", "I'm", "we'll", "they've", "it's", "YOU'RE", "he'd", "CAN'T",
    "'tis", "rock'n'roll", "it’s", "''s", "'S", "a'b'c", "ſ's", "K'",
)  # fmt: skip

_FIXED = (
    "",
    " indivisible",
    "indivisible  indivisible",
    " a",
    "a ",
    " a ",
    "Hello, world!",
    "Hello,world!How are you?",
    "The quick brown fox jumps over the lazy dog.",
    "a" * 300,
    "ab" * 100,
    "=" * 80,
    "." * 33,
    "!?" * 20,
    " " * 64,
    "\n" * 12,
    "\t" * 9 + "x",
    "x" + " " * 17 + "y",
    "supercalifragilisticexpialidocious" * 3,
    "пневмоноультрамикроскопический" * 2,
    "漢" * 40,
    "👩‍💻" * 8,
    "e\u0301" * 30,
    "a\u0301\u0327\u0327\u0301",
    "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
    "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>",
    "<s>[INST] hi [/INST] there </s>",
    "<|im_start",
    "|im_end|>",
    "<|im_start|><|im_start|>",
    "< s >",
    "<S>",
    "x<s>y",
    "x <s> y",
    "x  </s>  y",
    "a <|user|>   b",
    "a   <|note|>   b",
    "  <|note|>",
    "<|note|>  ",
    "a[SEP]b",
    "a  [SEP]  b",
    "extra wordy extra word, extra words",
    "the extra word.",
    "<think>\nhm\n</think>\n\nyes",
    "https://example.org/a/b?c=d&e=%20#f",
    "user@example.org",
    "C:\\Users\\x\\y.txt",
    "line one\nline two\r\nline three\rline four",
    "\ufeffBOM at the start",
    "mixed שלום abc مرحبا 123",
    "ａｂｃ　ＡＢＣ",
    "ﬁne ﬀ ﬃ",
    "Å Å Å",
    "각 각",
    "I ❤️ C++20 & CUDA™ ©®",
    "Ünit U\u0308nit \u0055\u0308nits",
)


class Draw:
    """Owns a splitmix64 state; draws small numbers, the same everywhere."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, limit: int) -> int:
        """A number in [0, limit)."""
        mask = (1 << 64) - 1
        self._state = (self._state + 0x9E3779B97F4A7C15) & mask
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 16) % limit

    def one(self, items: tuple[str, ...] | list[str]) -> str:
        """One of the items."""
        return items[self.below(len(items))]


def training_text() -> list[str]:
    """600 lines: sentences, some foreign words, numbers, code."""
    draw = Draw(1)
    lines = []
    for _ in range(600):
        words = [draw.one(_WORDS) for _ in range(4 + draw.below(10))]
        if draw.below(3) == 0:
            words.insert(draw.below(len(words)), draw.one(_FOREIGN))
        if draw.below(4) == 0:
            words.append(str(draw.below(3000)))
        line = " ".join(words) + draw.one([".", ",", "?", "!", ":"])
        if draw.below(2) == 0:
            line = line[0].upper() + line[1:]
        lines.append(line)
        if draw.below(20) == 0:
            lines.append(draw.one(_CODE))
    return lines


def _mixture(draw: Draw) -> str:
    """A few pieces of any kind, with or without white space between them."""
    kinds = (
        _WORDS, _WORDS, _WORDS, _FOREIGN, _FOREIGN, _MARKERS, _MARKERS,
        _EMOJI, _MARKS, _CONTROLS, _RARE, _NUMBERS[:-1], _CONTRACTIONS,
        _SPACES, _CODE,
    )  # fmt: skip
    parts = []
    for _ in range(2 + draw.below(6)):
        parts.append(draw.one(kinds[draw.below(len(kinds))]))
        gap = draw.below(4)
        if gap < 2:
            parts.append(" ")
        elif gap == 2:
            parts.append(draw.one(_SPACES))
    return "".join(parts)


def strings(count: int) -> list[str]:
    """`count` different strings: every piece above once, then mixtures."""
    found = list(_FIXED)
    found += [f"a{space}b" for space in _SPACES]
    found += [f"so {marker}it" for marker in _MARKERS]
    found += [*_EMOJI, *_MARKS, *_RARE, *_NUMBERS, *_CONTRACTIONS, *_CODE]
    found += [f"a{control}b" for control in _CONTROLS]
    found += list(_FOREIGN)
    found = list(dict.fromkeys(found))
    draw = Draw(2)
    while len(found) < count:
        if len(found) % 3 == 0:
            words = [draw.one(_WORDS) for _ in range(3 + draw.below(9))]
            text = " ".join(words) + draw.one(["", ".", "?", "  "])
        else:
            text = _mixture(draw)
        if text not in found:
            found.append(text)
    return found[:count]
