"""When a stage of training ends, and how fast it learns.

Retrieval is learned on short documents, then carried to longer ones. A stage
ends when its families are answered right, not after a number of steps: stages
that end too early cost accuracy later. A clock limits each stage all the same,
so that a run of bounded time reaches its last stages, which mix all lengths
and let the learning rate fall to nearly nothing. Time that a stage saves is
the next one's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# The families that must be right before a stage ends: those from which
# retrieval is learned, and, where all are taught, every kind of needle.
CORE = ("niah", "multikey", "chain", "vt")
CODES = ("niah", "multikey")  # Of CORE, those that answer with a code's digits.
NEEDLES = (
    *CORE,
    "niah_single_1",
    "niah_single_2",
    "niah_single_3",
    "niah_multikey_1",
    "niah_multikey_2",
    "niah_multikey_3",
    "niah_multivalue",
    "niah_multiquery",
)


@dataclass(frozen=True)
class Stage:
    """A stretch of training.

    `until`: of the run's seconds, by when it ends at the latest. One that
    `falls` ends then and no sooner; its learning rate falls to nearly nothing.
    `core_only`: documents of the first four families alone; `other_shares`: of
    families, in place of those in portions.py. `pointing`: the weight of the
    loss of a group of heads that do not look where an answer's digit stands.
    `muon`: Muon steps the layers' matrices, else AdamW. A batch has
    `batch_share` of the recipe's tokens. Gaps in the positions of a share `spread_share` of the documents
    show distances of up to `longest` tokens. Where a stage ends before the
    worst of CODES is `least` right, the run begins again.
    """

    name: str
    until: float
    lengths: dict[int, float]  # How likely each length is.
    learning_rate: float
    accuracy: float = 0.98  # Of answer tokens, in the worst of `families`.
    least: float = 0.0
    families: tuple[str, ...] = CORE
    falls: bool = False
    core_only: bool = False
    pointing: float = 0.0
    other_shares: dict[str, float] = field(default_factory=dict)
    muon: bool = False
    batch_share: float = 1.0
    spread_share: float = 0.0
    longest: int = 131072
    batches_a_step: int = 1
    steps_a_report: int = 25
    rope_theta: float = 4e6


# Many small steps until the core families are looked up at all, larger ones
# until two names together are; then every family, while documents are still
# short: how to go on to the second of several answers is not learned from long
# ones. From there on the base of RoPE is that of 128K: the slowest frequencies
# turn as far in it as a base of 1e6 lets them turn in 32K ("NTK-aware": base *
# 4 ** (64 / 62)).
# How many digits of a code there were is learned by luck: by itself in few of
# many tries, in 6 of 13 where a loss shows where the next one stands; the first
# group of heads of the second layer is where those that learned it by
# themselves had it. It comes within some hundred steps, at step 800, 1,200,
# 1,400 or 2,300; what has not begun to by 24 s begins again. Muon learns whose
# serial of four names it is among thousands, which AdamW alone did not; AdamW
# keeps it and tells names apart in long documents better. The order of several
# answers comes last and slowly, from many short documents that ask for it;
# without some long ones beside them, long ones are forgotten.
_CORE = {"core_only": True, "rope_theta": 1e6, "pointing": 0.2}
_ALL = {"families": NEEDLES, "accuracy": 0.985, "muon": True}
STAGES = [
    Stage(
        "256, counting digits",
        24,
        {256: 1.0},
        1e-3,
        accuracy=0.97,
        least=0.9,
        families=CODES,
        batch_share=0.25,
        steps_a_report=100,
        **_CORE,
    ),
    Stage(
        "256, small steps",
        45,
        {256: 1.0},
        1e-3,
        accuracy=0.95,
        batch_share=0.25,
        steps_a_report=100,
        **_CORE,
    ),
    Stage(
        "256, larger steps",
        60,
        {256: 1.0},
        1e-3,
        accuracy=0.97,
        least=0.95,
        batches_a_step=2,
        **_CORE,
    ),
    Stage(
        "1K",
        75,
        {1024: 0.75, 256: 0.25},
        1e-3,
        accuracy=0.985,
        batches_a_step=2,
        **_CORE,
    ),
    Stage(
        "all to 1K",
        150,
        {1024: 0.4, 512: 0.25, 256: 0.35},
        1e-3,
        spread_share=0.15,
        **_ALL,
    ),
    Stage(
        "4K, spread",
        180,
        {4096: 0.65, 1024: 0.25, 256: 0.1},
        6e-4,
        spread_share=0.4,
        **_ALL,
    ),
    Stage(
        "16K, spread",
        230,
        {16384: 0.65, 4096: 0.2, 1024: 0.15},
        5e-4,
        spread_share=0.4,
        batches_a_step=2,
        steps_a_report=10,
        **_ALL,
    ),
    Stage(
        "mixed to 128K",
        530,
        {
            131072: 0.42,
            65536: 0.2,
            32768: 0.16,
            16384: 0.1,
            4096: 0.08,
            1024: 0.04,
        },
        5e-4,
        other_shares={"niah_multikey_2": 0.14, "multikey": 0.16},
        falls=True,
        spread_share=0.2,
        batches_a_step=2,
        steps_a_report=10,
    ),
    Stage(
        "mostly to 1K",
        900,
        {
            131072: 0.1,
            65536: 0.07,
            32768: 0.06,
            16384: 0.05,
            4096: 0.08,
            1024: 0.26,
            512: 0.2,
            256: 0.18,
        },
        8e-4,
        other_shares={
            "niah_multiquery": 0.3,
            "niah_multikey_3": 0.12,
            "niah_multikey_2": 0.14,
            "multikey": 0.16,
            "chain": 0.14,
            "long_chain": 0.12,
            "qa": 0.06,
        },
        falls=True,
        spread_share=0.3,
    ),
]
_QWEN3 = {"longest": 16384, "rope_theta": 1e6, "core_only": True}
QWEN3_STAGES = [
    Stage("256", 75, {256: 1.0}, 2e-3, steps_a_report=100, **_QWEN3),
    Stage("1K", 92, {1024: 0.9, 256: 0.1}, 2e-3, **_QWEN3),
    Stage("4K", 108, {4096: 0.85, 1024: 0.15}, 1.5e-3, **_QWEN3),
    Stage(
        "mixed to 16K",
        150,
        {16384: 0.55, 8192: 0.15, 4096: 0.15, 1024: 0.1, 256: 0.05},
        1e-3,
        falls=True,
        **_QWEN3,
    ),
]
TINY_STAGES = [  # A run of seconds on any machine, to see that it runs.
    Stage(
        "256",
        4,
        {256: 1.0},
        1e-3,
        core_only=True,
        pointing=0.2,
        steps_a_report=2,
    ),
    Stage(
        "mixed",
        8,
        {256: 0.5, 1024: 0.5},
        1e-3,
        falls=True,
        batches_a_step=2,
        spread_share=0.5,
        longest=2048,
        steps_a_report=2,
    ),
]

WARM_UP_STEPS = 200
RESUME_STEPS = 25  # In which the optimizer gathers its moments anew.
LAST_RATE_SHARE = 0.02
KEPT_SHARE = 0.6  # Of the average when a report is added to it.


@dataclass
class Progress:
    """How far a run has come; saved with the weights, so that it resumes.

    `tries`: how often it began again. `seconds_before`: what the clock left out,
    those tries and the first step of each call, which compiles.
    """

    tries: int = 0
    seconds_before: float = 0.0
    stage: int = 0
    step: int = 0
    stage_step: int = 0
    resumed_at_step: int = 0
    batch_number: int = 0
    num_tokens: int = 0
    seconds: float = 0.0
    stage_began: float = 0.0
    accuracy: dict[str, float] = field(default_factory=dict)
    history: list[dict] = field(default_factory=list)

    def note(self, family: str, accuracy: float) -> None:
        """Adds the latest accuracy on a family to its running average."""
        before = self.accuracy.get(family, accuracy)
        self.accuracy[family] = KEPT_SHARE * before + (1 - KEPT_SHARE) * accuracy

    def worst(self, families: tuple[str, ...]) -> float:
        return min(self.accuracy.get(family, 0.0) for family in families)

    def learning_rate(self, stages: list[Stage]) -> float:
        stage = stages[self.stage]
        rate = stage.learning_rate * min(1.0, (self.step + 1) / WARM_UP_STEPS)
        if self.resumed_at_step:
            since = self.step + 1 - self.resumed_at_step
            rate *= min(1.0, since / RESUME_STEPS)
        if not stage.falls:
            return rate
        left = stage.until - self.seconds
        whole = max(1e-9, stage.until - self.stage_began)
        return rate * max(LAST_RATE_SHARE, left / whole)

    def is_stage_done(self, stages: list[Stage]) -> bool:
        stage = stages[self.stage]
        if self.seconds >= stage.until:
            return True
        worst = self.worst(stage.families)
        return not stage.falls and worst >= stage.accuracy

    def has_failed(self, stages: list[Stage]) -> bool:
        """Of a stage that is done: the run must begin again."""
        stage = stages[self.stage]
        return self.worst(CODES) < stage.least

    def begin_again(self) -> Progress:
        return Progress(
            tries=self.tries + 1,
            seconds_before=self.seconds_before + self.seconds,
            batch_number=self.batch_number,
        )

    def is_run_done(self, stages: list[Stage]) -> bool:
        return self.stage == len(stages)

    def go_on(self) -> None:
        self.stage += 1
        self.stage_step = 0
        self.stage_began = self.seconds
        self.accuracy.clear()
