"""When a stage of training ends, and how fast it learns.

Retrieval is learned on short documents, then carried to longer ones. A stage
ends when every task is answered right, not after a number of steps: stages
that end too early cost accuracy later. A clock limits each stage all the same,
so that a run of bounded time reaches its last stage, which mixes all lengths
and lets the learning rate fall to nearly nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stage:
    name: str
    lengths: dict[int, float]  # How likely each length is.
    learning_rate: float
    accuracy: float  # Of answer tokens, in the worst task, to go on.
    share_of_time: float  # Of the whole run, at most.
    steps_a_report: int = 25


STAGES = [
    Stage("256", {256: 1.0}, 1e-3, 0.98, 0.40),
    Stage("1K", {1024: 1.0}, 1e-3, 0.98, 0.15),
    Stage("4K", {4096: 0.9, 1024: 0.1}, 6e-4, 0.98, 0.15),
    Stage("16K", {16384: 0.8, 4096: 0.1, 1024: 0.1}, 5e-4, 0.98, 0.15, 5),
    Stage(
        "mixed",
        {32768: 0.45, 16384: 0.25, 4096: 0.15, 1024: 0.1, 256: 0.05},
        5e-4,
        1.0,
        1.0,
        5,
    ),
]
TINY_STAGES = [  # A run of seconds on any machine, to see that it runs.
    Stage("256", {256: 1.0}, 1e-3, 0.98, 0.4, 5),
    Stage("mixed", {256: 0.5, 512: 0.5}, 1e-3, 1.0, 1.0, 5),
]

WARM_UP_STEPS = 200
LAST_RATE_SHARE = 0.02
KEPT_SHARE = 0.6  # Of the average when a report is added to it.


@dataclass
class Progress:
    """How far a run has come; saved with the weights, so that it resumes."""

    stage: int = 0
    step: int = 0
    stage_step: int = 0
    batch_number: int = 0
    seconds: float = 0.0
    stage_began: float = 0.0
    accuracy: dict[str, float] = field(default_factory=dict)
    history: list[dict] = field(default_factory=list)

    def note(self, task: str, accuracy: float) -> None:
        """Adds the latest accuracy on a task to its running average."""
        before = self.accuracy.get(task, accuracy)
        self.accuracy[task] = KEPT_SHARE * before + (1 - KEPT_SHARE) * accuracy

    def worst(self, num_tasks: int) -> float:
        if len(self.accuracy) < num_tasks:
            return 0.0
        return min(self.accuracy.values())

    def learning_rate(self, stages: list[Stage], most_seconds: float) -> float:
        stage = stages[self.stage]
        rate = stage.learning_rate * min(1.0, (self.step + 1) / WARM_UP_STEPS)
        if self.stage < len(stages) - 1:
            return rate
        left = most_seconds - self.seconds
        whole = max(1e-9, most_seconds - self.stage_began)
        return rate * max(LAST_RATE_SHARE, left / whole)

    def is_stage_done(
        self, stages: list[Stage], most_seconds: float, num_tasks: int
    ) -> bool:
        if self.stage == len(stages) - 1:
            return False
        stage = stages[self.stage]
        spent = self.seconds - self.stage_began
        if spent >= stage.share_of_time * most_seconds:
            return True
        return self.worst(num_tasks) >= stage.accuracy

    def go_on(self) -> None:
        self.stage += 1
        self.stage_step = 0
        self.stage_began = self.seconds
        self.accuracy.clear()
