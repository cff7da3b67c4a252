"""How right answers are, and how sure a share of so many answers is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.tasks.record import Record
from lab.tasks.words import END, encode

_Z = 1.959964  # Of a two-sided 95 % interval.


def wilson(num_right: int, num: int) -> tuple[float, float]:
    """The Wilson 95 % interval of a share (Wilson 1927)."""
    share, z2 = num_right / num, _Z * _Z
    middle = share + z2 / (2 * num)
    half = _Z * math.sqrt(share * (1 - share) / num + z2 / (4 * num * num))
    least, most = ((middle + s * half) / (1 + z2 / num) for s in (-1, 1))
    return max(0.0, least), min(1.0, most)


def occurs(part: list[int], tokens: list[int]) -> bool:
    size = len(part)
    return any(
        tokens[first : first + size] == part
        for first in range(len(tokens) - size + 1)
    )


@dataclass
class Score:
    """Counts over the answers of a cell."""

    num: int = 0
    num_exact: int = 0
    num_tokens: int = 0
    num_tokens_right: int = 0

    def add(
        self, record: Record, expected: list[int], tokens: list[int]
    ) -> None:
        """`expected` and `tokens` end with the end token, if they end.

        A token is right that stands where it should; where the answers count
        in any order, those of an answer that occurs somewhere.
        """
        self.num += 1
        self.num_tokens += len(expected) - 1
        if record.unordered:
            parts = [encode(part) for part in record.answers]
            found = [part for part in parts if occurs(part, tokens)]
            self.num_tokens_right += sum(map(len, found))
            self.num_exact += len(found) == len(parts) and tokens[-1] == END
            return
        self.num_exact += tokens == expected
        self.num_tokens_right += sum(
            a == b for a, b in zip(expected[:-1], tokens)
        )

    def fields(self) -> dict:
        least, most = wilson(self.num_exact, self.num)
        return {
            "n": self.num,
            "free_token_accuracy": round(
                self.num_tokens_right / self.num_tokens, 4
            ),
            "exact": round(self.num_exact / self.num, 4),
            "exact_interval": [round(least, 4), round(most, 4)],
        }


def cell_text(row: dict) -> str:
    least, most = row["exact_interval"]
    return (
        f"{row['free_token_accuracy']:.3f} / {row['exact']:.2f} "
        f"({least:.2f}-{most:.2f})"
    )


def print_table(rows: list[dict]) -> None:
    """Markdown: a line a task, a column a length."""
    lengths = sorted({row["length"] for row in rows})
    texts = {(r["task"], r["length"]): cell_text(r) for r in rows}
    titles = [f"{length // 1024}K" for length in lengths]
    print("| task |", " | ".join(titles), "|")
    print("|---" * (len(lengths) + 1) + "|")
    for task in dict.fromkeys(row["task"] for row in rows):
        line = [texts.get((task, length), "") for length in lengths]
        print(f"| {task} |", " | ".join(line), "|")
