"""TidalDecode (arXiv 2410.05076; sheet A14, its code): what is chosen in a
selection layer is read in the layers after it, up to the next one.

Layers before the first selection layer attend to everything, and so do
selection layers, which keep the B tokens of greatest q . k for every q head.
Rows of the prompt read everything in all layers.

Deviations: the row's own token is always among the B; `heads=kv` takes the
greatest q . k of a group. Keys of neighbours differ in many eighths, so that
ties are rare; where they are, the lowest token wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from substrate import Case, Chosen, Row, best, logits, tokens

LAYER_SEEDS = 64  # layer l of a case draws from seed * LAYER_SEEDS + l


def selection_layers(case: Case) -> list[int]:
    text = str(case.parameters.get("select_layers", "2+9"))
    return [x for x in map(int, text.split("+")) if x < case.layers]


def selected(row: Row, p: dict, unlike: str) -> Chosen:
    """The tokens of greatest q . k, the row's own among them."""
    own = row.context - 1
    count = tokens(p.get("budget", 256), row.context) - 1
    if unlike == "own_token_besides":
        count += 1
    z = logits(row)
    if p.get("heads", "q") == "kv":
        z = z.reshape(row.k.shape[1], row.group, -1)
        z = z.sum(1) if unlike == "sum_over_the_group" else z.max(1)
    free = list(range(own))
    return Chosen(1, [best(x, free, count) + [own] for x in z])


def read(
    case: Case, rows_of: Callable, unlike: str = ""
) -> list[list[Chosen | None]]:
    """What is read, by layer and row. None: everything."""
    kept: list[Chosen | None] = []
    layers = []
    selecting = selection_layers(case)
    for layer in range(case.layers):
        rows = [row for row, _ in rows_of(at_layer(case, layer))]
        if layer < selecting[0]:
            layers.append([None] * len(rows))
            continue
        selects = layer in selecting
        if unlike == "chosen_once":
            selects = layer == selecting[0]
        if selects or unlike == "chosen_in_every_layer":
            kept = [
                None if row.is_prompt else selected(row, case.parameters, unlike)
                for row in rows
            ]
        everything = layer in selecting and unlike != "selection_layers_sparse"
        layers.append([None] * len(rows) if everything else list(kept))
    return layers


def at_layer(case: Case, layer: int) -> Case:
    return replace(case, seed=case.seed * LAYER_SEEDS + layer)
