"""Makes fixtures.json: what the oracles choose and read in every case.

    python3 -m venv venv && venv/bin/pip install numpy==2.4.6
    venv/bin/python make_fixtures.py           writes fixtures.json
    venv/bin/python make_fixtures.py --check   makes it again and compares
    venv/bin/python make_fixtures.py --show infllm_prompt     every row's picks

A case takes the first seed for which no rounding of float32 could change a
choice, and for which every reading of the paper that the case is `unlike`
chooses otherwise in some row: so the fixtures tell them apart.

README.md says what the file holds.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import arkvale
import clusterkv
import infllm_v2
import mean
import moba
import oracle
import quest
import reductions
import retroinfer
import seerattention
import shadowkv
import snapkv
import substrate
import tidal
import window
from cases import CASES, LAYER_CASES
from substrate import Case, Chosen, Narrow, Row

FIXTURES = Path(__file__).resolve().parent / "fixtures.json"
ORACLES = {
    "window": window,
    "mean": mean,
    "quest": quest,
    "moba": moba,
    "arkvale": arkvale,
    "oracle": oracle,
    "infllm-v2": infllm_v2,
    "snapkv": snapkv,
    "shadowkv": shadowkv,
    "seerattention-r": seerattention,
    "clusterkv": clusterkv,
    "retroinfer": retroinfer,
}
CHOOSE_IN_PROMPTS = {"moba", "infllm-v2"}
LONGEST_TEXT = 48
# What a case's fixture leaves out.
DEFAULTS = {
    "rows": 1,
    "prompt_rows": 0,
    "context_tokens": None,
    "kv_heads": 2,
    "dtype": "float32",
    "q_gain": 1,
    "period": 0,
    "bfloat16_recall": None,
    "gate_norms": False,
}
MOST_SEEDS = 400


def rows_of(case: Case):
    """(Row, V) of each row of a case."""
    q, k, v = case.numbers()
    first = case.length - case.rows
    whole = case.prompt_tokens or first + case.prompt_rows
    token_q = case.token_queries(whole) if case.selector == "snapkv" else None
    gates = case.gates() if case.selector == "seerattention-r" else None
    assignment = None
    if case.selector in ("clusterkv", "retroinfer"):
        p = case.parameters
        assignment = case.assignment(p["segment"] // p["cluster"])
    for i in range(case.rows):
        yield Row(
            q[i],
            k[: first + i + 1],
            case.group,
            i < case.prompt_rows,
            whole,
            case.dtype,
            case.context_tokens or whole,
            token_q,
            case.parameters.get("summaries") == "fp8",
            gates,
            None if gates is None else gates.q_pre[i],
            None if assignment is None else assignment[: first + i + 1],
        ), v[: first + i + 1]


def choose(case: Case, row: Row, unlike: str = "") -> Chosen | None:
    """None: the row reads everything."""
    if row.is_prompt and case.selector not in CHOOSE_IN_PROMPTS:
        return None
    return ORACLES[case.selector].choose(row, case.parameters, unlike)


def ranges(blocks: list[int]) -> str:
    """[0, 1, 2, 5] is "0-2,5"."""
    parts: list[list[int]] = []
    for b in blocks:
        if parts and parts[-1][1] == b - 1:
            parts[-1][1] = b
        else:
            parts.append([b, b])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


def text_of(chosen: Chosen | None) -> str:
    """The lists of a row: "0-2,5|0,4-5~1,3", or "all"; clusters behind ~."""
    if chosen is None:
        return "all"
    texts = [ranges(blocks) for blocks in chosen.lists]
    if chosen.estimates is not None:
        texts = [
            f"{text}~{ranges(clusters)}" if clusters else text
            for text, clusters in zip(texts, chosen.estimates, strict=True)
        ]
    return "|".join(texts)


def hashed(text: str) -> str:
    """ "#" and the 64-bit FNV-1a hash."""
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"#{state:016x}"


def short(text: str) -> str:
    """The text itself, or its hash where it is long."""
    return text if len(text) <= LONGEST_TEXT else hashed(text)


def read_of(row: Row, v: np.ndarray, chosen: Chosen | None) -> list[float]:
    """Two weighted sums of a row's outputs, and the sum of its lse."""
    out, lse = substrate.attention(row, v, chosen)
    h, c = np.indices(out.shape)
    sums = [
        (out * ((7 * h + 3 * c) % 5 - 2)).sum(),
        (out * ((h + 2 * c) % 7 - 3)).sum(),
        lse.sum(),
    ]
    return [float(f"{x:.6g}") for x in sums]


