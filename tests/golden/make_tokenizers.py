"""Trains the tokenizers of tests/golden/tokenizers/ and records what they do.

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python make_tokenizers.py            writes tokenizers/
    venv/bin/python make_tokenizers.py --check    makes all again and compares

Made with the Python library tokenizers 0.23.3. README.md describes the files.
"""

import argparse
import json
import os
import pathlib
import sys
from typing import Any

# Before the import: training in one thread is the same every time.
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Tokenizer  # noqa: E402

import tokenizer_kinds  # noqa: E402
import tokenizer_strings  # noqa: E402

NUM_STRINGS = 500
NUM_RANDOM = 60
FOLDER = pathlib.Path(__file__).resolve().parent / "tokenizers"


def compact(value: Any) -> str:
    """JSON without spaces, UTF-8 kept, an object's or list's items a line."""

    def flat(item: Any) -> str:
        return json.dumps(item, ensure_ascii=False, separators=(",", ":"))

    if isinstance(value, list):
        return "[\n" + ",\n".join(flat(item) for item in value) + "\n]"
    rows = (
        f"{flat(key)}:" + (compact(v) if len(flat(v)) > 400 else flat(v))
        for key, v in value.items()
    )
    return "{\n" + ",\n".join(rows) + "\n}"


def ends_added(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """What add_special_tokens puts before and after the ids of any text."""
    with_text = tokenizer.encode("the", add_special_tokens=True).ids
    text = tokenizer.encode("the", add_special_tokens=False).ids
    at = next(
        i for i in range(len(with_text)) if with_text[i : i + len(text)] == text
    )
    return with_text[:at], with_text[at + len(text) :]


def random_ids(vocab_size: int) -> list[list[int]]:
    """Lists of any ids: half a character, a byte alone, specials inside."""
    draw = tokenizer_strings.Draw(vocab_size)
    return [
        [draw.below(vocab_size) for _ in range(1 + draw.below(20))]
        for _ in range(NUM_RANDOM)
    ]


def streamed(tokenizer: Tokenizer, ids: list[int], skip: bool) -> str:
    """The text of a stream: of a run of byte tokens each character, and a
    replacement character for each byte that belongs to none, as SentencePiece
    0.2.1 decodes. `tokenizers` replaces all bytes of such a run."""
    special = {
        token.content
        for token in tokenizer.get_added_tokens_decoder().values()
        if token.special
    }
    tokens = [tokenizer.id_to_token(i) for i in ids]
    tokens = [t for t in tokens if not (skip and t in special)]
    mended: list[str] = []
    while tokens:
        run = 0
        while run < len(tokens) and tokens[run].startswith("<0x"):
            run += 1
        raw = bytes(int(t[3:5], 16) for t in tokens[:run])
        while raw:
            for size in range(1, 5):
                try:
                    raw[:size].decode("utf-8")
                except UnicodeDecodeError:
                    continue
                mended += [f"<0x{byte:02X}>" for byte in raw[:size]]
                raw = raw[size:]
                break
            else:
                mended.append("\ufffd")
                raw = raw[1:]
        mended += tokens[run : run + 1]
        tokens = tokens[run + 1 :]
    return tokenizer.decoder.decode(mended)


def record(tokenizer: Tokenizer, strings: list[str]) -> dict[str, Any]:
    """The content of golden.json for one tokenizer."""
    prefix, suffix = ends_added(tokenizer)
    ids, kept, skipped, whole = [], [], [], []
    for text in strings:
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        full = tokenizer.encode(text, add_special_tokens=True).ids
        assert full == prefix + plain + suffix, text
        with_specials = tokenizer.decode(plain, skip_special_tokens=False)
        without = tokenizer.decode(plain, skip_special_tokens=True)
        assert without == tokenizer.decode(full, skip_special_tokens=True)
        ids.append(plain)
        kept.append(None if with_specials == text else with_specials)
        skipped.append(None if without == with_specials else without)
        whole.append(tokenizer.decode(full, skip_special_tokens=False))
    first = tokenizer.decode(prefix, skip_special_tokens=False)
    last = tokenizer.decode(suffix, skip_special_tokens=False)
    for index, text in enumerate(strings):
        body = text if kept[index] is None else kept[index]
        if whole[index] == first + body + last:
            whole[index] = None
    lists = random_ids(tokenizer.get_vocab_size())
    streams = {}
    if '"ByteFallback"' in tokenizer.to_str():
        streams = {
            "random_streamed": [streamed(tokenizer, i, False) for i in lists],
            "random_streamed_skipped": [
                streamed(tokenizer, i, True) for i in lists
            ],
        }
    return {
        "prefix": prefix,
        "suffix": suffix,
        "prefix_text": first,
        "suffix_text": last,
        "ids": ids,
        "kept": kept,
        "skipped": skipped,
        "whole": whole,
        "random_ids": lists,
        "random_kept": [
            tokenizer.decode(i, skip_special_tokens=False) for i in lists
        ],
        "random_skipped": [
            tokenizer.decode(i, skip_special_tokens=True) for i in lists
        ],
        **streams,
    }


def make_files() -> dict[str, str]:
    """Path under tokenizers/ -> text."""
    strings = tokenizer_strings.strings(NUM_STRINGS)
    lines = tokenizer_strings.training_text()
    files = {"strings.json": compact(strings) + "\n"}
    for kind, train in tokenizer_kinds.KINDS.items():
        text = json.dumps(
            train(lines), ensure_ascii=False, separators=(",", ":")
        )
        golden = record(Tokenizer.from_str(text), strings)
        files[f"{kind}/tokenizer.json"] = text + "\n"
        files[f"{kind}/golden.json"] = compact(golden) + "\n"
    return files


def main() -> int:
    """Writes or checks all files; 1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    status = 0
    for name, text in make_files().items():
        path = FOLDER / name
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        elif not path.is_file() or path.read_bytes() != text.encode():
            print(f"tokenizers/{name} differs", file=sys.stderr)
            status = 1
        print(f"{name:30} {len(text.encode()):7} bytes")
    return status


if __name__ == "__main__":
    sys.exit(main())
