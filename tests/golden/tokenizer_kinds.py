"""One small trained tokenizer of each kind that real models use.

Every function returns the content of a tokenizer.json. Where a family's
vocabulary begins with tokens that training does not give (the 256 bytes of
"byte fallback"), they are put in front of the trained ones.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

Json = dict[str, Any]

_BYTES = [f"<0x{value:02X}>" for value in range(256)]
# The pre-tokenizers' patterns as the families publish them.
_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_SPLIT = _LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


def _special(content: str, **flags: bool) -> AddedToken:
    return AddedToken(content, special=True, normalized=False, **flags)


def _plain(content: str, **flags: bool) -> AddedToken:
    return AddedToken(content, special=False, **flags)


def _bos(tokenizer: Tokenizer, token: str) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(
        single=f"{token} $A",
        pair=f"{token} $A {token}:1 $B:1",
        special_tokens=[(token, tokenizer.token_to_id(token))],
    )


def _european(lines: list[str]) -> list[str]:
    """The lines less all characters from Hebrew on: other bytes fall back."""
    return ["".join(c for c in line if c < "\u0590") for line in lines]


def _content(tokenizer: Tokenizer) -> Json:
    return json.loads(tokenizer.to_str())


def _byte_level(split: str, lines: list[str], vocab_size: int) -> Tokenizer:
    """Byte-level BPE whose pre-tokens are found by a pattern."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def _llama3(lines: list[str]) -> Json:
    """Llama 3: ignore_merges; a word in the vocabulary that no merge makes."""
    trained = _content(_byte_level(_LLAMA3_SPLIT, lines, 480))
    trained["model"]["ignore_merges"] = True
    vocab = trained["model"]["vocab"]
    vocab["Ġindivisible"] = len(vocab)
    tokenizer = Tokenizer.from_str(json.dumps(trained))
    tokenizer.add_special_tokens(
        [
            _special(f"<|{name}|>")
            for name in (
                "begin_of_text",
                "end_of_text",
                "start_header_id",
                "end_header_id",
                "eot_id",
            )
        ]
    )
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            _bos(tokenizer, "<|begin_of_text|>"),
        ]
    )
    return _content(tokenizer)


def _qwen2(lines: list[str]) -> Json:
    """Qwen 2 and 3: NFC, one digit a token, no BOS, <think> not special."""
    tokenizer = _byte_level(_QWEN2_SPLIT, lines, 470)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    names = ("endoftext", "im_start", "im_end")
    tokenizer.add_special_tokens([_special(f"<|{name}|>") for name in names])
    tokenizer.add_tokens(
        [_plain(t, normalized=False) for t in ("<think>", "</think>")]
        # Normalized: found in the text after NFC, however it was written.
        + [_plain("Ünit", normalized=True)]
    )
    return _content(tokenizer)


def _sentencepiece_decoder() -> decoders.Sequence:
    """▁ to space, <0x..> to bytes, one string, one leading space less."""
    return decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1),
        ]
    )


def _with_bytes(trained: Json, first: list[str], merges_as_text: bool) -> Json:
    """Puts `first` and the bytes in front of a trained BPE vocabulary."""
    model = trained["model"]
    known = [t for t in model["vocab"] if t not in first]
    order = first + _BYTES + known
    model["vocab"] = {token: index for index, token in enumerate(order)}
    model["byte_fallback"] = True
    if merges_as_text:
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    return trained


