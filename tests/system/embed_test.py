#!/usr/bin/env python3
"""lab/embed's checkpoints as Winnow runs them.

    embed_test.py PATH_TO_WINNOW

A random stand-in of two layers is given each published shape's heads, layers
and scales at a sixteenth of its width, and both are run in float32. Widths
grow by 4 and head dimensions by 4, so nothing is rounded on the way
(lab/shapes/construct_test.py bounds what rounding does): logits differ by the
order of float32 sums alone.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from lab.shapes.construct import Construction  # noqa: E402
from lab.shapes.shards import write_shards  # noqa: E402
from lab.shapes.stand_in import config_of, write_stand_in  # noqa: E402
from lab.shapes.targets import TARGETS, Target  # noqa: E402
from lab.tasks.words import NAMES, SIZE  # noqa: E402

WINNOW = ""
MODEL = ROOT / "lab/models/winnow-lab"
TEXTS = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
TOP = 20
# A sum of n float32 products, in any order, is off by n * 2**-24 of the sum of
# their sizes (Higham 2002, section 3.1). Here n is 170 at most, sizes sum to
# some 10 times a value that is near 1, and a logit is behind 14 such sums:
# 14 * 10 * 170 * 2**-24 = 1.4e-3 if all were off the same way.
MOST_DIFFERENCE = 1.4e-3


def narrow(target: Target) -> Target:
    return replace(target, hidden=target.hidden // 16, vocabulary=SIZE + 100,
                   ffn=target.ffn // 16)


def best_logits(folder: Path, prompt: str) -> dict[int, float]:
    """Of the TOP best tokens, less the best one's."""
    command = [WINNOW, "generate", str(folder), "--prompt", prompt, "--dtype",
               "float32", "--max-tokens", "1", "--temperature", "0",
               "--logprobs", str(TOP), "--json", "--quiet"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    top = json.loads(ran.stdout)["logprobs"][0]["top"]
    return {entry["token_id"]: entry["logprob"] - top[0]["logprob"]
            for entry in top}


class EmbedTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def embed(self, name: str) -> tuple[Path, Path]:
        """The folders of a stand-in, and of it at the narrow shape."""
        target = narrow(TARGETS[name])
        small, large = self.folder / "small", self.folder / "large"
        config = config_of(target.source, target.hidden // 4,
                           target.head_dim // 4, intermediate_size=48,
                           vocab_size=SIZE, rope_theta=1e4)
        source = write_stand_in(small, config, seed=5)
        large.mkdir()
        made = Construction(source, target, 3)
        # Several shards: 4 MiB hold the table and little else.
        assert write_shards(large, made.tensors(), 4 << 20) > 1
        (large / "config.json").write_text(json.dumps(made.config()))
        for text in TEXTS:
            shutil.copyfile(MODEL / text, small / text)
            shutil.copyfile(MODEL / text, large / text)
        return small, large

    def test_logits_are_the_small_models(self):
        prompt = " ".join(random.Random(3).choices(NAMES, k=60))
        for name in TARGETS:
            with self.subTest(name):
                small, large = map(best_logits, self.embed(name), [prompt] * 2)
                self.assertEqual(len(small), TOP)
                kept = small.keys() & large.keys()
                self.assertGreaterEqual(len(kept), TOP - 1)
                for token in kept:
                    self.assertAlmostEqual(large[token], small[token],
                                           delta=MOST_DIFFERENCE)
            shutil.rmtree(self.folder / "small")
            shutil.rmtree(self.folder / "large")


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
