"""The documents that gates learn from, as their checkpoint attends to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.gates.attention import Reader, Seen
from lab.tasks.document import make_document
from lab.tasks.draw import Draw
from lab.tasks.record import most_questions

# Kinds of needles, chains and variables: what one block or a few decide.
TASKS = (
    "multikey",
    "chain",
    "vt",
    "niah",
    "niah_multikey_2",
    "niah_multikey_3",
    "niah_multivalue",
    "niah_multiquery",
)
LENGTHS = (2048, 4096)
MOST_ASKED = 32
MOST_GAPS = 8


@dataclass
class Text:
    """A document's layers, and where its rows and blocks stand."""

    task: str
    layers: list[Seen]
    row_positions: np.ndarray  # [rows]
    block_positions: np.ndarray  # [blocks], of first tokens
    own_blocks: np.ndarray  # [rows]

    @property
    def num_rows(self) -> int:
        return len(self.row_positions)


def positions_of(
    draw: Draw, num_tokens: int, block: int, longest: int
) -> np.ndarray:
    """Gaps between blocks show distances of up to `longest` tokens (Zhu et al.
    2023, "PoSE", to the same end). -> [num_tokens]"""
    num_blocks = -(-num_tokens // block)
    steps = np.zeros(num_blocks, np.int64)
    room = max(0, longest - num_tokens) // block
    for _ in range(MOST_GAPS):
        gap = draw.between(0, room // MOST_GAPS)
        steps[draw.between(1, num_blocks - 1)] += gap * block
    return np.arange(num_tokens) + np.repeat(np.cumsum(steps), block)[:num_tokens]


def read_text(reader: Reader, seed: int, index: int) -> Text:
    """Document `index`: its rows are those of all questions and answers, which
    follow one another. Every other round of tasks has gaps in its positions."""
    draw = Draw("gates", seed, index)
    task, turn = TASKS[index % len(TASKS)], index // len(TASKS)
    length = LENGTHS[turn // 2 % len(LENGTHS)]
    asked = min(MOST_ASKED, most_questions(task, length))
    document = make_document(draw, task, length, asked)
    tokens = np.array(document.training().tokens)
    block, first = reader.block, 1 + len(document.context)
    places = np.arange(len(tokens))
    positions = places
    if turn % 2 == 1:
        longest = reader.source.config["max_position_embeddings"]
        positions = positions_of(draw, len(tokens), block, longest)
    full = len(tokens) // block * block
    return Text(
        task,
        reader.read(tokens, positions, first),
        positions[first:],
        positions[:full:block],
        places[first:] // block,
    )
