#!/usr/bin/env python3
"""winnow-lab's greedy tokens against transformers', prompt by prompt.

    check_winnow_lab.py --dtype float32 [--min-length 1] [--max-length 4096]
                        [--most 68] [--model FOLDER] [-- FLAG...]

float32: all tokens must be equal. bfloat16: equal to the float32 tokens up to
the first position whose best two logits are closer than 0.05; such prompts
are listed. Prompts are made again from (task, length, seed, index).

`make test` runs a few of the short ones. All of them, those of 32K too,
or the 32K ones alone (they take long, in float32 above all):

    make && tests/golden/check_winnow_lab.py --dtype float32
    make && tests/golden/check_winnow_lab.py --dtype float32 --min-length 32768

The same function at another shape has the same answers, on any device:

    lab/embed lab/models/winnow-lab --shape llama-3.1-8b OUT
    tests/golden/check_winnow_lab.py --dtype bfloat16 --model OUT --batch 34 \\
        -- --device cuda
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

CLEAR_MARGIN = 0.05


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--winnow", default=str(ROOT / "build/winnow"))
    parser.add_argument("--dtype", choices=["float32", "bfloat16"],
                        default="float32")
    parser.add_argument("--min-length", type=int, default=0)
    parser.add_argument("--max-length", type=int, default=1 << 20)
    parser.add_argument("--most", type=int, default=1 << 20)
    parser.add_argument("--model", default=str(ROOT / "lab/models/winnow-lab"))
    parser.add_argument("--batch", type=int, default=8,
                        help="prompts that a process answers")
    parser.add_argument("flags", nargs="*")
    return parser.parse_args()


def generate(options: argparse.Namespace, entries: list[dict]) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        command = [options.winnow, "generate",
                   options.model,
                   "--dtype", options.dtype, "--temperature", "0",
                   "--max-tokens", "24", "--quiet",
                   "--json", f"{folder}/result", *options.flags]
        for index, entry in enumerate(entries):
            prompt = make_record(entry["task"], entry["length"],
                                 entry["seed"], entry["index"]).prompt
            if zlib.crc32(prompt.encode()) != entry["prompt_crc32"]:
                sys.exit(f"prompt {entry} is not the one that was answered")
            path = Path(folder) / f"prompt{index}"
            path.write_text(prompt)
            command += ["--prompt-file", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = Path(folder, "result").read_text().splitlines()
    return [json.loads(line) for line in lines]


def clear_prefix(entry: dict) -> int:
    """Tokens before the first whose margin is not clear."""
    for index, margin in enumerate(entry["margins"]):
        if margin < CLEAR_MARGIN:
            return index
    return len(entry["token_ids"])


def judge(entry: dict, line: dict, dtype: str) -> tuple[str, str]:
    """What is wrong with an answer, and where its margins are not clear; ""
    where nothing is."""
    want, got = entry["token_ids"], line["token_ids"]
    if line["prompt_tokens"] != entry["prompt_tokens"]:
        return (f"{line['prompt_tokens']} prompt tokens, "
                f"transformers has {entry['prompt_tokens']}"), ""
    unclear = ""
    if dtype == "bfloat16":
        clear = clear_prefix(entry)
        if clear < len(want):
            is_same = "the same" if got == want else f"{got} for {want}"
            unclear = (f"margin {entry['margins'][clear]} at token {clear} of "
                       f"{len(want)}, {is_same}")
        want, got = want[:clear], got[:clear]
    wrong = "" if want == got else f"got {got}, transformers gives {want}"
    return wrong, unclear


def main() -> int:
    options = parse()
    entries = json.loads(
        (ROOT / "tests/golden/winnow_lab_greedy.json").read_text())
    entries = [entry for entry in entries
               if options.min_length <= entry["length"] <= options.max_length]
    step = max(1, len(entries) // options.most)
    entries = entries[::step][:options.most]
    num_wrong = num_unclear = 0
    for first in range(0, len(entries), options.batch):
        batch = entries[first:first + options.batch]
        for entry, line in zip(batch, generate(options, batch), strict=True):
            name = "{task} {length} seed {seed} index {index}".format(**entry)
            wrong, unclear = judge(entry, line, options.dtype)
            for what in filter(None, [wrong, unclear]):
                print(f"{name}: {what}")
            num_wrong += wrong != ""
            num_unclear += unclear != ""
    print(f"{options.dtype}: {len(entries) - num_wrong} passed, "
          f"{num_wrong} failed ({num_unclear} with a margin below "
          f"{CLEAR_MARGIN})")
    return int(num_wrong > 0 or not entries)


if __name__ == "__main__":
    sys.exit(main())
