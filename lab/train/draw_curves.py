"""Draws a training run's loss and accuracies as an SVG picture.

    python3 -m lab.train.draw_curves STATE/progress.json --out curves.svg
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT = 860, 300
LEFT, RIGHT, TOP, BOTTOM, GAP = 50, 190, 24, 30, 40
# Each told apart by its colour (Okabe and Ito 2008) and its dashes.
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
DASHES = ("", "6 3", "2 2")
MOST_POINTS = 150


@dataclass
class Panel:
    """Where a panel stands, and the values at its edges."""

    top: float
    least: float
    most: float
    begin: float
    end: float

    def place(self, seconds: float, value: float) -> str:
        width = WIDTH - LEFT - RIGHT
        x = LEFT + width * (seconds - self.begin) / (self.end - self.begin)
        value = min(max(value, self.least), self.most)
        share = (value - self.least) / (self.most - self.least)
        return f"{x:.1f},{self.top + HEIGHT * (1 - share):.1f}"


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def line(points: list[str], colour: str, dashes: str = "") -> str:
    return (
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" '
        f'stroke-dasharray="{dashes}" points="{" ".join(points)}"/>'
    )


def draw_frame(panel: Panel, title: str, history: list[dict]) -> list[str]:
    """Axes, and a line with its name where a stage begins."""
    bottom = panel.top + HEIGHT
    drawn = [text(LEFT, panel.top - 8, title)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = panel.least + share * (panel.most - panel.least)
        begin = panel.place(panel.begin, value)
        drawn.append(line([begin, panel.place(panel.end, value)], "#dddddd"))
        y = float(begin.split(",")[1]) + 4
        drawn.append(text(LEFT - 6, y, f"{value:.2f}", "end"))
    stage = ""
    for entry in history:
        if entry["stage"] != stage:
            stage = entry["stage"]
            top = panel.place(entry["seconds"], panel.most)
            x = float(top.split(",")[0])
            ends = [top, panel.place(entry["seconds"], panel.least)]
            drawn.append(line(ends, "#bbbbbb", "3 3"))
            turned = f'<text transform="translate({x + 11:.1f},{bottom - 6})'
            drawn.append(f'{turned} rotate(-90)" fill="#777777">{stage}</text>')
    for seconds in (panel.begin, panel.end):
        x = float(panel.place(seconds, 0).split(",")[0])
        drawn.append(text(x, bottom + 16, f"{seconds:.0f} s", "middle"))
    return drawn


def draw(history: list[dict]) -> str:
    step = max(1, len(history) // MOST_POINTS)
    thin = history[::step]
    begin, end = history[0]["seconds"], history[-1]["seconds"]
    lost = [entry for entry in thin if "loss" in entry]
    most_loss = max(entry["loss"] for entry in lost)
    top = TOP + HEIGHT + BOTTOM + GAP
    losses = Panel(TOP, 0.0, most_loss, begin, end)
    rights = Panel(top, 0.0, 1.0, begin, end)
    drawn = draw_frame(losses, "loss", history)
    drawn += draw_frame(rights, "answer tokens right, teacher-forced", history)
    points = [losses.place(e["seconds"], e["loss"]) for e in lost]
    drawn.append(line(points, COLOURS[0]))
    families = sorted({name for entry in thin for name in entry["accuracy"]})
    for index, family in enumerate(families):
        colour = COLOURS[index % len(COLOURS)]
        dashes = DASHES[index // len(COLOURS)]
        points = [
            rights.place(entry["seconds"], entry["accuracy"][family])
            for entry in thin
            if family in entry["accuracy"]
        ]
        drawn.append(line(points, colour, dashes))
        x, y = WIDTH - RIGHT + 14, top + 12 + 18 * index
        drawn.append(line([f"{x},{y}", f"{x + 24},{y}"], colour, dashes))
        drawn.append(text(x + 30, y + 4, family))
    height = top + HEIGHT + BOTTOM
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("progress", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    progress = json.loads(options.progress.read_text())
    options.out.write_text(draw(progress["history"]))


if __name__ == "__main__":
    main()
