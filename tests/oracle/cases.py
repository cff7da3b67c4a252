"""The cases: lengths around every page, block and window, budgets from a page
to all, groups of 1 to 8 heads, decode and prompt rows.

The comments name the items of the golden checklists in README.md (E: of all
selectors, N: of InfLLM-v2) that a case is for.
"""

from __future__ import annotations

from drawn_cases import drawn, drawn_layers
from substrate import Case


def _around(page: int) -> list[int]:
    """E 20: one token, a page less one, full, one more, several, long."""
    return [1, page - 1, page, page + 1, 6 * page, 6 * page + 5]


def _decode(name: str, selector: str, parameters: dict, page: int, **more):
    """One row at each length of _around, small groups and odd ones."""
    groups = [1, 2, 3, 4, 8, 2]
    return [
        Case(f"{name}_{n}", selector, parameters, n, group=g, **more)
        for n, g in zip(_around(page), groups, strict=True)
    ]


def _window() -> list[Case]:
    p = {"sink": 4, "recent": 12}
    return _decode("window", "window", p, 32) + [
        Case("window_of_itself", "window", {"sink": 0, "recent": 1}, 40),
        Case(
            "window_default",
            "window",
            {},
            5000,
            rows=2,
            unlike=["own_token_besides"],
        ),
        Case("window_prompt_is_dense", "window", p, 70, 40, 38),
    ]


def _mean() -> list[Case]:
    p = {"budget": 32, "block": 16, "sink": 4, "recent": 16}
    return _decode("mean", "mean", p, 16) + [
        # E 5: forced blocks stand outside the budget. E 7: mean of logits.
        Case(
            "mean_group",
            "mean",
            p,
            300,
            rows=4,
            group=4,
            unlike=[
                "forced_inside_the_budget",
                "max_over_the_group",
                "mean_over_all_heads",
            ],
        ),
        # E 4: keys repeat after two blocks, so that all scores are ties.
        Case("mean_ties", "mean", p | {"recent": 0}, 200, period=32, group=2),
        # E 6: 100 is no multiple of 16.
        Case(
            "mean_budget_100",
            "mean",
            p | {"budget": 100},
            333,
            group=8,
            kv_heads=1,
        ),
        # E 1.
        Case("mean_all", "mean", p | {"budget": 320}, 320, group=2),
        Case("mean_share", "mean", p | {"budget": "1/4"}, 777, rows=3),
        # E 19: the mean is rounded once, to the cache's type.
        Case(
            "mean_bfloat16",
            "mean",
            p,
            400,
            rows=3,
            dtype="bfloat16",
            unlike=["unrounded"],
        ),
        Case("mean_long", "mean", {}, 5000, rows=2, group=4, kv_heads=1),
        Case("mean_eights", "mean", p | {"block": 8}, 210, 6, group=2),
        Case("mean_prompt_is_dense", "mean", p, 120, 60, 57),
    ]


def _quest() -> list[Case]:
    p = {"budget": 48, "dense_layers": "none"}
    return _decode("quest", "quest", p, 16) + [
        # E 5: the own page stands inside the budget.
        Case(
            "quest_own_page",
            "quest",
            p,
            250,
            rows=4,
            group=4,
            unlike=["own_page_besides", "greatest_key_alone"],
        ),
        Case(
            "quest_one_page",
            "quest",
            p | {"budget": 16},
            111,
            group=8,
            kv_heads=1,
            unlike=["own_page_besides"],
        ),
        Case("quest_ties", "quest", p, 160, period=48, group=2),
        Case(
            "quest_shared",
            "quest",
            p | {"heads": "kv"},
            260,
            rows=3,
            group=4,
            unlike=["mean_over_the_group"],
        ),
        Case(
            "quest_sinks",
            "quest",
            p | {"budget": 96, "sink": 20, "recent": 17},
            300,
            rows=2,
        ),
        Case("quest_all", "quest", p | {"budget": 304}, 304),
        Case("quest_bfloat16", "quest", p, 500, rows=3, dtype="bfloat16"),
        Case(
            "quest_default",
            "quest",
            {"dense_layers": "none"},
            5000,
            group=2,
            kv_heads=1,
        ),
        Case(
            "quest_pages_of_64",
            "quest",
            p | {"block": 64, "budget": 192},
            1000,
            rows=3,
        ),
    ]