def fixture(case: Case) -> dict:
    """A case with the first seed that is sharp enough."""
    failed: set[str] = set()
    for case.seed in range(1, MOST_SEEDS):
        try:
            rows = list(rows_of(case))
            picks = [choose(case, row) for row, _ in rows]
            recall = recall_of(case, picks) if case.measures_recall else None
            for unlike in case.unlike:
                if not any(
                    differs(case, row, unlike, x)
                    for (row, _), x in zip(rows, picks)
                ):
                    failed.add(unlike)
                    raise Narrow(unlike)
        except Narrow:
            continue
        break
    else:
        sys.exit(f"{case.name}: no seed below {MOST_SEEDS}, {failed}")
    texts = [text_of(x) for x in picks]
    probes = case.probes or sorted({0, case.rows // 2, case.rows - 1})
    made = {
        "name": case.name,
        "spec": case.spec,
        "length": case.length,
        "rows": case.rows,
        "prompt_rows": case.prompt_rows,
        "prompt_tokens": rows[0][0].prompt_tokens,
        "context_tokens": case.context_tokens or None,
        "kv_heads": case.kv_heads,
        "group": case.group,
        "dtype": case.dtype,
        "q_gain": case.q_gain,
        "period": case.period,
        "seed": case.seed,
        "block": picks[-1].block if picks[-1] else 1,
        "bfloat16_recall": recall,
        "gate_norms": case.gate_norms,
        "picks": hashed("\n".join(texts)),
    }
    made = {k: x for k, x in made.items() if DEFAULTS.get(k) != x}
    made["probes"] = [
        [i, short(texts[i]), *read_of(*rows[i], picks[i])] for i in probes
    ]
    return made


def layer_fixture(case: Case) -> dict:
    """The same of a case of several layers, what each of them reads."""
    for case.seed in range(1, MOST_SEEDS):
        try:
            layers = tidal.read(case, rows_of)
            others = [tidal.read(case, rows_of, x) for x in case.unlike]
        except Narrow:
            continue
        if layers not in others:
            break
    else:
        sys.exit(f"{case.name}: no seed below {MOST_SEEDS}")
    made = {
        "name": case.name,
        "spec": case.spec,
        "length": case.length,
        "rows": case.rows,
        "prompt_rows": case.prompt_rows,
        "prompt_tokens": case.length - case.rows + case.prompt_rows,
        "kv_heads": case.kv_heads,
        "group": case.group,
        "dtype": case.dtype,
        "seed": case.seed,
        "layers": [],
    }
    made = {k: x for k, x in made.items() if DEFAULTS.get(k) != x}
    for layer, picks in enumerate(layers):
        texts = [text_of(x) for x in picks]
        rows = list(rows_of(tidal.at_layer(case, layer)))
        made["layers"].append(
            {
                "picks": hashed("\n".join(texts)),
                "probes": [
                    [i, short(texts[i]), *read_of(*rows[i], picks[i])]
                    for i in sorted({0, case.rows - 1})
                ],
            }
        )
    return made


def recall_of(case: Case, picks: list[Chosen | None]) -> float:
    """The share of the picks that bfloat16 summaries choose too."""
    num_common = num_picks = 0
    for (row, _), exact in zip(rows_of(case), picks):
        row.dtype = "bfloat16"
        for a, b in zip(exact.lists, choose(case, row).lists):
            num_common += len(set(a) & set(b))
            num_picks += len(a)
    return round(num_common / num_picks, 6)


def differs(case: Case, row: Row, unlike: str, chosen: Chosen | None) -> bool:
    """Whether another reading chooses otherwise, beyond any rounding."""
    try:
        return text_of(choose(case, row, unlike)) != text_of(chosen)
    except Narrow:
        return False


def main() -> int:
    """Writes, checks or shows; 1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--show", metavar="CASE")
    options = parser.parse_args()
    if options.show:
        case = next(c for c in CASES if c.name == options.show)
        case.seed = fixture(case)["seed"]
        for i, (row, _) in enumerate(rows_of(case)):
            print(i, text_of(choose(case, row)))
        return 0
    lines = [json.dumps(fixture(case)) for case in CASES]
    text = (
        '{"cases": [\n'
        + ",\n".join(lines)
        + '\n],\n"layer_cases": [\n'
        + ",\n".join(json.dumps(layer_fixture(case)) for case in LAYER_CASES)
        + '\n],\n"reductions": '
        + json.dumps(reductions.fixture())
        + "}\n"
    )
    if not options.check:
        FIXTURES.write_text(text)
        print(f"{len(CASES)} cases, {len(text)} bytes")
        return 0
    same = FIXTURES.read_text() == text
    print("fixtures.json is as made" if same else "fixtures.json differs")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
