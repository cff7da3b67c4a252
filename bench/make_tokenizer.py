"""Writes tokenizer.json files whose tokens mean nothing, for timing."""

from __future__ import annotations

import json
import random
from pathlib import Path

# The pre-tokenizer of Llama 3, as its tokenizer.json has it.
LLAMA_3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write(path: Path, model: dict, pre_tokenizer: dict, decoder: dict) -> None:
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [], "normalizer": None, "post_processor": None,
        "pre_tokenizer": pre_tokenizer, "decoder": decoder, "model": model,
    }, ensure_ascii=False))


def write_word_level(path: Path, vocab_size: int) -> None:
    """Token 17 is the word "t17": a prompt of ids is written in words."""
    vocab = {f"t{token}": token for token in range(vocab_size)}
    write(path, {"type": "WordLevel", "vocab": vocab, "unk_token": "t0"},
          {"type": "WhitespaceSplit"},
          {"type": "WordPiece", "prefix": "##", "cleanup": False})


def byte_letters() -> list[str]:
    """GPT-2's letter for each byte: itself where it can be seen."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return ([chr(byte) for byte in seen] +
            [chr(256 + index) for index in range(len(hidden))])


def write_byte_level(path: Path, vocab_size: int) -> None:
    """Byte-level BPE as Llama 3's, its merges drawn instead of learned: the
    sizes of the vocabulary, the merges and the tokens are what loading costs.
    """
    source = random.Random(0)
    tokens = byte_letters()
    vocab = {token: index for index, token in enumerate(tokens)}
    inner = [*"abcdefghijklmnopqrstuvwxyz"]  # what may follow within a word
    parts = [*inner, "Ġ"]
    merges = []
    while len(vocab) < vocab_size:
        left, right = source.choice(parts), source.choice(inner)
        merged = left + right
        if merged in vocab:
            continue
        vocab[merged] = len(vocab)
        merges.append(f"{left} {right}")
        if len(merged) <= 6:
            parts.append(merged)
            if merged[0] != "Ġ":
                inner.append(merged)
    model = {"type": "BPE", "dropout": None, "unk_token": None,
             "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
             "vocab": vocab, "merges": merges}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False,
                  "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": LLAMA_3_SPLIT},
             "behavior": "Isolated", "invert": False}
    write(path, model,
          {"type": "Sequence", "pretokenizers": [split, byte_level]},
          {**byte_level, "add_prefix_space": True, "use_regex": True})