def _arkvale() -> list[Case]:
    p = {
        "budget": 128,
        "block": 16,
        "sink": 32,
        "recent": 16,
        "dense_layers": "none",
    }
    return _decode("arkvale", "arkvale", p, 16) + [
        # E 7: mean over all heads of the layer.
        Case(
            "arkvale_layer",
            "arkvale",
            p,
            500,
            rows=4,
            group=4,
            unlike=[
                "max_over_the_heads",
                "mean_over_the_group",
                "whole_cuboid",
            ],
        ),
        Case("arkvale_forced_alone", "arkvale", p | {"budget": 64}, 300),
        Case("arkvale_ties", "arkvale", p, 400, period=64, group=1),
        Case(
            "arkvale_bfloat16",
            "arkvale",
            p,
            600,
            rows=3,
            group=4,
            dtype="bfloat16",
            unlike=["unrounded"],
        ),
        Case("arkvale_default", "arkvale", {"dense_layers": "none"}, 5000),
    ]


def _oracle() -> list[Case]:
    p = {"budget": 32, "block": 16, "sink": 4, "recent": 16}
    return _decode("oracle", "oracle", p, 16) + [
        Case(
            "oracle_group",
            "oracle",
            p,
            350,
            rows=4,
            group=4,
            unlike=[
                "forced_inside_the_budget",
                "max_over_heads",
                "unscaled",
                "greatest",
            ],
        ),
        Case(
            "oracle_tokens",
            "oracle",
            p | {"block": 1, "budget": 24},
            200,
            rows=2,
            group=2,
        ),
        Case(
            "oracle_q_heads",
            "oracle",
            p | {"heads": "q"},
            280,
            rows=2,
            group=8,
            kv_heads=1,
        ),
        Case("oracle_all", "oracle", p | {"budget": 288}, 288),
        Case("oracle_bfloat16", "oracle", p, 300, rows=2, dtype="bfloat16"),
        Case("oracle_default", "oracle", {}, 5000, kv_heads=1),
    ]


def _moba() -> list[Case]:
    p = {"block": 32, "budget": 96}
    return _decode("moba", "moba", p, 32) + [
        # The own chunk counts; chunk c is a candidate from (c + 1) C on.
        Case(
            "moba_prompt",
            "moba",
            p,
            293,
            293,
            293,
            group=2,
            unlike=["own_chunk_besides", "group_shared"],
            probes=[0, 31, 32, 63, 64, 95, 96, 127, 128, 292],
        ),
        Case(
            "moba_both",
            "moba",
            p,
            200,
            60,
            33,
            group=4,
            kv_heads=1,
            probes=[0, 32, 33, 59],
        ),
        Case("moba_topk_1", "moba", p | {"budget": 32}, 150, 90, 80),
        Case("moba_ties", "moba", p, 400, 8, period=64, group=1),
        Case("moba_all", "moba", p | {"budget": 256}, 256, 70, 70),
        Case(
            "moba_bfloat16",
            "moba",
            p,
            400,
            40,
            35,
            dtype="bfloat16",
            unlike=["unrounded"],
        ),
        Case(
            "moba_long",
            "moba",
            {"block": 512, "budget": 1536},
            5000,
            5,
            4,
            group=8,
            kv_heads=1,
        ),
    ]


