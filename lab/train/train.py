"""Trains the lab model and writes it as a Hugging Face checkpoint.

    python3 -m lab.train.train --seconds 390 --state /tmp/winnow-lab \
        --out lab/models/winnow-lab

Run again with the same --state, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lab.train.batches import TASKS, BatchMaker
from lab.train.checkpoint import write_checkpoint
from lab.train.curriculum import STAGES, TINY_STAGES, Progress, Stage
from lab.train.model import LabModel
from lab.train.shape import Shape

STEP_TOKENS = 262_144


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        required=True,
        help="of training, those before a resumption included",
    )
    parser.add_argument(
        "--state",
        type=Path,
        required=True,
        help="folder for what resuming needs",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="a small model on short documents, to see that all runs",
    )
    return parser.parse_args()


def make_optimizer(model: LabModel) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)


class Run:
    """Owns the model, the optimizer and the progress of one training run."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(options.seed)
        self.options = options
        self.stages: list[Stage] = TINY_STAGES if options.tiny else STAGES
        self.step_tokens = 1024 if options.tiny else STEP_TOKENS
        shape = Shape(hidden=64, layers=2) if options.tiny else Shape()
        self.device = torch.device(options.device)
        is_compiled = self.device.type == "cuda"
        self.model = LabModel(shape, is_compiled).to(self.device)
        self.optimizer = make_optimizer(self.model)
        self.progress = Progress()
        self.counts = torch.zeros(2, len(TASKS), device=self.device)
        self._resume()

    def _resume(self) -> None:
        """The optimizer's moments may be missing: they are gathered anew."""
        weights = self.options.state / "weights.pt"
        if not weights.exists():
            return
        saved = torch.load(weights, map_location=self.device)
        self.model.load_state_dict(saved["model"])
        self.progress = Progress(**saved["progress"])
        moments = self.options.state / "optimizer.pt"
        if moments.exists():
            self.optimizer.load_state_dict(
                torch.load(moments, map_location=self.device)
            )

    def save(self) -> None:
        folder = self.options.state
        folder.mkdir(parents=True, exist_ok=True)
        progress = dataclasses.asdict(self.progress)
        torch.save(
            {"model": self.model.state_dict(), "progress": progress},
            folder / "weights.pt",
        )
        torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")
        (folder / "history.json").write_text(
            json.dumps(self.progress.history, indent=1) + "\n"
        )

    def _load(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def step(self, maker: BatchMaker) -> Tensor:
        progress = self.progress
        batch = maker.next(progress.stage)
        progress.batch_number = max(progress.batch_number, batch.number + 1)
        weights = self._load(batch.weights)
        loss, right = self.model(
            self._load(batch.tokens).long(),
            self._load(batch.targets).long(),
            weights,
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        rate = progress.learning_rate(self.stages, self.options.seconds)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        tasks = self._load(batch.tasks).long()
        asked = weights > 0
        self.counts[0].index_add_(0, tasks, (right & asked).sum(1).float())
        self.counts[1].index_add_(0, tasks, asked.sum(1).float())
        progress.step += 1
        progress.stage_step += 1
        return loss.detach()

    def report(self, loss: float, waited: float) -> None:
        progress = self.progress
        right, asked = self.counts.tolist()
        self.counts.zero_()
        for task, num_right, num_asked in zip(TASKS, right, asked):
            if num_asked:
                progress.note(task, num_right / num_asked)
        entry = {
            "seconds": round(progress.seconds, 1),
            "stage": self.stages[progress.stage].name,
            "step": progress.step,
            "loss": round(loss, 4),
            "accuracy": {k: round(v, 4) for k, v in progress.accuracy.items()},
        }
        progress.history.append(entry)
        print(json.dumps(entry), f"waited {waited:.1f} s", flush=True)

    def train(self) -> None:
        progress, most_seconds = self.progress, self.options.seconds
        maker = BatchMaker(
            self.options.seed,
            [stage.lengths for stage in self.stages],
            self.step_tokens,
            progress.batch_number,
        )
        maker.start(progress.stage)
        began = time.monotonic() - progress.seconds
        while progress.seconds < most_seconds:
            loss = self.step(maker)
            stage = self.stages[progress.stage]
            if progress.stage_step % stage.steps_a_report:
                continue
            loss_value = loss.item()  # Waits for the device.
            progress.seconds = time.monotonic() - began
            self.report(loss_value, maker.seconds_waited)
            if progress.is_stage_done(self.stages, most_seconds, len(TASKS)):
                progress.go_on()
                self.save()
        maker.stop()
        self.save()


def main() -> None:
    run = Run(parse())
    run.train()
    write_checkpoint(run.model.state_dict(), run.model.shape, run.options.out)


if __name__ == "__main__":
    main()
