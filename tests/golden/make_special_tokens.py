"""Records which special tokens transformers makes of a folder's files.

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/pip install transformers==5.24.0
    venv/bin/python make_special_tokens.py            writes special_tokens.json
    venv/bin/python make_special_tokens.py --check    makes it again and compares

Made with transformers 5.24.0. README.md describes the file.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
from typing import Any

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

from transformers import AutoTokenizer  # noqa: E402

FILE = pathlib.Path(__file__).resolve().parent / "special_tokens.json"
TEXT = "x<a> <b>y<c>z<d>"
CONFIG, MAP, ADDED = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)

Json = dict[str, Any]


def flags(content: str, **changes: bool) -> Json:
    """An added token with all its fields."""
    return {
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
        **changes,
    }


def typed(content: str, **changes: bool) -> Json:
    """The same as transformers saves it in a field."""
    return {"__type": "AddedToken", **flags(content, **changes)}


def byte_tokens() -> list[str]:
    """GPT-2's stand-ins for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [
        chr(b) if b in printable else chr(256 + others.index(b))
        for b in range(256)
    ]


def tokenizer_json(added: list[Json]) -> Json:
    """Byte-level; <a>, <b>, <c> stand in its own vocabulary."""
    vocab = [*byte_tokens(), "<a>", "<b>", "<c>"]
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(vocab)},
            "merges": [],
        },
    }


PLAIN = [
    {"id": 256, **flags("<a>", special=False)},
    {"id": 257, **flags("<b>", special=False)},
]
ONE = {"256": flags("<a>")}