def _infllm() -> list[Case]:
    # The published ratios at half their size: windows of 16 / 8 and 64 / 32.
    p = {
        "kernel": 16,
        "stride": 8,
        "block": 32,
        "budget": 128,
        "sink": 32,
        "recent": 32,
        "dense_len": 0,
    }
    one = p | {"budget": 64, "sink": 0, "recent": 0}
    published = {"budget": 128, "sink": 0, "recent": 0, "dense_len": 0}
    cases = _decode("infllm", "infllm-v2", p, 32)
    # N 1: where n1 and n2 of the published windows change. N 5: no coarse
    # window below 128.
    for n in (31, 32, 47, 48, 127, 128, 191, 192, 193, 256):
        cases.append(
            Case(f"infllm_windows_{n}", "infllm-v2", published, n, group=4)
        )
    return cases + [
        # N 3: the row's own token closes the window that ends with it.
        Case(
            "infllm_own_token",
            "infllm-v2",
            one,
            392,
            1,
            group=2,
            unlike=["own_token_left_out"],
        ),
        # N 6, N 7, N 13.
        Case(
            "infllm_normaliser",
            "infllm-v2",
            one | {"budget": 160},
            900,
            12,
            group=8,
            kv_heads=1,
            q_gain=4,
            unlike=["normalised_by_itself"],
        ),
        Case(
            "infllm_pooling",
            "infllm-v2",
            one | {"budget": 160},
            420,
            6,
            unlike=["max_of_group", "pooled_without_the_left"],
        ),
        # N 10, N 11.
        Case(
            "infllm_local",
            "infllm-v2",
            p,
            500,
            3,
            unlike=["own_block_is_local", "local_besides_topk"],
        ),
        # N 2, N 8: rounded means, rounded sums, and the ties that these make.
        Case(
            "infllm_bfloat16",
            "infllm-v2",
            p,
            900,
            4,
            group=8,
            dtype="bfloat16",
            unlike=["unrounded", "unrounded_means"],
        ),
        # N 12, N 13, N 15: every row of a prompt.
        Case(
            "infllm_prompt",
            "infllm-v2",
            p,
            330,
            330,
            330,
            probes=[0, 31, 32, 33, 63, 64, 95, 96, 159, 160, 200, 329],
        ),
        # N 4: 15 modulo 16 (here 7 modulo 8) and 63 modulo 64 (31, 32).
        Case(
            "infllm_prompt_7_of_8",
            "infllm-v2",
            one,
            319,
            120,
            120,
            group=4,
            kv_heads=1,
        ),
        # N 14: below dense_len, at it; generated rows across it.
        Case(
            "infllm_short_prompt",
            "infllm-v2",
            p | {"dense_len": 201},
            200,
            40,
            40,
        ),
        Case(
            "infllm_long_prompt",
            "infllm-v2",
            p | {"dense_len": 200},
            200,
            40,
            40,
            unlike=["dense_at_dense_len"],
        ),
        Case(
            "infllm_early_chunk",
            "infllm-v2",
            p | {"dense_len": 300},
            250,
            40,
            40,
            prompt_tokens=300,
        ),
        Case(
            "infllm_crossing",
            "infllm-v2",
            p | {"dense_len": 250},
            260,
            20,
            0,
            unlike=["dense_at_dense_len"],
            probes=[8, 9, 10, 19],
        ),
        # N 16: groups below 16 as they are. N 19: exponents beyond float16.
        Case("infllm_large", "infllm-v2", p, 640, 2, group=3, q_gain=8),
        Case(
            "infllm_float16", "infllm-v2", p, 300, 2, dtype="float16", q_gain=4
        ),
        Case("infllm_all", "infllm-v2", p | {"budget": 320}, 300, 30, 20),
        Case(
            "infllm_published",
            "infllm-v2",
            {"budget": 1536, "recent": 512, "dense_len": 0},
            5000,
            2,
            group=8,
            kv_heads=1,
        ),
    ]


def _recall() -> list[Case]:
    """E 19: what is lost where summaries are kept in bfloat16."""
    outside = {"budget": 128, "block": 16, "sink": 4, "recent": 16}
    dense = {"dense_layers": "none"}
    infllm = {
        "kernel": 16,
        "stride": 8,
        "block": 32,
        "budget": 320,
        "sink": 32,
        "recent": 64,
        "dense_len": 0,
    }
    shape = {"rows": 24, "group": 4, "kv_heads": 1, "measures_recall": True}
    return [
        Case("recall_mean", "mean", outside, 1500, **shape),
        Case("recall_quest", "quest", dense | {"budget": 128}, 1500, **shape),
        Case(
            "recall_arkvale",
            "arkvale",
            dense | outside | {"budget": 256},
            1500,
            **shape,
        ),
        Case(
            "recall_moba", "moba", {"block": 32, "budget": 320}, 1500, **shape
        ),
        Case("recall_infllm", "infllm-v2", infllm, 1500, **shape),
    ]


