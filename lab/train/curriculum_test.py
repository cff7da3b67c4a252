"""Tests of the curriculum."""

from __future__ import annotations

import unittest

from lab.train.curriculum import (
    LAST_RATE_SHARE,
    STAGES,
    WARM_UP_STEPS,
    Progress,
)

SECONDS = 400.0


class CurriculumTest(unittest.TestCase):
    def test_stage_ends_when_the_worst_task_is_right(self):
        progress = Progress(seconds=10.0)
        progress.note("niah", 1.0)
        self.assertFalse(progress.is_stage_done(STAGES, SECONDS, 2))
        progress.note("vt", 0.9)
        self.assertFalse(progress.is_stage_done(STAGES, SECONDS, 2))
        for _ in range(20):
            progress.note("vt", 1.0)
        self.assertTrue(progress.is_stage_done(STAGES, SECONDS, 2))

    def test_stage_ends_by_the_clock(self):
        progress = Progress(seconds=STAGES[0].share_of_time * SECONDS - 1)
        self.assertFalse(progress.is_stage_done(STAGES, SECONDS, 4))
        progress.seconds += 2
        self.assertTrue(progress.is_stage_done(STAGES, SECONDS, 4))

    def test_going_on_forgets_the_accuracy(self):
        progress = Progress(seconds=50.0, stage_step=9)
        progress.note("vt", 1.0)
        progress.go_on()
        self.assertEqual(progress.worst(1), 0.0)
        self.assertEqual((progress.stage, progress.stage_step), (1, 0))
        self.assertEqual(progress.stage_began, 50.0)

    def test_last_stage_only_ends_with_the_run(self):
        progress = Progress(stage=len(STAGES) - 1, seconds=SECONDS)
        progress.note("vt", 1.0)
        self.assertFalse(progress.is_stage_done(STAGES, SECONDS, 1))

    def test_learning_rate_warms_up_and_falls(self):
        progress = Progress()
        rate = STAGES[0].learning_rate
        first = progress.learning_rate(STAGES, SECONDS)
        self.assertAlmostEqual(first, rate / WARM_UP_STEPS)
        progress.step = WARM_UP_STEPS
        self.assertEqual(progress.learning_rate(STAGES, SECONDS), rate)
        progress.stage = len(STAGES) - 1
        progress.stage_began = progress.seconds = 200.0
        rate = STAGES[-1].learning_rate
        self.assertEqual(progress.learning_rate(STAGES, SECONDS), rate)
        progress.seconds = 300.0
        self.assertEqual(progress.learning_rate(STAGES, SECONDS), rate / 2)
        progress.seconds = SECONDS
        self.assertAlmostEqual(
            progress.learning_rate(STAGES, SECONDS), rate * LAST_RATE_SHARE
        )


if __name__ == "__main__":
    unittest.main()
