#!/usr/bin/env python3
"""`winnow trace` and `winnow simulate` as users meet them, on winnow-lab.

    trace_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "lab/models/winnow-lab"
USAGE_ERROR, FAILURE = 2, 1
WINNOW = ""


def winnow(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([WINNOW, *map(str, arguments)], text=True,
                          capture_output=True, timeout=240)


class TraceTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.tasks = cls.folder / "chain.jsonl"
        subprocess.run(
            [ROOT / "lab/make_tasks", "--task", "chain", "--length", "2K",
             "--count", "2", "--questions", "2", "--seed", "5", "--out",
             cls.tasks], check=True)
        cls.lengths = [cls.folder / f"{length}.jsonl"
                       for length in ("1K", "2K", "4K")]
        for tasks in cls.lengths:
            subprocess.run(
                [ROOT / "lab/make_tasks", "--task", "chain", "--length",
                 tasks.stem, "--count", "1", "--questions", "1", "--seed",
                 "5", "--out", tasks], check=True)
        cls.trace = cls.folder / "a.trace"
        cls.select = "quest:budget=256"
        cls.made = winnow("trace", MODEL, cls.tasks, "--select", cls.select,
                          "--out", cls.trace)

    def simulated(self, *arguments) -> dict:
        done = winnow("simulate", self.trace, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def assert_error(self, done, status: int, *words: str):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("winnow: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_answers_are_those_of_eval(self):
        self.assertEqual(self.made.returncode, 0, self.made.stderr)
        self.assertEqual(self.made.stdout, "")
        said = re.search(r"(\d+) rows of 4 questions, (\d) answered right",
                         self.made.stderr)
        self.assertTrue(said, self.made.stderr)
        done = winnow("eval", MODEL, self.tasks, "--select", self.select,
                      "--max-num-seqs", "1", "--json", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)["rows"][0]
        self.assertEqual(int(said[2]), round(4 * row["exact"]))
        trace = self.simulated()["trace"]
        self.assertEqual(trace["answered_right"], int(said[2]))
        self.assertEqual(trace["rows"], int(said[1]))
        self.assertEqual((trace["model"], trace["select"], trace["requests"]),
                         ("winnow-lab", self.select, 4))
        self.assertEqual((trace["layers"], trace["choosing_layers"]), (6, 4))

    def test_a_trace_is_the_same_twice(self):
        again = self.folder / "again.trace"
        done = winnow("trace", MODEL, self.tasks, "--select", self.select,
                      "--out", again, "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(again.read_bytes(), self.trace.read_bytes())

    def test_policies_keep_their_order(self):
        cells = self.simulated("--cache-budget", "2x,5x", "--policy",
                               "age,lru,lfu,level,belady,hold,hint",
                               "--slot-tokens", "8,32", "--batch", "1,4"
                               )["cells"]
        self.assertEqual(len(cells), 2 * 2 * 7)
        rate = {(c["slot_tokens"], c["cache_budget"], c["policy"]):
                c["hit_rate"] for c in cells}
        for (slot, budget, policy), hits in rate.items():
            self.assertTrue(0 < hits < 1)
            if policy not in ("hold", "hint"):
                self.assertLessEqual(hits, rate[slot, budget, "belady"])
        self.assertLess(rate[32, "2x", "belady"], rate[32, "5x", "belady"])
        for cell in cells:
            first, second = cell["predicted"]
            self.assertEqual((first["batch"], second["batch"]), (1, 4))
            self.assertLess(first["tpot_ms"], second["tpot_ms"])
            self.assertGreater(cell["predicted_requests_that_fit"], 0)

    def test_rates_are_flags(self):
        def link_ms(*flags):
            cell = self.simulated("--policy", "age", "--cache-budget", "2x",
                                  "--batch", "16", *flags)["cells"][0]
            return cell["predicted"][0]["link_ms"]
        self.assertAlmostEqual(
            link_ms("--link-bandwidth", "10"),
            link_ms("--link-bandwidth", "20") * 2)
        self.assertGreater(link_ms("--device-model", "rtx-4090"), link_ms())

    def test_small_pieces_are_slower_over_the_link(self):
        """Slots of 8 tokens are 1 KiB of K where a head has 64 numbers."""
        def link_ms(shape):
            result = self.simulated("--shape", shape, "--slot-tokens", "8,16",
                                    "--policy", "age", "--cache-budget", "2x",
                                    "--batch", "16")
            return [cell["predicted"][0]["link_ms"] /
                    cell["misses"] / cell["slot_tokens"]
                    for cell in result["cells"]]
        small, large = link_ms("llama-3.2-1b")
        self.assertAlmostEqual(small / large, 51.4 / 29.4)
        small, large = link_ms("llama-3.1-8b")
        self.assertAlmostEqual(small / large, 1)

    def test_no_overhead_is_a_bound(self):
        flags = ("--policy", "age", "--cache-budget", "2x", "--batch", "1",
                 "--gpus", "2", "--layer-us", "0", "--all-reduce-us", "0")
        step = self.simulated(*flags)["cells"][0]["predicted"][0]
        self.assertEqual(step["fixed_ms"], 0)
        self.assertGreater(step["all_reduce_ms"], 0)
        self.assertLess(step["all_reduce_ms"], 0.01)

    def test_table_and_file(self):
        out = self.folder / "out.json"
        done = winnow("simulate", self.trace, "--json", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("predictions", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ +3x +\d+ +32 belady +\d+\.\d+%")
        self.assertEqual(len(json.loads(out.read_text())["cells"]), 12)

    def test_longer_contexts_are_extrapolated(self):
        trace = self.folder / "lengths.trace"
        done = winnow("trace", MODEL, *self.lengths, "--select", self.select,
                      "--out", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        flags = ("--policy", "age,belady", "--cache-budget", "2x,3x",
                 "--context", "2K,128K,1M", "--batch", "1,16,256")
        done = winnow("simulate", trace, "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(len(result["trace"]["lengths"]), 3)
        cells = result["cells"]
        self.assertEqual([c["basis"] for c in cells],
                         4 * ["recorded"] + 8 * ["extrapolated"])
        for near, far in zip(cells[:8], cells[4:]):
            self.assertGreaterEqual(near["hit_rate"], far["hit_rate"])
            self.assertLess(near["predicted_request_bytes"],
                            far["predicted_request_bytes"])
            self.assertAlmostEqual(near["held_out"]["recorded_hit_rate"],
                                   far["held_out"]["recorded_hit_rate"])
        best = result["best"]
        self.assertEqual([(b["context_tokens"], b["goal"]) for b in best],
                         [(context, goal)
                          for context in (2 << 10, 128 << 10, 1 << 20)
                          for goal in 3 * ["tpot"] + ["tokens_per_s"]])
        for choice in best:
            self.assertEqual(choice["fits"], not choice["lacks"])
            self.assertNotEqual(choice["policy"], "belady")
        short, long = best[2], best[10]
        self.assertEqual((short["cache_budget"], short["fits"]),
                         ("whole", True))
        self.assertEqual((long["batch"], long["fits"]), (256, False))
        self.assertEqual([lack["field"] for lack in best[8]["lacks"]],
                         ["--host-gib"])
        needed = {lack["field"]: lack["needed"] for lack in long["lacks"]}
        given = [word for flag, value in needed.items()
                 for word in (flag, f"{1.001 * value:.3f}")]
        again = json.loads(winnow("simulate", trace, "--json", *flags,
                                  *given).stdout)
        self.assertTrue(again["best"][10]["fits"])
        table = winnow("simulate", trace, *flags).stdout
        self.assertRegex(table, r"(?m)^Context 131,072 tokens, extrapolated$")
        self.assertRegex(table, r"(?m)^ +1,048,576\* +1 nothing fits; .*"
                                r"--host-gib is 128, must be ")
        self.assertIn("from the shorter lengths alone", table)

    def test_gpus_share_the_work(self):
        flags = ("--policy", "age", "--cache-budget", "2x", "--batch", "64")
        one = self.simulated(*flags)["cells"][0]
        node = self.simulated(*flags, "--device-model", "h200x8")
        shared = node["cells"][0]
        self.assertEqual(node["device_model"]["gpus"], 8)
        self.assertEqual(one["predicted"][0]["all_reduce_ms"], 0)
        self.assertGreater(shared["predicted"][0]["all_reduce_ms"], 0)
        for part in ("products_ms", "score_ms", "read_ms", "link_ms"):
            self.assertAlmostEqual(8 * shared["predicted"][0][part],
                                   one["predicted"][0][part])
        two = self.simulated(*flags, "--gpus", "2")["cells"][0]
        self.assertAlmostEqual(2 * two["predicted"][0]["link_ms"],
                               one["predicted"][0]["link_ms"])

    def test_a_broken_trace_is_one_error(self):
        data = self.trace.read_bytes()
        broken = self.folder / "broken.trace"
        for content in (b"", data[:7], data[:len(data) // 2], data[:-1],
                        data + b"x", data[:999] + b"?" + data[1000:]):
            broken.write_bytes(content)
            self.assert_error(winnow("simulate", broken), FAILURE,
                              "broken.trace: ")

    def test_usage_errors(self):
        out = self.folder / "never"
        make = ("trace", MODEL, self.tasks, "--out", out)
        bad = self.folder / "bad.jsonl"
        bad.write_text("{}\n" + self.tasks.read_text())
        kept = {path: path.read_bytes()
                for path in (self.tasks, bad, self.trace)}
        refused = winnow("simulate", self.trace, "--warm-rows", "1000000")
        longest = int(re.search(r"below (\d+), the rows of the longest",
                                refused.stderr)[1])
        # Its last row counts, and behind that none does.
        last = self.simulated("--policy", "lru", "--warm-rows", longest - 1)
        self.assertGreater(last["trace"]["rows"], 0)
        self.assertLess(last["trace"]["rows"], longest)
        for status, arguments, words in [
                (USAGE_ERROR, (*make, "--select", "dense"), ["--select"]),
                (USAGE_ERROR, (*make, "--select", "quets"), ["quest"]),
                (USAGE_ERROR, (*make, "--levels", "2"), ["--levels", '"2"']),
                (USAGE_ERROR, (*make, "--levels", "0x"), ["--levels"]),
                (USAGE_ERROR, (*make, "--device", "cuda"), ["--device"]),
                (USAGE_ERROR, make[:3], ["--out"]),
                (USAGE_ERROR, (*make[:3], "--out", self.tasks),
                 ["--out", str(self.tasks), "task file"]),
                (USAGE_ERROR, (*make[:2], bad, "--skip-bad", "--out", bad),
                 ["--out", str(bad), "another file than FILE"]),
                (USAGE_ERROR, ("simulate", self.trace, "--json", self.trace),
                 ["--json", str(self.trace), "another file than TRACE"]),
                (USAGE_ERROR, ("simulate", self.trace, "--json", self.tasks),
                 ["--json", str(self.tasks), "task file"]),
                (USAGE_ERROR, ("simulate", self.trace, "--warm-rows",
                               "1000000"),
                 [f"--warm-rows must be below {longest}, ", "is 1000000"]),
                (USAGE_ERROR, ("simulate", self.trace, "--warm-rows", longest),
                 ["--warm-rows", f"is {longest}"]),
                (USAGE_ERROR, ("simulate", self.trace, "--warm-rows", "9",
                               "--max-rows", "9"),
                 ["--max-rows", "--warm-rows (9)"]),
                (USAGE_ERROR, ("simulate", self.trace, "--policy", "keep",
                               "--hint-level", "9x"),
                 ["--hint-level must be at most 2x", "is 9x"]),
                (USAGE_ERROR, ("simulate", self.trace, "--policy", "lru",
                               "--resize-rows", "16"),
                 ["--resize-rows", "keep", '"lru"']),
                (USAGE_ERROR, ("simulate", self.trace, "--ghosts"),
                 ["--ghosts", "--resize-rows"]),
                (USAGE_ERROR, ("simulate", self.trace, "--decay", "0.5"),
                 ["--decay", "mean-level"]),
                (USAGE_ERROR, ("simulate", self.trace, "--memory-bandwidth",
                               "1e-300"),
                 ["--memory-bandwidth", "0.001", '"1e-300"']),
                (USAGE_ERROR, ("simulate", self.trace, "--layer-us", "-1"),
                 ["--layer-us", '"-1"']),
                (USAGE_ERROR, ("simulate", self.trace, "--batch", "1,1"),
                 ["--batch", "once", '"1,1"']),
                (FAILURE, ("trace", MODEL, self.tasks, "--select",
                           self.select, "--out", "/nowhere/t"),
                 ["/nowhere/t"]),
                (FAILURE, ("trace", MODEL, self.folder / "none", "--select",
                           self.select, "--out", out), ["none"]),
                (USAGE_ERROR, ("simulate", self.trace, "--policy", "mru"),
                 ["--policy", "belady", "mru"]),
                (USAGE_ERROR, ("simulate", self.trace, "--cache-budget", "x"),
                 ["--cache-budget"]),
                (USAGE_ERROR, ("simulate", self.trace, "--slot-tokens", "12"),
                 ["--slot-tokens", "12"]),
                (USAGE_ERROR, ("simulate", self.trace, "--hint-level", "0.5x"),
                 ["--hint-level"]),
                (USAGE_ERROR, ("simulate", self.trace, "--device-model", "z"),
                 ["--device-model", "h200"]),
                (USAGE_ERROR, ("simulate", self.trace, "--context", "2M"),
                 ["--context", "1M", '"2M"']),
                (USAGE_ERROR, ("simulate", self.trace, "--context", "128K"),
                 ["--context", "131,072", "the one length"]),
                (USAGE_ERROR, ("simulate", self.trace, "--gpus", "0"),
                 ["--gpus"]),
                (USAGE_ERROR, ("simulate", self.trace, "--shape", "z"),
                 ["--shape", "llama-3.1-8b"]),
                (FAILURE, ("simulate", self.folder / "none"), ["none"])]:
            with self.subTest(arguments=arguments):
                self.assert_error(winnow(*arguments), status, *words)
        self.assertFalse(out.exists())
        for path, content in kept.items():
            self.assertEqual(path.read_bytes(), content)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