def _snapkv() -> list[Case]:
    p = {"budget": 40, "window": 8}
    after = {"prompt_tokens": 300}
    return [
        # E 20: prompts of one token, around the window, below the budget.
        Case("snapkv_1", "snapkv", p, 2, prompt_tokens=1, group=1),
        Case("snapkv_7", "snapkv", p, 9, 2, prompt_tokens=7),
        Case("snapkv_8", "snapkv", p, 10, 2, prompt_tokens=8, group=3),
        Case("snapkv_9", "snapkv", p, 10, prompt_tokens=9, group=4),
        Case("snapkv_40", "snapkv", p, 44, 2, prompt_tokens=40, group=8),
        Case("snapkv_41", "snapkv", p, 44, 2, prompt_tokens=41),
        Case(
            "snapkv",
            "snapkv",
            p,
            304,
            4,
            group=4,
            unlike=["not_causal", "not_pooled", "window_besides"],
            **after,
        ),
        # What lies outside of the text counts as zeros in a mean.
        Case(
            "snapkv_borders",
            "snapkv",
            p | {"budget": 60, "kernel": 21},
            92,
            2,
            prompt_tokens=90,
            unlike=["padding_left_out"],
        ),
        Case(
            "snapkv_shared",
            "snapkv",
            p | {"heads": "kv", "pool": "max", "kernel": 7},
            303,
            3,
            group=4,
            unlike=["max_over_the_group", "not_pooled"],
            **after,
        ),
        # A question's rows read everything, and choose with the prompt's.
        Case(
            "snapkv_question",
            "snapkv",
            p,
            305,
            12,
            3,
            context_tokens=296,
            probes=[0, 2, 6, 7, 11],
            **after,
        ),
        Case("snapkv_all", "snapkv", p | {"budget": 310}, 310, **after),
        Case("snapkv_share", "snapkv", p | {"budget": "1/4"}, 302, 2, **after),
        Case(
            "snapkv_bfloat16",
            "snapkv",
            p,
            302,
            2,
            group=4,
            dtype="bfloat16",
            **after,
        ),
        Case(
            "snapkv_default",
            "snapkv",
            {},
            3003,
            2,
            prompt_tokens=3000,
            group=1,
            kv_heads=1,
        ),
    ]


def _shadowkv() -> list[Case]:
    p = {"budget": 48, "outliers": 40, "recent": 16}
    after = {"prompt_tokens": 403}
    return [
        # E 20: contexts of less than a chunk, of the local ones alone.
        Case("shadowkv_1", "shadowkv", p, 2, prompt_tokens=1, group=1),
        Case("shadowkv_7", "shadowkv", p, 9, 2, prompt_tokens=7),
        Case("shadowkv_16", "shadowkv", p, 18, 2, prompt_tokens=16, group=3),
        Case("shadowkv_24", "shadowkv", p, 30, 2, prompt_tokens=24, group=4),
        Case("shadowkv_56", "shadowkv", p, 60, 2, prompt_tokens=56, group=8),
        Case("shadowkv_57", "shadowkv", p, 90, 9, prompt_tokens=70),
        Case(
            "shadowkv",
            "shadowkv",
            p,
            430,
            20,
            group=4,
            unlike=[
                "mean_cosine",
                "greatest_cosine",
                "local_moves_on",
                "sum_over_the_group",
            ],
            **after,
        ),
        # Heads are normalised without the outliers, before they are reduced.
        Case(
            "shadowkv_softmax",
            "shadowkv",
            p | {"outliers": 120},
            420,
            12,
            group=4,
            q_gain=2,
            unlike=["max_before_softmax", "outliers_in_the_softmax"],
            **after,
        ),
        # A question's rows read as generated ones do.
        Case(
            "shadowkv_question",
            "shadowkv",
            p,
            420,
            30,
            5,
            context_tokens=395,
            probes=[0, 4, 5, 20, 29],
            **after,
        ),
        Case("shadowkv_no_outliers", "shadowkv", p | {"outliers": 0}, 410, **after),
        Case("shadowkv_all", "shadowkv", p | {"budget": 416}, 416, **after),
        Case("shadowkv_ties", "shadowkv", p, 410, period=32, group=1, **after),
        Case(
            "shadowkv_bfloat16",
            "shadowkv",
            p,
            410,
            3,
            group=4,
            dtype="bfloat16",
            **after,
        ),
        Case("shadowkv_fp8", "shadowkv", p | {"summaries": "fp8"}, 410, **after),
        Case(
            "shadowkv_default",
            "shadowkv",
            {},
            5000,
            3,
            prompt_tokens=4997,
            group=2,
            kv_heads=1,
        ),
    ]


