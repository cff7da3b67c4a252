"""Trains a lab model and writes it as a Hugging Face checkpoint.

    python3 -m lab.train.train --model winnow-lab --pause-at 400 \
        --state /tmp/winnow-lab --out /tmp/winnow-lab/model

Run again with the same --state, it goes on where it stopped; without
--pause-at it goes on to the end. A run that misses what an early stage must
teach begins again by itself. --from begins with the weights of a
checkpoint, at the stage --stage.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.train.batches import LABELS, BatchMaker
from lab.train.checkpoint import write_checkpoint
from lab.train.curriculum import (
    QWEN3_STAGES,
    STAGES,
    TINY_STAGES,
    WARM_UP_STEPS,
    Progress,
    Stage,
)
from lab.train.gradients import Gradients
from lab.train.model import LabModel
from lab.train.shape import WINNOW_LAB, WINNOW_LAB_QWEN3, Shape


@dataclass(frozen=True)
class Recipe:
    """`batch_tokens`: one document of the greatest length, or many short."""

    shape: Shape
    stages: list[Stage]
    batch_tokens: int = 131_072


RECIPES = {
    "winnow-lab": Recipe(WINNOW_LAB, STAGES),
    "winnow-lab-qwen3": Recipe(WINNOW_LAB_QWEN3, QWEN3_STAGES),
    # Of seconds on any machine, to see that all runs.
    "tiny": Recipe(Shape(hidden=64, layers=2), TINY_STAGES, 1024),
    "tiny-qwen3": Recipe(
        Shape(hidden=64, layers=2, qk_norm=True), TINY_STAGES, 1024
    ),
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(RECIPES), required=True)
    parser.add_argument(
        "--pause-at",
        type=float,
        default=float("inf"),
        help="seconds of training after which to save and stop",
    )
    parser.add_argument(
        "--state",
        type=Path,
        required=True,
        help="folder for what resuming needs",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--from", dest="begin", type=Path, help="folder of a checkpoint"
    )
    parser.add_argument("--stage", default="", help="its first, with --from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


@dataclass(frozen=True)
class Optimizers:
    """Two for the layers' matrices, of which a stage has one, and the rest's.

    Muon (Jordan et al. 2024) scales its updates to the root mean square of
    AdamW's (Liu et al. 2025, "Muon is scalable for LLM training"), so that one
    rate fits both.
    """

    adam: torch.optim.Optimizer
    muon: torch.optim.Optimizer
    rest: torch.optim.Optimizer

    def step(self, rate: float, use_muon: bool) -> None:
        """Steps all weights and forgets their gradients."""
        for optimizer in (self.muon if use_muon else self.adam, self.rest):
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)  # Where graphs add.


def make_optimizers(model: LabModel) -> Optimizers:
    matrices = [p for p in model.layers.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    rest = [
        {"params": [model.embed_tokens.weight], "weight_decay": 0.1},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adam = {"lr": 1e-3, "betas": (0.9, 0.95), "fused": True}
    return Optimizers(
        torch.optim.AdamW(matrices, weight_decay=0.1, **adam),
        torch.optim.Muon(
            matrices, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(rest, **adam),
    )


class Run:
    """Owns the model, the optimizers and the progress of one training run."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(options.seed)
        self.options = options
        self.recipe = RECIPES[options.model]
        self.stages = self.recipe.stages
        self.device = torch.device(options.device)
        is_compiled = self.device.type == "cuda"
        self.model = LabModel(self.recipe.shape, is_compiled).to(self.device)
        self.optimizers = make_optimizers(self.model)
        self.progress = Progress()
        self.gradients = Gradients(self.model, len(LABELS))
        self.weights = options.state / "weights.safetensors"
        if options.begin and not self.weights.exists():
            self._begin_with(options.begin, options.stage)
        self._resume()

    def _begin_with(self, folder: Path, stage_name: str) -> None:
        tensors = load_file(folder / "model.safetensors")
        self.model.load_state_dict(
            {n.removeprefix("model."): t for n, t in tensors.items()}
        )
        names = [stage.name for stage in self.stages]
        stage = names.index(stage_name)
        # The clock and the numbers of batches go on as if that run were this.
        seconds = self.stages[stage - 1].until if stage else 0.0
        self.progress = Progress(
            stage=stage,
            step=WARM_UP_STEPS,
            resumed_at_step=WARM_UP_STEPS,
            batch_number=1_000_000 * stage,
            seconds=seconds,
            stage_began=seconds,
        )

    def _resume(self) -> None:
        """The optimizers' moments are not saved: they are gathered anew."""
        if not self.weights.exists():
            return
        self.model.load_state_dict(load_file(self.weights))
        saved = json.loads((self.options.state / "progress.json").read_text())
        self.progress = Progress(**saved)
        self.progress.resumed_at_step = self.progress.step

    def _begin_again(self) -> None:
        self.progress = self.progress.begin_again()
        torch.manual_seed(self.options.seed + self.progress.tries)
        self.model.initialize()
        self.optimizers = make_optimizers(self.model)
        print(f"begins again ({self.progress.tries})", flush=True)

    def save(self) -> None:
        """Weights in bf16, as the checkpoint will hold them: half the bytes."""
        folder = self.options.state
        folder.mkdir(parents=True, exist_ok=True)
        weights = {
            name: tensor.bfloat16().contiguous()
            for name, tensor in self.model.state_dict().items()
        }
        save_file(weights, self.weights)
        (folder / "progress.json").write_text(
            json.dumps(dataclasses.asdict(self.progress), indent=1) + "\n"
        )

    def _add_gradients(self, maker: BatchMaker) -> Tensor:
        """Those of one batch of a step's; returns its loss."""
        progress = self.progress
        stage = self.stages[progress.stage]
        batch = maker.next(progress.stage)
        progress.batch_number = max(progress.batch_number, batch.number + 1)
        progress.num_tokens += batch.tokens.size
        share = 1.0 / stage.batches_a_step
        return self.gradients.add(batch, share, stage.pointing)

    def step(self, maker: BatchMaker) -> Tensor:
        progress = self.progress
        for _ in range(self.stages[progress.stage].batches_a_step):
            loss = self._add_gradients(maker)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        rate = progress.learning_rate(self.stages)
        use_muon = self.stages[progress.stage].muon
        self.optimizers.step(rate, use_muon)
        progress.step += 1
        progress.stage_step += 1
        return loss

    def report(self, loss: float, waited: float) -> None:
        progress = self.progress
        right, asked = self.gradients.take_counts()
        for family, label in LABELS.items():
            if family and asked[label]:
                progress.note(family, right[label] / asked[label])
        entry = {
            "seconds": round(progress.seconds, 1),
            "stage": self.stages[progress.stage].name,
            "step": progress.step,
            "tokens": progress.num_tokens,
            "loss": round(loss, 4),
            "accuracy": {k: round(v, 4) for k, v in progress.accuracy.items()},
        }
        progress.history.append(entry)
        accuracies = " ".join(
            f"{family} {accuracy:.3f}"
            for family, accuracy in sorted(progress.accuracy.items())
        )
        print(
            f"{entry['seconds']} s {entry['stage']} step {progress.step} "
            f"loss {loss:.3f} waited {waited:.1f} s {accuracies}",
            flush=True,
        )

    def _begin_clock(self, loss: Tensor, began: float) -> float:
        """When the clock began, had a call's first step, which compiles,
        taken no time; `began`: by a clock that ran on."""
        loss.item()  # Waits for the device.
        now = time.monotonic()
        self.progress.seconds_before += now - began - self.progress.seconds
        return now - self.progress.seconds

    def train(self) -> None:
        progress = self.progress
        maker = BatchMaker(
            self.options.seed,
            self.stages,
            self.recipe.batch_tokens,
            progress.batch_number,
        )
        maker.start(progress.stage)
        began = time.monotonic() - progress.seconds
        is_first_step = True
        while (
            not progress.is_run_done(self.stages)
            and progress.seconds + progress.seconds_before
            < self.options.pause_at
        ):
            stage = self.stages[progress.stage]
            self.model.rope_theta = stage.rope_theta
            loss = self.step(maker)
            if is_first_step:
                is_first_step = False
                began = self._begin_clock(loss, began)
            if progress.stage_step % stage.steps_a_report:
                continue
            loss_value = loss.item()  # Waits for the device.
            progress.seconds = time.monotonic() - began
            self.report(loss_value, maker.seconds_waited)
            if not progress.is_stage_done(self.stages):
                continue
            if progress.has_failed(self.stages):
                self._begin_again()
                progress = self.progress
                began = time.monotonic()
            else:
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
