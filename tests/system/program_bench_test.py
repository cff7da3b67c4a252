#!/usr/bin/env python3
"""The commands of `winnow bench` that need no server: rows and flags.

    program_bench_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import re
import subprocess

from program_case import (FAILURE, MODEL, ROOT, USAGE_ERROR, ProgramCase,
                          run_tests, winnow)


class ProgramBenchTest(ProgramCase):

    def write_tasks(self, task: str, length: str, count: int) -> str:
        """A file of questions about a document each."""
        path = self.folder / "tasks.jsonl"
        subprocess.run(
            [ROOT / "lab/make_tasks", "--task", task, "--length", length,
             "--count", str(count), "--seed", "5", "--out", path], check=True)
        return str(path)

    def test_bench_offers_no_flag_that_it_ignores(self):
        model = {"--dtype", "--device", "--threads",
                 "--gpu-memory-utilization", "--rounds", "--json", "--help"}
        step = {"--max-model-len", "--max-num-batched-tokens",
                "--batch-invariant", "--seed", "--prompt", "--generate",
                "--batch", "--shape", "--select"}
        verbs = {"--shape", "--decode-context", "--prompt-context",
                 "--layouts"}
        throughput = (step - {"--prompt", "--batch"}) | {
            "--shape", "--contexts", "--batches", "--select", "--tasks"}
        prefill = (step - {"--batch", "--generate"}) | {"--chunk"}
        link = step - {"--batch", "--generate", "--select"}
        tiers = (step - {"--prompt"}) | {"--prompt-file", "--context",
                                         "--cache-budget", "--hints",
                                         "--kv-disk"}
        decode = (step - {"--prompt"}) | {"--context"}
        for command, own in [("step", step), ("ops", verbs),
                             ("decode", decode),
                             ("prefill", prefill), ("tiers", tiers),
                             ("link", link),
                             ("throughput", throughput)]:
            shown = winnow("bench", command, "--help").stdout
            self.assertEqual(set(re.findall(r"(?m)^  (?:-h,)?(--[a-z-]+)",
                                            shown)), model | own)
        shown = winnow("bench", "disk", "--help").stdout
        self.assertEqual(
            set(re.findall(r"(?m)^  (?:-h,)?(--[a-z-]+)", shown)),
            {"--kv-disk", "--kv-disk-size", "--piece", "--rounds", "--json",
             "--help"})

    def test_bench_tables_grow_with_what_there_is(self):
        shown = winnow("bench", "tables", "--help").stdout
        self.assertEqual(
            set(re.findall(r"(?m)^  (?:-h,)?(--[a-z-]+)", shown)),
            {"--shape", "--contexts", "--batches", "--select", "--json",
             "--help"})
        done = winnow("bench", "tables", "--contexts", "128K,256K",
                      "--batches", "32", "--select",
                      "quest:budget=2K,block=16,quest:budget=2K,block=32",
                      "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual(
            [(row["slot_tokens"], row["context"]) for row in rows],
            [(16, 128 << 10), (16, 256 << 10), (32, 128 << 10),
             (32, 256 << 10)])
        self.assertGreaterEqual(rows[2]["times_smaller"], 49)
        self.assertLess(rows[3]["bytes"], 2 * rows[2]["bytes"])
        self.assertGreater(rows[0]["times_smaller_than_flat"], 230)
        # A table of every token: 32 layers, 8 KV heads, 4 bytes.
        self.assertEqual(rows[0]["token_table_bytes"],
                         32 * (128 << 10) * 32 * 8 * 4)
        self.assertEqual(
            sum(value for name, value in rows[0].items() if name in (
                "page_table_bytes", "summary_table_bytes", "slot_entry_bytes",
                "slot_state_bytes", "step_bytes")), rows[0]["bytes"])
        # Quest's summaries are a sixteenth of KV, whatever may come.
        kv = 32 * (128 << 10) * 32 * 8 * 128 * 2 * 2
        self.assertLess(kv / 16, rows[0]["summary_bytes"])
        self.assertLess(rows[0]["summary_bytes"], kv / 14)

    def test_bench_disk_leaves_nothing_behind(self):
        done = winnow("bench", "disk", "--kv-disk", self.folder,
                      "--kv-disk-size", "1MiB", "--piece", "20KiB",
                      "--rounds", "2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)
        self.assertEqual(figures["pieces"], 1024 // 24)
        self.assertGreater(figures["plain_read_gb_per_second"], 0)
        self.assertGreater(figures["restore_gb_per_second"], 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_bench_link_says_what_an_engine_chooses(self):
        arguments = ("bench", "link", MODEL, "--prompt", "64,200",
                     "--rounds", "2")
        done = winnow(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)
        self.assertGreater(figures["to_device_gb_per_second"], 0)
        self.assertGreater(figures["to_host_gb_per_second"], 0)
        rows = figures["rows"]
        self.assertEqual([row["tokens"] for row in rows], [64, 200])
        for row in rows:
            self.assertGreater(row["prompt_tokens_per_second"], 0)
            copying = (row["tokens"] + 31) // 32 * figures["page_bytes"] / (
                row["engine_link_gb_per_second"] * 1e6)
            self.assertAlmostEqual(row["foretold_copying_ms"] / copying, 1)
            self.assertEqual(
                row["copied"],
                row["foretold_copying_ms"] <= row["foretold_computing_ms"])
            if row["copied"]:
                self.assertLessEqual(row["copied_from_tokens"],
                                     row["tokens"] + 31)
            else:
                self.assertIsNone(row["copied_from_tokens"])
        shown = winnow(*arguments).stdout
        self.assertIn("host to device", shown)
        self.assertRegex(shown, r"(?m)^ +200 .*(copied|computed)")

    def test_bench_throughput_has_a_row_a_cell(self):
        done = winnow("bench", "throughput", MODEL, "--contexts", "64,96",
                      "--batches", "1,2", "--generate", "2", "--rounds", "1",
                      "--select", "dense,window:sink=4,recent=32", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        cells = json.loads(done.stdout)["cells"]
        self.assertEqual(
            [(c["select"], c["context"], c["batch"]) for c in cells],
            [(select, context, batch)
             for select in ("dense", "window:sink=4,recent=32")
             for context in (64, 96) for batch in (1, 2)])
        for cell in cells:
            self.assertGreater(cell["first_token_ms"], 0)
            self.assertGreater(cell["step_ms"], 0)

    def test_bench_throughput_says_how_many_answers_are_right(self):
        tasks = self.write_tasks("niah", "1K", 3)
        done = winnow("bench", "throughput", MODEL, "--tasks", tasks,
                      "--batches", "1,3", "--generate", "8", "--rounds", "1",
                      "--select", "dense,window:sink=4,recent=32", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        cells = json.loads(done.stdout)["cells"]
        self.assertEqual([c["batch"] for c in cells], [1, 3, 1, 3])
        for cell in cells:
            self.assertIn(cell["context"], range(960, 1025))
        # A code out of the window's sight is not told.
        self.assertEqual([c["answers_right"] for c in cells], [1, 3, 0, 0])
        done = winnow("bench", "throughput", MODEL, "--tasks", tasks,
                      "--batches", "2", "--generate", "8", "--rounds", "1")
        self.assertRegex(done.stdout, r"(?m) right +select$")
        self.assertRegex(done.stdout, r"(?m) 2  dense$")

    def test_bench_throughput_wants_tasks_that_fit_its_requests(self):
        tasks = self.write_tasks("niah", "1K", 2)
        for arguments, status, words in [
                ((MODEL, "--batches", "1,3"), USAGE_ERROR,
                 [tasks, "3", "has 2"]),
                ((MODEL, "--generate", "2"), USAGE_ERROR,
                 ["--generate", tasks + ":1", "is 2"]),
                ((MODEL, "--contexts", "1K"), USAGE_ERROR,
                 ["--contexts", "1K", "--tasks"]),
                (("--shape", "llama-3.2-1b"), USAGE_ERROR,
                 ["--tasks", "llama-3.2-1b"])]:
            done = winnow("bench", "throughput", *arguments, "--tasks", tasks)
            self.assert_error(done, status, *words)
        done = winnow("bench", "throughput", MODEL, "--tasks", "/nowhere/t")
        self.assert_error(done, FAILURE, "/nowhere/t")

    def test_bench_decode_has_a_row_a_selection(self):
        selects = ["mean:budget=32,block=16,recent=0", "window:recent=32"]
        done = winnow("bench", "decode", MODEL, "--context", "192", "--batch",
                      "2", "--select", ",".join(selects), "--generate", "2",
                      "--rounds", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row["select"] for row in rows], ["dense", *selects])
        self.assertEqual(rows[0]["beside"], selects)
        for row in rows:
            low, high = row["quartiles"]
            self.assertLessEqual(low, row["rate_of_dense"])
            self.assertLessEqual(row["rate_of_dense"], high)
            # Attention is a part of a step.
            self.assertLess(0, row["dense_attention_ms"])
            self.assertLess(row["dense_attention_ms"], row["dense_step_ms"])
            self.assertLess(row["attention_ms"], row["step_ms"])
            # Amdahl's rate lies between attention's and 1.
            least, most = sorted([1, row["attention_rate_of_dense"]])
            self.assertLess(least - 1e-9, row["amdahl_rate_of_dense"])
            self.assertLess(row["amdahl_rate_of_dense"], most + 1e-9)

    def test_bench_tiers_has_a_row_a_kind(self):
        prompt = self.folder / "prompt"
        prompt.write_text("day " * 200)
        for text in (["--context", "192"], ["--prompt-file", prompt]):
            done = winnow("bench", "tiers", MODEL, *text, "--batch", "2",
                          "--select", "mean:budget=64,block=16",
                          "--cache-budget", "2x,48", "--generate", "2",
                          "--kv-disk", self.folder, "--rounds", "2",
                          "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(list(self.folder.glob("winnow-bench-*")), [])
            figures = json.loads(done.stdout)
            rows = figures["rows"]
            self.assertEqual(
                [row["tiers"] for row in rows],
                ["resident", "unused", "unused, disk", "slots, 2x",
                 "slots, 48"])
            self.assertEqual(rows[0]["rate_of_resident"], 1)
            self.assertGreater(rows[4]["misses_a_row"],
                               rows[3]["misses_a_row"])
            self.assertGreater(rows[4]["bring_share_of_step"], 0)
            self.assertGreater(figures["lookup"]["share_of_step"], 0)

    def test_bench_prefill_has_a_row_a_cell(self):
        done = winnow("bench", "prefill", MODEL, "--prompt", "64,96",
                      "--chunk", "32,96", "--rounds", "1", "--select",
                      "dense,moba:block=32,budget=64", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        cells = json.loads(done.stdout)["cells"]
        self.assertEqual(
            [(c["select"], c["prompt"], c["chunk"]) for c in cells],
            [(select, prompt, chunk)
             for select in ("dense", "moba:block=32,budget=64")
             for prompt in (64, 96) for chunk in (32, 96)])
        for cell in cells:
            self.assertGreater(cell["first_token_ms"], 0)
            self.assertAlmostEqual(
                sum(cell[share] for share in (
                    "products_share", "attention_share", "choices_share",
                    "rest_share")), 1)
            self.assertEqual(cell["choices_share"] > 0,
                             cell["select"] != "dense")


if __name__ == "__main__":
    run_tests()