# Name: what tokenizer.json lists as added, and the other files.
CASES: dict[str, tuple[list[Json], dict[str, Json]]] = {
    "end": ([], {CONFIG: {"eos_token": "<a>"}}),
    "end_object": ([], {CONFIG: {"eos_token": typed("<a>", lstrip=True)}}),
    "additional": ([], {CONFIG: {"additional_special_tokens": ["<a>", "<b>"]}}),
    "additional_objects": (
        [],
        {CONFIG: {"additional_special_tokens": [typed("<a>", rstrip=True), "<b>"]}},
    ),
    "extra_list": ([], {CONFIG: {"extra_special_tokens": ["<a>", "<b>"]}}),
    "extra_names": (
        [],
        {CONFIG: {"extra_special_tokens": {"image_token": "<a>", "eoi": "<b>"}}},
    ),
    "extra_goes_first": (
        [],
        {
            CONFIG: {
                "extra_special_tokens": ["<a>"],
                "additional_special_tokens": ["<b>"],
            }
        },
    ),
    "empty_extra": (
        [],
        {
            CONFIG: {
                "extra_special_tokens": {},
                "additional_special_tokens": ["<b>"],
            }
        },
    ),
    "own_name": ([], {CONFIG: {"image_token": "<a>"}}),
    "additional_beside_names": (
        [],
        {
            CONFIG: {
                "additional_special_tokens": ["<a>"],
                "extra_special_tokens": {"image_token": "<b>"},
            }
        },
    ),
    "additional_of_map_beside_names": (
        [],
        {
            CONFIG: {
                "additional_special_tokens": ["<c>"],
                "extra_special_tokens": {"image_token": "<b>"},
            },
            MAP: {"additional_special_tokens": ["<a>"]},
        },
    ),
    "additional_behind_names_of_map": (
        [],
        {
            CONFIG: {
                "additional_special_tokens": ["<a>"],
                "extra_special_tokens": ["<c>"],
            },
            MAP: {"extra_special_tokens": {"image_token": "<b>"}},
        },
    ),
    "additional_names": (
        [],
        {CONFIG: {"additional_special_tokens": {"image_token": "<a>"}}},
    ),
    "empty_additional_beside_names": (
        [],
        {
            CONFIG: {
                "additional_special_tokens": [],
                "extra_special_tokens": {"image_token": "<b>"},
            }
        },
    ),
    "model_specific": (
        [],
        {CONFIG: {"model_specific_special_tokens": {"image_token": "<a>"}}},
    ),
    "model_specific_object": (
        [],
        {
            CONFIG: {
                "model_specific_special_tokens": {
                    "image_token": typed("<a>", rstrip=True)
                }
            }
        },
    ),
    "model_specific_new": (
        [],
        {
            CONFIG: {
                "additional_special_tokens": ["<e>"],
                "model_specific_special_tokens": {"image": "<d>"},
            }
        },
    ),
    "model_specific_end": (
        [],
        {
            CONFIG: {
                "eos_token": "<b>",
                "model_specific_special_tokens": {"eos_token": "<a>"},
            }
        },
    ),
    "model_specific_beside_extra_names": (
        [],
        {
            CONFIG: {
                "extra_special_tokens": {"image_token": "<b>"},
                "model_specific_special_tokens": {"audio_token": "<a>"},
            }
        },
    ),
    "model_specific_beside_own_name": (
        [],
        {
            CONFIG: {
                "image_token": "<b>",
                "model_specific_special_tokens": {"audio_token": "<a>"},
            }
        },
    ),
    "model_specific_beside_list": (
        [],
        {
            CONFIG: {
                "extra_special_tokens": ["<b>"],
                "model_specific_special_tokens": {"audio_token": "<a>"},
            }
        },
    ),
    "model_specific_beside_map": (
        [],
        {
            CONFIG: {"model_specific_special_tokens": {"image_token": "<a>"}},
            MAP: {"extra_special_tokens": {"audio_token": "<b>"}},
        },
    ),
    "model_specific_listed": (
        PLAIN,
        {CONFIG: {"model_specific_special_tokens": {"image_token": "<a>"}}},
    ),
    "model_specific_beside_decoder": (
        [],
        {
            CONFIG: {
                "added_tokens_decoder": ONE,
                "model_specific_special_tokens": {"image_token": "<b>"},
            }
        },
    ),
    "own_name_beside_map": (
        [],
        {CONFIG: {"image_token": "<a>"}, MAP: {"image_token": "<b>"}},
    ),
    "additional_beside_names_added_file": (
        [],
        {
            CONFIG: {
                "additional_special_tokens": ["<a>"],
                "extra_special_tokens": {"image_token": "<b>"},
            },
            ADDED: {"<a>": 256, "<b>": 257},
        },
    ),
    "map": (
        [],
        {
            CONFIG: {},
            MAP: {"eos_token": "<a>", "additional_special_tokens": ["<b>"]},
        },
    ),
    "map_goes_first": (
        [],
        {CONFIG: {"eos_token": "<b>"}, MAP: {"eos_token": "<a>"}},
    ),
    "map_object": (
        [],
        {CONFIG: {}, MAP: {"eos_token": flags("<a>", rstrip=True)}},
    ),
    "map_beside_listed": (
        [],
        {CONFIG: {"added_tokens_decoder": ONE}, MAP: {"eos_token": "<b>"}},
    ),
    "map_extra": (
        [],
        {
            CONFIG: {"extra_special_tokens": ["<a>"]},
            MAP: {"extra_special_tokens": ["<b>"]},
        },
    ),
    "map_extra_names": (
        [],
        {CONFIG: {}, MAP: {"extra_special_tokens": {"x_token": "<b>"}}},
    ),
    "map_additional_goes_last": (
        [],
        {
            CONFIG: {"additional_special_tokens": ["<a>"]},
            MAP: {"additional_special_tokens": ["<b>"]},
        },
    ),
    "map_own_name": ([], {CONFIG: {}, MAP: {"image_token": "<a>"}}),
    "new_end": ([], {CONFIG: {"eos_token": "<d>"}}),
    "new_in_map": ([], {CONFIG: {}, MAP: {"pad_token": "<d>"}}),
    "several_new": (
        [],
        {
            CONFIG: {
                "additional_special_tokens": ["<f>"],
                "eos_token": "<d>",
                "bos_token": "<e>",
            }
        },
    ),
    "listed_plain_pad": (PLAIN, {CONFIG: {"pad_token": "<a>"}}),
    "listed_plain_additional": (
        PLAIN,
        {CONFIG: {"additional_special_tokens": ["<a>"]}},
    ),
    "listed_plain_name": (
        PLAIN,
        {CONFIG: {"extra_special_tokens": {"i_token": "<a>"}}},
    ),
    "listed_plain_decoder": (PLAIN, {CONFIG: {"added_tokens_decoder": ONE}}),
    "listed_plain_map": (PLAIN, {CONFIG: {}, MAP: {"eos_token": "<a>"}}),
    "decoder_changes_flags": (
        [{"id": 256, **flags("<a>")}],
        {CONFIG: {"added_tokens_decoder": {"256": flags("<a>", rstrip=True)}}},
    ),
    "decoder_says_plain": (
        [{"id": 256, **flags("<a>")}],
        {CONFIG: {"added_tokens_decoder": {"256": flags("<a>", special=False)}}},
    ),
    "decoder_plain_end": (
        [],
        {
            CONFIG: {
                "eos_token": "<a>",
                "added_tokens_decoder": {"256": flags("<a>", special=False)},
            }
        },
    ),
    "decoder_new": ([], {CONFIG: {"added_tokens_decoder": {"259": flags("<d>")}}}),
    "decoder_short": (
        [],
        {CONFIG: {"added_tokens_decoder": {"256": {"content": "<a>"}}}},
    ),
    "added_file": (
        [],
        {CONFIG: {"eos_token": "<a>"}, ADDED: {"<a>": 256, "<b>": 257}},
    ),
    "added_file_new": ([], {CONFIG: {}, ADDED: {"<d>": 259}}),
    "nulls": (
        [],
        {
            CONFIG: {
                "eos_token": None,
                "additional_special_tokens": None,
                "extra_special_tokens": None,
            }
        },
    ),
}


def record(added: list[Json], files: dict[str, Json]) -> Json:
    """A case with what AutoTokenizer makes of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        all_files = {"tokenizer.json": tokenizer_json(added), **files}
        for file, content in all_files.items():
            if file == CONFIG:
                content = {
                    "tokenizer_class": "PreTrainedTokenizerFast",
                    **content,
                }
            (folder / file).write_text(json.dumps(content))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = tokenizer.encode(TEXT, add_special_tokens=False)
        return {
            "added": added,
            "files": files,
            "ids": ids,
            "skipped": tokenizer.decode(ids, skip_special_tokens=True),
            "eos_token": tokenizer.eos_token,
            "num_tokens": len(tokenizer),
        }


def main() -> int:
    """Writes or checks the file; 1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(record(*case))}"
        for name, case in CASES.items()
    )
    text = f'{{"text": {json.dumps(TEXT)}, "cases": {{\n{rows}\n}}}}\n'
    if not check:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        print(f"{FILE.name} differs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
