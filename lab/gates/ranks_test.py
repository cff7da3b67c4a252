"""Ranks, bounds and clusters against plain definitions. Needs numpy."""

import unittest

try:
    import numpy as np
except ModuleNotFoundError:
    raise unittest.SkipTest("needs numpy: scripts/bootstrap gates") from None

from lab.gates.ranks import (
    best_keys,
    bound_scores,
    cluster,
    cluster_means,
    mean_scores,
    rank_of,
)

GROUP, BLOCKS, TOKENS, DIM = 3, 9, 5, 6


class RanksTest(unittest.TestCase):
    def setUp(self) -> None:
        draw = np.random.default_rng(1)
        self.q = draw.normal(size=(GROUP, DIM))
        self.keys = draw.normal(size=(BLOCKS, TOKENS, DIM))
        self.dots = np.einsum("gd,btd->gbt", self.q, self.keys)

    def test_a_bound_is_above_its_keys_and_equals_a_single_one(self) -> None:
        bound = bound_scores(self.q, self.keys)
        np.testing.assert_allclose(best_keys(self.q, self.keys),
                                   self.dots.max(-1))
        self.assertTrue((bound >= self.dots.max(-1)).all())
        each = (self.q[:, None, None] * self.keys).max(2).sum(-1)
        np.testing.assert_allclose(bound, each)
        one = self.keys[:, :1]
        np.testing.assert_allclose(bound_scores(self.q, one),
                                   mean_scores(self.q, one))

    def test_a_mean_scores_the_mean(self) -> None:
        np.testing.assert_allclose(mean_scores(self.q, self.keys),
                                   self.dots.mean(-1))

    def test_ranks_have_ties_to_the_lowest(self) -> None:
        scores = np.array([3.0, 5.0, 3.0, 4.0])
        self.assertEqual([rank_of(scores, i) for i in range(4)], [2, 0, 3, 1])

    def test_clusters_part_what_lies_apart(self) -> None:
        draw = np.random.default_rng(2)
        centres = 10 * np.eye(4)
        of = np.arange(32) // 8
        keys = centres[of] + draw.normal(size=(32, 4), scale=0.1)
        for centered in (False, True):
            found = cluster(keys, 4, 9, centered)
            np.testing.assert_array_equal(found, of)
        means, sizes = cluster_means(keys, of, 5)
        np.testing.assert_array_equal(sizes, [8, 8, 8, 8, 0])
        np.testing.assert_allclose(means[1], keys[8:16].mean(0))
        np.testing.assert_array_equal(means[4], 0)


if __name__ == "__main__":
    unittest.main()
