"""Cases that nobody chose: shapes, lengths and budgets by a seed.

Those of cases.py are for what is known to go wrong. These have groups of 5, 6
and 7 heads, lengths of 1 to 5,000 tokens and budgets from one block to all.
"""

from __future__ import annotations

import random

from substrate import Case

SEED = 5
PER_SELECTOR = 4


def _choices(draw: random.Random, selector: str, length: int) -> dict:
    """Parameters of a SPEC, but for its budget."""
    small = draw.choice([0, 0, 1, 4, 20])
    near = draw.choice([0, 1, 16, 50])
    block = draw.choice([8, 16, 32, 64])
    dense = {"dense_layers": "none"}
    clusters = {"segment": draw.choice([32, 64, 128]), "sink": small}
    of = {
        "window": {"sink": small, "recent": 1 + draw.randrange(length)},
        "mean": {"block": block, "sink": small, "recent": near},
        "quest": dense | {"block": block, "heads": draw.choice(["q", "kv"])},
        "arkvale": dense | {"block": block, "sink": small, "recent": near},
        "oracle": {
            "block": draw.choice([1, 16, 32]),
            "sink": small,
            "recent": near,
        },
        "moba": {"block": draw.choice([32, 64, 256])},
        "infllm-v2": {
            "kernel": 32,
            "stride": 16,
            "block": draw.choice([32, 64]),
            "sink": small,
            "recent": 2 * near,
            "dense_len": draw.choice([0, 0, length // 2]),
        },
        "snapkv": {"window": draw.choice([1, 8, 32]), "kernel": 5},
        "shadowkv": {
            "block": draw.choice([4, 8]),
            "outliers": draw.choice([0, 32, 96]),
            "recent": near,
        },
        "seerattention-r": {"block": draw.choice([8, 16, 64])},
        "clusterkv": dense | clusters | {"cluster": draw.choice([4, 8, 16])},
        "retroinfer": clusters
        | {
            "cluster": draw.choice([8, 16]),
            "recent": near,
            "estimate": draw.choice([0, 64, "1/4"]),
        },
    }
    return of[selector]


def _forced(p: dict, block: int) -> int:
    """Blocks that stand inside a budget whatever their scores."""
    return sum(-(-p.get(k, 0) // block) for k in ("sink", "recent"))


def _with_budget(
    draw: random.Random, selector: str, p: dict, length: int
) -> dict:
    """From one block, beside what is forced, to all there is."""
    if selector == "window":
        return p
    if selector == "snapkv":
        least = p["window"] + 1
    else:
        block = p.get("cluster", p.get("block"))
        inside = selector in ("quest", "arkvale", "infllm-v2", "clusterkv")
        least = block * (1 + (_forced(p, block) if inside else 0))
    most = max(length, least)
    budget = round(least * (most / least) ** draw.random())
    return p | {"budget": draw.choice([least, budget, budget, budget, most])}


def _case(selector: str, index: int) -> Case:
    draw = random.Random(f"{SEED} {selector} {index}")
    # Where each q head chooses token by token, seldom all of many scores lie
    # far enough apart.
    longest = 400 if selector == "snapkv" else 5000
    short = round(longest ** draw.random())
    length = [longest, draw.randint(1, longest), short][min(index, 2)]
    p = _choices(draw, selector, length)
    p = _with_budget(draw, selector, p, length)
    rows = min(draw.choice([1, 2, 3]), length)
    prompt_rows = draw.choice([0, 0, 1]) if rows > 1 else 0
    more = {}
    if selector in ("snapkv", "shadowkv"):
        prompt_rows, rows = 0, min(rows, length - 1)
        more["prompt_tokens"] = length - max(rows, 1)
    return Case(
        f"drawn_{selector.split('-')[0]}_{index}",
        selector,
        p,
        length,
        max(rows, 1),
        prompt_rows,
        group=draw.choice([5, 6, 7]),
        kv_heads=draw.choice([1, 2]),
        **more,
    )


def drawn() -> list[Case]:
    selectors = (
        "window mean quest arkvale oracle moba infllm-v2 snapkv shadowkv "
        "seerattention-r clusterkv retroinfer"
    )
    return [
        _case(selector, index)
        for selector in selectors.split()
        for index in range(PER_SELECTOR)
    ]


def drawn_layers() -> list[Case]:
    """The same of what several layers read."""
    cases = []
    for index, group in enumerate((5, 6, 7)):
        draw = random.Random(f"{SEED} tidal {index}")
        length = round(1500 ** draw.random())
        p = {"budget": draw.randint(1, length), "select_layers": "1+3"}
        p["heads"] = draw.choice(["q", "kv"])
        cases.append(
            Case(
                f"drawn_tidal_{index}",
                "tidal",
                p,
                length,
                rows=min(2, length),
                layers=5,
                group=group,
            )
        )
    return cases