def _sentencepiece_bpe(lines: list[str], merges_as_text: bool) -> Json:
    """BPE with byte fallback over text whose spaces are ▁; specials 0 to 2."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=320, show_progress=False)
    tokenizer.train_from_iterator(_european(lines), trainer)
    tokenizer.pre_tokenizer = None
    trained = _content(tokenizer)
    return _with_bytes(trained, ["<unk>", "<s>", "</s>"], merges_as_text)


def _llama2(lines: list[str]) -> Json:
    """Llama 2: normalizers Prepend and Replace; merges in the old spelling."""
    trained = _sentencepiece_bpe(lines, merges_as_text=True)
    tokenizer = Tokenizer.from_str(json.dumps(trained))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = _sentencepiece_decoder()
    tokenizer.add_special_tokens(
        [
            _special("<unk>"),
            _special("<s>"),
            _special("</s>", rstrip=True),
            _special("<|user|>", rstrip=True),
        ]
    )
    tokenizer.add_tokens(
        [
            _plain("<|note|>", lstrip=True, rstrip=True, normalized=False),
            _plain("extra word", single_word=True, normalized=False),
        ]
    )
    tokenizer.post_processor = _bos(tokenizer, "<s>")
    content = _content(tokenizer)
    merges = content["model"]["merges"]
    content["model"]["merges"] = [" ".join(pair) for pair in merges]
    return content


def _mistral(lines: list[str]) -> Json:
    """Mistral: a Metaspace pre-tokenizer that does not split."""
    trained = _sentencepiece_bpe(lines, merges_as_text=False)
    tokenizer = Tokenizer.from_str(json.dumps(trained))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        prepend_scheme="first", split=False
    )
    tokenizer.decoder = _sentencepiece_decoder()
    names = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]")
    tokenizer.add_special_tokens([_special(name) for name in names])
    tokenizer.post_processor = _bos(tokenizer, "<s>")
    return _content(tokenizer)


def _train_unigram(lines: list[str], vocab_size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        max_piece_length=8,
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    content = _content(tokenizer)
    # The trainer numbers rare characters, and equal scores, in the order of a
    # hash table: characters get the logarithm of their share, then all is put
    # in order, so that the file is the same every time.
    text = "".join(lines).replace(" ", "▁")
    vocab = [
        (
            (p, round(math.log((text.count(p) or 0.5) / len(text)), 4))
            if len(p) == 1
            else (p, round(score, 4))
        )
        for p, score in content["model"]["vocab"]
    ]
    content["model"]["vocab"] = vocab[:3] + sorted(
        vocab[3:], key=lambda entry: (-entry[1], entry[0])
    )
    return Tokenizer.from_str(json.dumps(content))


def _unigram(lines: list[str]) -> Json:
    """T5: NFKC, runs of spaces folded, unknown stays unknown, ends in </s>."""
    tokenizer = _train_unigram(lines, 400)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens(
        [_special("<mask>", lstrip=True), _special("[SEP]", rstrip=True)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>",
        pair="$A </s> $B:1 </s>:1",
        special_tokens=[("</s>", tokenizer.token_to_id("</s>"))],
    )
    return _content(tokenizer)


def _unigram_bytes(lines: list[str]) -> Json:
    """Unigram with byte fallback, BOS, spaces replaced by the normalizer."""
    content = _content(_train_unigram(lines, 300))
    trained = content["model"]["vocab"]
    floor = min(score for _, score in trained)
    below = round(floor - 5, 4)
    pieces = trained[:3] + [[token, below] for token in _BYTES]
    content["model"]["vocab"] = pieces + trained[3:]
    content["model"]["byte_fallback"] = True
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
        ]
    )
    tokenizer.add_special_tokens([_special("<s>"), _special("<|user|>")])
    tokenizer.post_processor = _bos(tokenizer, "<s>")
    return _content(tokenizer)


def _wordlevel(lines: list[str]) -> Json:
    """Words between white space; no decoder: a space between the words."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(
        vocab_size=400,
        special_tokens=[
            _special("[UNK]"),
            _special("[BOS]"),
            _special("[SEP]", lstrip=True, rstrip=True),
        ],
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = _bos(tokenizer, "[BOS]")
    return _content(tokenizer)


KINDS: dict[str, Callable[[list[str]], Json]] = {
    "llama3": _llama3,
    "qwen2": _qwen2,
    "llama2": _llama2,
    "mistral": _mistral,
    "unigram": _unigram,
    "unigram_bytes": _unigram_bytes,
    "wordlevel": _wordlevel,
}
