"""Tests of the curriculum."""

from __future__ import annotations

import unittest

from lab.train.curriculum import (
    CORE,
    LAST_RATE_SHARE,
    NEEDLES,
    QWEN3_STAGES,
    RESUME_STEPS,
    STAGES,
    WARM_UP_STEPS,
    Progress,
)
from lab.train.portions import PORTIONS


def all_right(progress: Progress, accuracy: float) -> None:
    for family in CORE:
        for _ in range(20):
            progress.note(family, accuracy)


class CurriculumTest(unittest.TestCase):
    def test_stage_ends_when_the_worst_core_family_is_right(self):
        progress = Progress(seconds=10.0)
        all_right(progress, 1.0)
        self.assertTrue(progress.is_stage_done(STAGES))
        progress.note(CORE[1], 0.5)
        self.assertFalse(progress.is_stage_done(STAGES))
        progress.note("cwe", 0.0)
        all_right(progress, 1.0)
        self.assertTrue(progress.is_stage_done(STAGES))

    def test_stage_waits_for_every_core_family(self):
        progress = Progress(seconds=10.0)
        for family in CORE[1:]:
            progress.note(family, 1.0)
        self.assertFalse(progress.is_stage_done(STAGES))

    def test_stage_of_all_families_waits_for_every_needle(self):
        stage = [stage.families for stage in STAGES].index(NEEDLES)
        progress = Progress(stage=stage, seconds=10.0)
        all_right(progress, 1.0)
        self.assertFalse(progress.is_stage_done(STAGES))
        for family in NEEDLES:
            progress.note(family, 1.0)
        self.assertTrue(progress.is_stage_done(STAGES))

    def test_core_stages_wait_for_what_they_teach(self):
        for stages in (STAGES, QWEN3_STAGES):
            for stage in stages:
                taught = CORE if stage.core_only else NEEDLES
                self.assertLessEqual(set(stage.families), set(taught))

    def test_stage_ends_by_the_clock(self):
        progress = Progress(seconds=STAGES[0].until - 1)
        self.assertFalse(progress.is_stage_done(STAGES))
        progress.seconds += 1
        self.assertTrue(progress.is_stage_done(STAGES))

    def test_a_run_that_the_clock_ended_too_early_begins_again(self):
        stage = [stage.least > 0 for stage in STAGES].index(True)
        progress = Progress(stage=stage, seconds=STAGES[stage].until)
        progress.batch_number, progress.step = 70, 60
        all_right(progress, STAGES[stage].least - 0.01)
        self.assertTrue(progress.is_stage_done(STAGES))
        self.assertTrue(progress.has_failed(STAGES))
        again = progress.begin_again()
        self.assertEqual((again.stage, again.step, again.seconds), (0, 0, 0.0))
        self.assertEqual((again.tries, again.batch_number), (1, 70))
        again.seconds = 7.0
        again = again.begin_again()
        self.assertEqual(again.seconds_before, STAGES[stage].until + 7.0)
        all_right(progress, 1.0)
        self.assertFalse(progress.has_failed(STAGES))

    def test_going_on_forgets_the_accuracy(self):
        progress = Progress(seconds=50.0, stage_step=9)
        progress.note("vt", 1.0)
        progress.go_on()
        self.assertEqual(progress.accuracy, {})
        self.assertEqual((progress.stage, progress.stage_step), (1, 0))
        self.assertEqual(progress.stage_began, 50.0)

    def test_falling_stage_ends_by_the_clock_alone(self):
        for stages in (STAGES, QWEN3_STAGES):
            last = len(stages) - 1
            self.assertTrue(stages[last].falls)
            progress = Progress(stage=last, seconds=stages[last].until - 1)
            all_right(progress, 1.0)
            self.assertFalse(progress.is_stage_done(stages))
            progress.seconds += 1
            self.assertTrue(progress.is_stage_done(stages))
            progress.go_on()
            self.assertTrue(progress.is_run_done(stages))

    def test_stages_follow_each_other(self):
        for stages in (STAGES, QWEN3_STAGES):
            ends = [stage.until for stage in stages]
            self.assertEqual(ends, sorted(ends))
            for stage in stages:
                self.assertAlmostEqual(sum(stage.lengths.values()), 1.0)
                self.assertLessEqual(max(stage.lengths), stage.longest)

    def test_learning_rate_warms_up_and_falls(self):
        progress = Progress()
        rate = STAGES[0].learning_rate
        first = progress.learning_rate(STAGES)
        self.assertAlmostEqual(first, rate / WARM_UP_STEPS)
        progress.step = WARM_UP_STEPS
        self.assertEqual(progress.learning_rate(STAGES), rate)
        progress.stage = len(STAGES) - 1
        stage = STAGES[-1]
        progress.stage_began = progress.seconds = stage.until - 100
        rate = stage.learning_rate
        self.assertEqual(progress.learning_rate(STAGES), rate)
        progress.seconds += 50
        self.assertEqual(progress.learning_rate(STAGES), rate / 2)
        progress.seconds = stage.until
        self.assertAlmostEqual(
            progress.learning_rate(STAGES), rate * LAST_RATE_SHARE
        )

    def test_resumed_run_warms_up_again(self):
        progress = Progress(step=1000, resumed_at_step=1000)
        rate = STAGES[0].learning_rate
        first = progress.learning_rate(STAGES)
        self.assertAlmostEqual(first, rate / RESUME_STEPS)
        progress.step += RESUME_STEPS
        self.assertEqual(progress.learning_rate(STAGES), rate)


class PortionsTest(unittest.TestCase):
    def test_families_waited_for_have_portions(self):
        self.assertLessEqual(set(NEEDLES), set(PORTIONS))

    def test_every_needle_is_waited_for(self):
        needles = {family for family in PORTIONS if "niah" in family}
        self.assertLessEqual(needles, set(NEEDLES))


if __name__ == "__main__":
    unittest.main()