def _fp8() -> list[Case]:
    quest = {"budget": 48, "dense_layers": "none", "summaries": "fp8"}
    mean = {"budget": 32, "block": 16, "sink": 4, "recent": 16}
    mean["summaries"] = "fp8"
    return [
        Case("quest_fp8", "quest", quest, 700, 4, group=4),
        Case("quest_fp8_bfloat16", "quest", quest, 650, 3, dtype="bfloat16"),
        Case("mean_fp8", "mean", mean, 500, 4, unlike=["unrounded"]),
    ]


def _tidal() -> list[Case]:
    p = {"budget": 24, "select_layers": "1+3"}
    deep = {"rows": 3, "layers": 6}
    return [
        Case(
            "tidal",
            "tidal",
            p,
            300,
            group=4,
            unlike=[
                "chosen_once",
                "chosen_in_every_layer",
                "own_token_besides",
                "selection_layers_sparse",
            ],
            **deep,
        ),
        Case(
            "tidal_shared",
            "tidal",
            p | {"heads": "kv"},
            260,
            group=4,
            unlike=["sum_over_the_group"],
            **deep,
        ),
        Case("tidal_published", "tidal", {}, 700, rows=2, layers=11, group=2),
        Case("tidal_bfloat16", "tidal", p, 333, dtype="bfloat16", **deep),
        # E 20: fewer tokens than the budget, and one.
        Case("tidal_short", "tidal", p, 20, **deep),
        Case("tidal_1", "tidal", p, 1, rows=1, layers=6, group=1),
        Case("tidal_budget_1", "tidal", p | {"budget": 1}, 99, **deep),
        Case("tidal_share", "tidal", p | {"budget": "1/8"}, 90, **deep),
        Case("tidal_all", "tidal", p | {"budget": 200}, 200, **deep),
        # Rows of a prompt read everything, a question's do not.
        Case("tidal_question", "tidal", p, 150, 40, 33, layers=6, group=3),
    ]


def _seerattention() -> list[Case]:
    p = {"budget": 32, "block": 16}
    return _decode("seerattention", "seerattention-r", p, 16) + [
        # E 5, E 8: the own block besides, before RoPE; positions of blocks.
        Case(
            "seerattention_decode",
            "seerattention-r",
            p,
            300,
            rows=6,
            group=4,
            unlike=[
                "own_block_inside",
                "keys_after_rope",
                "q_after_rope",
                "turned_by_the_last_token",
                "mean_first",
            ],
        ),
        Case(
            "seerattention_norms",
            "seerattention-r",
            p,
            250,
            rows=4,
            gate_norms=True,
            unlike=["turned_by_the_last_token", "keys_after_rope"],
        ),
        # The open block's zero counts in the softmax, so in the threshold.
        Case(
            "seerattention_threshold",
            "seerattention-r",
            {"threshold": 0.11, "block": 16},
            181,
            rows=12,
            gate_norms=True,
            unlike=["open_left_out", "turned_by_the_last_token"],
        ),
        Case("seerattention_all", "seerattention-r", p | {"budget": 208}, 208),
        Case("seerattention_share", "seerattention-r", p | {"budget": "1/4"}, 333),
        Case(
            "seerattention_bfloat16",
            "seerattention-r",
            p,
            260,
            rows=2,
            dtype="bfloat16",
        ),
        Case("seerattention_prompt_is_dense", "seerattention-r", p, 90, 40, 38),
        Case(
            "seerattention_default",
            "seerattention-r",
            {},
            5000,
            kv_heads=1,
        ),
    ]


def _clusterkv() -> list[Case]:
    p = {
        "budget": 40,
        "segment": 64,
        "cluster": 8,
        "sink": 4,
        "dense_layers": "none",
    }
    return _decode("clusterkv", "clusterkv", p, 64) + [
        Case(
            "clusterkv_decode",
            "clusterkv",
            p,
            261,
            rows=7,
            group=4,
            unlike=[
                "not_cut",
                "sinks_besides",
                "cosine",
                "own_token_in_a_cluster",
            ],
        ),
        Case(
            "clusterkv_shared",
            "clusterkv",
            p | {"heads": "kv"},
            300,
            rows=3,
            group=4,
            unlike=["mean_over_the_group"],
        ),
        # E 6: more than there is, less than the sinks.
        Case("clusterkv_all", "clusterkv", p | {"budget": 330}, 330),
        Case("clusterkv_nearly_all", "clusterkv", p | {"budget": 250}, 257),
        Case("clusterkv_one", "clusterkv", p | {"budget": 24, "sink": 15}, 200),
        Case("clusterkv_sink_segment", "clusterkv", p | {"sink": 70, "budget": 88}, 200),
        Case("clusterkv_share", "clusterkv", p | {"budget": "1/4"}, 400, rows=2),
        Case("clusterkv_bfloat16", "clusterkv", p, 290, dtype="bfloat16"),
        Case("clusterkv_prompt_is_dense", "clusterkv", p, 120, 40, 38),
        Case(
            "clusterkv_default",
            "clusterkv",
            {"segment": 1024, "cluster": 32, "dense_layers": "none"},
            3000,
            kv_heads=1,
            group=2,
        ),
    ]


def _retroinfer() -> list[Case]:
    p = {
        "budget": 24,
        "estimate": 40,
        "segment": 64,
        "cluster": 8,
        "sink": 4,
        "recent": 10,
    }
    return _decode("retroinfer", "retroinfer", p, 64) + [
        # E 7: softmax, then the sum. E 10, E 11: zones merge by lse.
        Case(
            "retroinfer_decode",
            "retroinfer",
            p,
            270,
            rows=14,
            group=4,
            q_gain=2,
            unlike=[
                "max_over_the_group",
                "logits",
                "recent_inside_clusters",
            ],
        ),
        Case("retroinfer_none_read", "retroinfer", p | {"budget": 8, "estimate": 320}, 340),
        Case("retroinfer_none_estimated", "retroinfer", p | {"estimate": 0}, 340),
        Case("retroinfer_all", "retroinfer", p | {"budget": 400}, 400),
        Case("retroinfer_shares", "retroinfer", p | {"budget": "1/16", "estimate": "1/4"}, 700, rows=2),
        Case("retroinfer_many", "retroinfer", p | {"estimate": 2000}, 2500, kv_heads=1),
        Case("retroinfer_bfloat16", "retroinfer", p, 300, rows=2, group=4, dtype="bfloat16"),
        Case("retroinfer_float16", "retroinfer", p, 300, rows=2, dtype="float16"),
        Case("retroinfer_prompt_is_dense", "retroinfer", p, 150, 40, 38),
        Case(
            "retroinfer_default",
            "retroinfer",
            {"segment": 1024, "cluster": 16},
            5000,
            kv_heads=1,
            group=2,
        ),
    ]


LAYER_CASES: list[Case] = _tidal() + drawn_layers()
CASES: list[Case] = (
    _window()
    + _mean()
    + _quest()
    + _arkvale()
    + _oracle()
    + _moba()
    + _infllm()
    + _recall()
    + _snapkv()
    + _shadowkv()
    + _seerattention()
    + _clusterkv()
    + _retroinfer()
    + _fp8()
    + drawn()
)
