#!/usr/bin/env python3
"""The program as its users meet it: answers, exit statuses, error lines.

    program_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

WINNOW = ""
MODEL = str(ROOT / "lab/models/winnow-lab")
LONGEST = json.loads(Path(MODEL, "config.json").read_text())[
    "max_position_embeddings"]
USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


def winnow(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([WINNOW, *map(str, arguments)], text=True,
                          capture_output=True, timeout=240, **options)


def wait_for_work(process: subprocess.Popen, seconds: float):
    """Until it has had these seconds of processors, however long that takes."""
    end = time.monotonic() + 120
    worked = 0.0
    while worked < seconds and process.poll() is None:
        assert time.monotonic() < end, f"{worked} s of processors"
        time.sleep(0.01)
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        ticks = stat.rpartition(")")[2].split()[11:13]
        worked = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def work_of_children() -> float:
    """Seconds of processors, of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class ProgramTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_error(self, done, status: int, *words: str):
        """One line on standard error that has the words, nothing else."""
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("winnow: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def copy_of_model(self) -> Path:
        copy = self.folder / "model"
        shutil.copytree(MODEL, copy)
        copy.chmod(0o755)
        for path in copy.iterdir():
            path.chmod(0o644)
        return copy

    # What it does.

    def test_answers_a_question_and_streams_it(self):
        record = make_record("niah", 1024, 1, 0)
        done = winnow("generate", MODEL, "--prompt", record.prompt)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), record.answer)
        self.assertRegex(done.stderr, r"^prompt [\d,]+ tokens, [\d,]+ tokens/s;"
                         r" generated \d+, .*; KV .*; loaded in .* s\n$")

    def test_prompts_of_several_kinds_keep_their_order(self):
        words = ["hated"] * 9
        file = self.folder / "mixed"
        file.write_text(" ".join(words[:3]))
        done = winnow("generate", MODEL, "--prompt-file", file, "--prompt",
                      words[0], "--prompt-file", file, "--prompt",
                      " ".join(words[:7]), "--max-tokens", "1", "--json",
                      "--quiet")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["prompt_tokens"] for line in lines],
                         [4, 2, 4, 8])

    def test_a_prompt_near_the_limit_gets_what_is_left(self):
        done = winnow("generate", MODEL, "--prompt", "hated hated hated",
                      "--max-model-len", "8", "--json", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = json.loads(done.stdout)
        self.assertLessEqual(len(line["token_ids"]), 5)

    def test_json_of_several_prompts_in_order(self):
        records = [make_record("niah", 1024, 2, index) for index in range(3)]
        arguments = []
        for index, record in enumerate(records):
            path = self.folder / f"p{index}"
            path.write_text(record.prompt)
            arguments += ["--prompt-file", path]
        done = winnow("generate", MODEL, *arguments, "--json", "--logprobs",
                      "2", "--quiet")
        self.assertEqual(done.stderr, "")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["text"].strip() for line in lines],
                         [record.answer for record in records])
        for line in lines:
            self.assertEqual(line["finish_reason"], "stop")
            self.assertEqual(len(line["logprobs"]), len(line["token_ids"]))
            best = line["logprobs"][0]
            self.assertEqual(best["top"][0]["token_id"], best["token_id"])
            self.assertLessEqual(best["logprob"], 0)

    def test_batch_equals_alone(self):
        records = [make_record("chain", 1024, 3, index) for index in range(2)]
        flags = ["--json", "--quiet", "--batch-invariant", "--logprobs", "3"]
        both = winnow("generate", MODEL, "--prompt", records[0].prompt,
                      "--prompt", records[1].prompt, *flags)
        for record, line in zip(records, both.stdout.splitlines()):
            alone = winnow("generate", MODEL, "--prompt", record.prompt,
                           *flags)
            self.assertEqual(json.loads(alone.stdout)["logprobs"],
                             json.loads(line)["logprobs"])

    def test_prefixes_come_back_from_the_host(self):
        prompts = [make_record("niah", 1024, 6, index).prompt
                   for index in range(2)]
        asked = []
        for prompt in [*prompts, prompts[0]]:
            asked += ["--prompt", prompt]
        # The device holds one of them.
        done = winnow("generate", MODEL, *asked, "--json", "--quiet",
                      "--batch-invariant", "--logprobs", "2",
                      "--max-tokens", "32", "--max-num-seqs", "1",
                      "--device-kv", "4MiB", "--host-kv", "8MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second, again = [json.loads(line)
                                for line in done.stdout.splitlines()]
        self.assertEqual(again["logprobs"], first["logprobs"])
        self.assertEqual([line["kv"]["fetched_bytes"] > 0
                          for line in (first, second, again)],
                         [False, False, True])
        self.assertGreater(again["kv"]["host_bytes"], 0)
        self.assertLessEqual(again["kv"]["host_bytes"], 8 << 20)

    def test_a_cache_budget_keeps_the_rest_on_the_host(self):
        ask = ["generate", MODEL, "--prompt",
               make_record("niah", 2048, 6, 0).prompt, "--json",
               "--batch-invariant", "--logprobs", "2", "--max-tokens", "48",
               "--select", "quest:budget=256"]
        whole = winnow(*ask, "--quiet")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        near = winnow(*ask, "--host-kv", "64MiB", "--cache-budget", "2x")
        self.assertEqual(near.returncode, 0, near.stderr)
        whole, kept = json.loads(whole.stdout), json.loads(near.stdout)
        self.assertEqual(kept["logprobs"], whole["logprobs"])
        kv = kept["kv"]
        self.assertLess(kv["device_bytes"], whole["kv"]["device_bytes"])
        self.assertGreater(kv["host_bytes"], whole["kv"]["device_bytes"] / 2)
        self.assertEqual(kv["picks"], kv["hits"] + kv["misses"])
        self.assertGreater(kv["hits"], 0)
        self.assertGreater(kv["misses"], 0)
        self.assertGreater(kv["fetched_bytes"], 0)
        # What left the device was written once, what was fetched was waited for.
        self.assertEqual(kv["written_bytes"], kv["host_bytes"])
        self.assertGreater(kv["stall_ms"], 0)
        for name in ("picks", "written_bytes", "stall_ms"):
            self.assertEqual(whole["kv"][name], 0)
        for words in ("on the host", "picks near", "fetched"):
            self.assertIn(words, near.stderr)

    def test_seeds_reproduce_and_stop_strings_cut(self):
        prompt = make_record("niah", 1024, 4, 0).prompt
        draw = ["generate", MODEL, "--prompt", prompt, "--temperature", "3",
                "--max-tokens", "12", "--quiet"]
        first = winnow(*draw, "--seed", "1").stdout
        self.assertEqual(winnow(*draw, "--seed", "1").stdout, first)
        self.assertNotEqual(winnow(*draw, "--seed", "2").stdout, first)
        answer = winnow("generate", MODEL, "--prompt", prompt,
                        "--quiet").stdout.strip()
        cut = winnow("generate", MODEL, "--prompt", prompt, "--quiet",
                     "--json", "--stop", answer[2:5])
        line = json.loads(cut.stdout)
        self.assertEqual(line["text"].strip(), answer[:2].strip())
        self.assertEqual(line["finish_reason"], "stop")

    def test_interrupt_ends_cleanly_with_what_there_is(self):
        prompt = self.folder / "prompt"
        prompt.write_text(make_record("niah", 32768, 5, 0).prompt)
        result = self.folder / "result"
        process = subprocess.Popen(
            [WINNOW, "generate", MODEL, "--prompt-file", prompt, "--json",
             result, "--max-num-batched-tokens", "64", "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for_work(process, 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED)
        line = json.loads(result.read_text())
        self.assertEqual(line["finish_reason"], "cancelled")

    def test_interrupt_before_the_first_step_ends_at_once(self):
        text = "the quick brown fox " * 1_500_000
        prompt = self.folder / "prompt"
        prompt.write_text(text)
        tasks = self.folder / "tasks"
        tasks.write_text(json.dumps({"task": "t", "length": 1, "prompt": text,
                                     "answers": ["fox"]}) + "\n")
        result = self.folder / "result"
        result.write_text("old")
        # All that the tokenizer does before it is refused as too long.
        before = work_of_children()
        self.assert_error(winnow("generate", MODEL, "--prompt-file", prompt),
                          USAGE_ERROR, "max-model-len")
        whole = work_of_children() - before
        for arguments in [["generate", MODEL, "--prompt-file", prompt],
                          ["eval", MODEL, tasks]]:
            with self.subTest(command=arguments[0]):
                process = subprocess.Popen(
                    [WINNOW, *arguments, "--json", result], text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                wait_for_work(process, whole / 4)
                self.assertIsNone(process.poll(), "it was too quick to be "
                                  "interrupted")
                before = work_of_children()
                process.send_signal(signal.SIGINT)
                output = process.communicate(timeout=120)
                self.assertLess(work_of_children() - before, whole * 3 / 4)
                self.assertEqual(process.returncode, INTERRUPTED)
                self.assertEqual(output, ("", "winnow: interrupted\n"))
                self.assertEqual(result.read_text(), "old")
                self.assertEqual({path.name for path in self.folder.iterdir()},
                                 {"prompt", "tasks", "result"})

    def test_info(self):
        done = winnow("info", MODEL, "--json")
        facts = json.loads(done.stdout)
        self.assertEqual(facts["parameters"], 11604864)
        self.assertEqual(facts["kv_bytes_per_token"], 3072)
        self.assertIn("LlamaForCausalLM", winnow("info", MODEL).stdout)
        file = self.folder / "facts"
        self.assertEqual(winnow("info", MODEL, "--json", file).stdout, "")
        self.assertEqual(file.read_text(), done.stdout)

    def test_version_and_help(self):
        self.assertRegex(winnow("--version").stdout, r"^winnow \d+\.\d+\.\d+\n")
        for command in ([], ["generate"], ["info"], ["bench"],
                        ["bench", "step"], ["bench", "verbs"],
                        ["bench", "prefill"], ["bench", "throughput"],
                        ["bench", "decode"],
                        ["bench", "tiers"], ["bench", "disk"],
                        ["bench", "link"], ["bench", "tables"]):
            done = winnow(*command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Usage", done.stdout)
        self.assertIn("Exit status: 0 done; 2 the command line",
                      winnow("--help").stdout)

    def test_bench_offers_no_flag_that_it_ignores(self):
        model = {"--dtype", "--device", "--threads",
                 "--gpu-memory-utilization", "--rounds", "--json", "--help"}
        step = {"--max-model-len", "--max-num-batched-tokens",
                "--batch-invariant", "--seed", "--prompt", "--generate",
                "--batch", "--shape", "--select"}
        verbs = {"--shape", "--decode-context", "--prompt-context",
                 "--layouts"}
        throughput = (step - {"--prompt", "--batch"}) | {
            "--shape", "--contexts", "--batches", "--select"}
        prefill = (step - {"--batch", "--generate"}) | {"--chunk"}
        link = step - {"--batch", "--generate", "--select"}
        tiers = (step - {"--prompt"}) | {"--prompt-file", "--context",
                                         "--cache-budget", "--hints"}
        decode = (step - {"--prompt"}) | {"--context"}
        for command, own in [("step", step), ("verbs", verbs),
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

    def generate_from_disk(self, *arguments: str, words: int = 700):
        return winnow("generate", MODEL, "--prompt", "day " * words,
                      "--max-tokens", "8", "--quiet", "--json",
                      "--kv-disk", self.folder / "kv",
                      "--kv-disk-size", "32MiB", *arguments)

    def test_prompts_survive_a_restart(self):
        plain = winnow("generate", MODEL, "--prompt", "day " * 700,
                       "--max-tokens", "8", "--quiet", "--json",
                       "--batch-invariant")
        answers = [json.loads(plain.stdout)]
        for _ in range(3):
            done = self.generate_from_disk("--batch-invariant")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "")
            answers.append(json.loads(done.stdout))
        tokens = answers[0]["prompt_tokens"]
        page_bytes = 32 * answers[0]["kv"]["device_bytes"] // (
            -(-(tokens + 7) // 32) * 32)
        fetched = [answer["kv"]["fetched_bytes"] for answer in answers]
        self.assertEqual(fetched, [0, 0] + 2 * [(tokens - 1) // 32
                                                * page_bytes])
        for answer in answers:
            self.assertEqual(answer["token_ids"], answers[0]["token_ids"])
        # Who says what is to be done is not measured.
        for word, expected in [("copy", fetched[-1]), ("compute", 0)]:
            done = self.generate_from_disk("--batch-invariant", "--restore",
                                           word)
            self.assertEqual(done.returncode, 0, done.stderr)
            answer = json.loads(done.stdout)
            self.assertEqual(answer["kv"]["fetched_bytes"], expected)
            self.assertEqual(answer["token_ids"], answers[0]["token_ids"])
        # What was computed by another rule is another prompt's.
        self.assertEqual(json.loads(self.generate_from_disk().stdout)
                         ["kv"]["fetched_bytes"], 0)

    def test_a_document_of_32k_is_read_from_disk_after_a_restart(self):
        # By a selector that acts in prompts, so that it is read soon.
        record = make_record("niah", 32768, 2, 0)
        document = self.folder / "document"
        document.write_text(record.prompt)
        answers = []
        for _ in range(2):
            done = winnow("generate", MODEL, "--prompt-file", document,
                          "--select", "infllm-v2:dense_len=1K,budget=1K,"
                          "sink=64,recent=256", "--batch-invariant", "--json",
                          "--logprobs", "2", "--max-tokens", "16", "--quiet",
                          "--kv-disk", self.folder / "kv", "--kv-disk-size",
                          "128MiB")
            self.assertEqual(done.returncode, 0, done.stderr)
            answers.append(json.loads(done.stdout))
        first, again = answers
        self.assertEqual(first["text"].strip(), record.answer)
        self.assertEqual(again["logprobs"], first["logprobs"])
        tokens = first["prompt_tokens"]
        self.assertGreater(tokens, 32000)
        page_bytes = first["kv"]["device_bytes"] // (
            -(-(tokens + len(first["token_ids"]) - 1) // 32))
        self.assertEqual([answer["kv"]["fetched_bytes"] // page_bytes * 32
                          for answer in answers],
                         [0, (tokens - 1) // 32 * 32])
        times = [answer["timing"]["first_token_ms"] for answer in answers]
        self.assertLess(times[1], times[0])

    def test_a_folder_is_of_one_model_and_one_process(self):
        prompt = self.folder / "prompt"
        prompt.write_text(make_record("niah", 32768, 5, 0).prompt)
        owner = subprocess.Popen(
            [WINNOW, "generate", MODEL, "--prompt-file", prompt,
             "--max-num-batched-tokens", "64", "--quiet", "--kv-disk",
             self.folder / "kv", "--kv-disk-size", "32MiB"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # Whoever writes the header has the folder.
            end = time.monotonic() + 120
            while not (self.folder / "kv/header").exists():
                self.assertLess(time.monotonic(), end)
                self.assertIsNone(owner.poll())
                time.sleep(0.01)
            self.assert_error(self.generate_from_disk(), FAILURE,
                              "another process keeps its KV there")
            self.assertIsNone(owner.poll())
        finally:
            owner.kill()
            owner.wait(timeout=60)
        first = self.generate_from_disk()
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assert_error(self.generate_from_disk("--dtype", "float32"),
                          FAILURE, "header: key must be", "float32",
                          "bfloat16", "of one model")
        again = self.generate_from_disk()
        self.assertGreater(json.loads(again.stdout)["kv"]["fetched_bytes"], 0)
        self.assertEqual((self.folder / "kv").stat().st_mode & 0o777, 0o700)

    def test_what_a_disk_cannot_be(self):
        prompt = ["generate", MODEL, "--prompt", "x"]
        kv_disk = ["--kv-disk", self.folder / "kv"]
        for arguments, status, words in [
                (["--kv-disk-size", "1GiB"], USAGE_ERROR,
                 ["--kv-disk-size needs --kv-disk"]),
                ([*kv_disk, "--kv-disk-size", "1"], USAGE_ERROR,
                 ["--kv-disk-size", "1"]),
                ([*kv_disk, "--kv-disk-size", "4KiB"], USAGE_ERROR,
                 ["at least", "4.0 KiB"]),
                ([*kv_disk, "--kv-disk-size", "100TiB"], FAILURE,
                 ["cannot allocate"]),
                (["--kv-disk", self.folder / "missing/kv"], FAILURE,
                 ["cannot make the folder", "missing/kv"])]:
            with self.subTest(arguments):
                self.assert_error(winnow(*prompt, *arguments), status, *words)

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
                          "--rounds", "2", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads(done.stdout)
            rows = figures["rows"]
            self.assertEqual(
                [row["tiers"] for row in rows],
                ["resident", "unused", "slots, 2x", "slots, 48"])
            self.assertEqual(rows[0]["rate_of_resident"], 1)
            self.assertGreater(rows[3]["misses_a_row"],
                               rows[2]["misses_a_row"])
            self.assertGreater(rows[3]["bring_share_of_step"], 0)
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

    def test_help_keeps_the_contract(self):
        design = (ROOT / "docs/design.md").read_text()
        section = design[design.index("**Flags**, the same"):]
        section = section[:section.index("\n\n")]
        contract = set(re.findall(r"`(--[a-z-]+)", section))
        self.assertGreater(len(contract), 10)
        shown = winnow("generate", "--help").stdout
        offered = set(re.findall(r"(--[a-z-]+)", shown))
        own = {"--prompt", "--prompt-file", "--chat", "--max-tokens",
               "--temperature", "--top-p", "--top-k", "--min-p",
               "--repetition-penalty", "--stop", "--logprobs", "--help"}
        self.assertEqual(offered - own, contract)

    # What it refuses.

    def test_usage_errors(self):
        prompt = ["--prompt", "x"]
        for arguments, words in [
                ([], ["command must be generate, "]),
                (["nonsense"], ["command must be generate, ", "nonsense"]),
                (["bench", "stop"], ["command must be step, verbs, prefill, "
                                     "throughput, tiers, disk, link, tables or serve",
                                     "stop"]),
                (["generate"], ["MODEL"]),
                (["generate", MODEL], ["--prompt"]),
                (["generate", MODEL, *prompt, "--unknown"], ["--unknown"]),
                (["generate", MODEL, "--prompt", ""], ["prompt", "empty"]),
                (["generate", MODEL, *prompt, "--max-tokens", "0"],
                 ["max-tokens", "1", "0"]),
                (["generate", MODEL, *prompt, "--max-tokens", "many"],
                 ["many"]),
                (["generate", MODEL, *prompt, "--temperature", "-1"],
                 ["--temperature", "[0, 100]", "-1"]),
                (["generate", MODEL, *prompt, "--top-p", "-0.1"],
                 ["--top-p must be a number in [0, 1], is \"-0.1\""]),
                (["generate", MODEL, *prompt, "--top-k", "-2"],
                 ["top-k", "-2"]),
                (["generate", MODEL, *prompt, "--seed", "-1"],
                 ["seed", "[0, 18446744073709551615]", "-1"]),
                (["generate", MODEL, *prompt, "--max-tokens", "99999999999"],
                 ["max-tokens", "2147483647", "99999999999"]),
                (["generate", MODEL, *prompt, "--min-p", "nan"],
                 ["--min-p", "nan"]),
                (["generate", MODEL, *prompt, "--repetition-penalty", "0"],
                 ["--repetition-penalty must be a number in [0.01, 100]"]),
                (["generate", MODEL, *prompt, "--logprobs", "21"],
                 ["logprobs", "20", "21"]),
                (["generate", MODEL, *prompt, "--logprobs", "2"],
                 ["--logprobs needs --json"]),
                (["generate", MODEL, *prompt, "--quiet=3"],
                 ["--quiet takes no value", "3"]),
                (["generate", MODEL, *prompt, "--select", ""],
                 ["--select", "empty"]),
                (["eval", MODEL, "/dev/null", "--select", ""],
                 ["--select", '""']),
                (["generate", MODEL, *prompt, "--device", "x"],
                 ["--device must be auto, cpu or cuda[:N]", "x"]),
                (["generate", MODEL, *prompt, "--device", "cuda:"],
                 ["--device", "cuda:"]),
                (["generate", MODEL, "--chat", ""], ["--chat", "empty"]),
                (["bench", "step", MODEL, "--select", "mean"],
                 ["--select", "cuda", "mean"]),
                (["bench", "step", MODEL, "--prompt", "8,16"],
                 ["--prompt", "--device cuda", "8,16"]),
                (["bench", "step"], ["MODEL", "--shape"]),
                (["bench", "verbs"], ["MODEL", "--shape"]),
                (["bench", "verbs", MODEL, "--layouts"],
                 ["--layouts", "cuda", "auto"]),
                (["bench", "verbs", MODEL, "--batch-invariant"],
                 ["not expected", "--batch-invariant"]),
                (["bench", "disk"], ["--kv-disk"]),
                (["bench", "tables", "--select", "dense"],
                 ["--select dense", "no slots"]),
                (["bench", "disk", "--kv-disk", "x", "--piece", "many"],
                 ["--piece", "many"]),
                (["bench", "disk", "--kv-disk", "x", "--kv-disk-size",
                  "4KiB"], ["--kv-disk-size", "4.0 MiB", "4.0 KiB"]),
                (["bench", "link"], ["MODEL", "--shape"]),
                (["bench", "link", MODEL, "--prompt", "0"],
                 ["--prompt", "0"]),
                (["bench", "prefill"], ["MODEL", "--shape"]),
                (["bench", "prefill", MODEL, "--chunk", "2K,0"],
                 ["--chunk", "1048576", "0"]),
                (["bench", "prefill", MODEL, "--prompt", ""],
                 ["--prompt", '""']),
                (["bench", "prefill", MODEL, "--prompt", "64,200K"],
                 ["133120"]),
                (["bench", "prefill", MODEL, "--select", "nope"],
                 ["--select", "nope"]),
                (["bench", "throughput"], ["MODEL", "--shape"]),
                (["bench", "decode"], ["MODEL", "--shape"]),
                (["bench", "decode", MODEL, "--context", "0"],
                 ["--context", "0"]),
                (["bench", "decode", MODEL, "--select", "mean,nope"],
                 ["--select", "nope"]),
                (["bench", "throughput", MODEL, "--shape", "llama-3.1-8b"],
                 ["MODEL", "--shape"]),
                (["bench", "throughput", "--shape", "x"],
                 ["shape", "llama-3.1-8b", "x"]),
                (["bench", "throughput", MODEL, "--batches", "1,0"],
                 ["--batches", "0"]),
                (["bench", "verbs", MODEL, "--gpu-memory-utilization", "0.9"],
                 ["--gpu-memory-utilization", "CPU"]),
                (["generate", MODEL, *prompt, "--device", "cpu",
                  "--gpu-memory-utilization", "0.9"],
                 ["--gpu-memory-utilization", "cpu"]),
                (["generate", MODEL, *prompt, "--gpu-memory-utilization",
                  "1.5"], ["--gpu-memory-utilization", "1.5"]),
                (["generate", MODEL, *prompt, "--stop", ""], ["stop"]),
                (["generate", MODEL, *prompt, "--threads", "-1"],
                 ["threads", "-1"]),
                (["generate", MODEL, *prompt, "--max-num-seqs", "0"],
                 ["max-num-seqs", "0"]),
                (["generate", MODEL, *prompt, "--max-num-batched-tokens",
                  "0"], ["max-num-batched-tokens", "0"]),
                (["generate", MODEL, *prompt, "--max-model-len",
                  str(LONGEST + 1)],
                 ["max-model-len", str(LONGEST), str(LONGEST + 1)]),
                (["generate", MODEL, *prompt, "--max-model-len", "x"],
                 ["max-model-len", "x"]),
                (["generate", MODEL, *prompt, "--device-kv", "64"],
                 ["device-kv", "64"]),
                (["generate", MODEL, *prompt, "--restore", "fetch"],
                 ["--restore", "auto", "copy", "compute", "fetch"]),
                (["generate", MODEL, *prompt, "--host-kv", "much"],
                 ["host-kv", "much"]),
                (["generate", MODEL, *prompt, "--cache-budget", "4x"],
                 ["--cache-budget", "--host-kv"]),
                (["generate", MODEL, *prompt, "--cache-budget", "half",
                  "--host-kv", "8MiB"], ["--cache-budget", "half"]),
                (["generate", MODEL, *prompt, "--cache-budget", "4x",
                  "--host-kv", "8MiB", "--select", "oracle"],
                 ["cache-budget", "oracle"]),
                (["generate", MODEL, *prompt, "--cache-budget", "4x",
                  "--host-kv", "8MiB"], ["cache-budget", "none"]),
                (["generate", MODEL, *prompt, "--dtype", "int8"],
                 ["dtype", "int8"]),
                (["generate", MODEL, "--prompt", b"\xff\xfe"],
                 ["UTF-8"]),
                (["bench", "step", MODEL, "--prompt", "200000"],
                 ["context of 133120 tokens", "200000"]),
                (["bench", "throughput", MODEL, "--contexts", "64,200K"],
                 ["133120"]),
                (["bench", "throughput", MODEL, "--contexts", "64",
                  "--select", "dense,nope"], ["--select", "nope"]),
                (["bench", "step", MODEL, "--batch", "0"], ["--batch", "0"])]:
            with self.subTest(arguments=arguments):
                done = subprocess.run([WINNOW, *arguments], text=True,
                                      capture_output=True, timeout=60)
                self.assert_error(done, USAGE_ERROR, *words)

    def test_work_that_cannot_be_done(self):
        long_prompt = self.folder / "long"
        long_prompt.write_text("the " * 40000)
        some_prompt = self.folder / "some"
        some_prompt.write_text("the " * 2000)
        empty = self.folder / "empty"
        empty.mkdir()
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        nothing = self.folder / "nothing"
        nothing.touch()
        latin = self.folder / "latin"
        latin.write_bytes(b"caf\xe9")
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        prompt = ["--prompt", "x"]
        for status, arguments, words in [
                (FAILURE, ["/nowhere", *prompt], ["/nowhere"]),
                (FAILURE, [empty, *prompt], ["config.json"]),
                (FAILURE, [MODEL, "--prompt-file", "/nowhere/p"],
                 ["/nowhere/p", "No such file"]),
                (FAILURE, [MODEL, "--prompt-file", empty],
                 ["not a regular file"]),
                (FAILURE, [MODEL, "--prompt-file", pipe],
                 ["not a regular file"]),
                (FAILURE, [MODEL, "--prompt-file", nothing],
                 ["nothing", "empty"]),
                (FAILURE, [MODEL, "--prompt-file", latin], ["latin", "UTF-8"]),
                (USAGE_ERROR, [MODEL, *prompt, "--prompt", "a b c d e f",
                               "--max-model-len", "5", "--max-tokens", "1"],
                 ["5", "max-model-len"]),
                (USAGE_ERROR, [MODEL, "--prompt-file", long_prompt,
                               "--max-model-len", "33K"],
                 ["33792", "max-model-len", "40001"]),
                (FAILURE, [MODEL, "--prompt-file", some_prompt,
                           "--device-kv", "1MiB"], ["device-kv", "MiB"]),
                (USAGE_ERROR, [MODEL, *prompt, "--device-kv", "1000000TiB"],
                 ["device-kv may hold at most", "1000000 TiB"]),
                (FAILURE, [MODEL, *prompt, "--device-kv",
                           f"{2 * (memory >> 30) + 1}GiB"],
                 ["device-kv must be at most", "left",
                  f"is {2 * (memory >> 30) + 1}"]),
                (FAILURE, [MODEL, *prompt, "--device", "cuda:999"],
                 ["cuda:999"]),
                (USAGE_ERROR, [MODEL, *prompt, "--select", "qest"],
                 ["--select", "qest", "quest"]),
                (USAGE_ERROR, [MODEL, *prompt, "--select", "mean:budget=8"],
                 ["budget", "32", "8"]),
                (USAGE_ERROR, [MODEL, *prompt, "--select",
                               "seerattention-r:block=64"],
                 ["--select", "block", "16", "64"]),
                (FAILURE, [MODEL, "--chat", "hello"], ["template"]),
                (FAILURE, [MODEL, *prompt, "--json", "/nowhere/out"],
                 ["/nowhere/out"])]:
            with self.subTest(arguments=arguments):
                done = winnow("generate", *arguments)
                self.assert_error(done, status, *words)

    def test_usage_is_told_before_the_checkpoint_is_looked_at(self):
        """There is none; nor does what a prompt holds need one."""
        empty = self.folder / "empty"
        empty.touch()
        prompt = ["generate", "/nowhere", "--prompt", "x"]
        for status, arguments, words in [
                (USAGE_ERROR, [*prompt, "--dtype", "int8"], ["--dtype"]),
                (USAGE_ERROR, [*prompt, "--device", "gpu"], ["--device"]),
                (USAGE_ERROR, [*prompt, "--max-model-len", "x"],
                 ["--max-model-len"]),
                (USAGE_ERROR, [*prompt, "--device-kv", "64"], ["--device-kv"]),
                (USAGE_ERROR, [*prompt, "--select", "qest"],
                 ["--select", "quest"]),
                (USAGE_ERROR, [*prompt, "--select", "quest:budgt=64"],
                 ["--select quest", "budget"]),
                (USAGE_ERROR, [*prompt, "--max-tokens", "9",
                               "--max-model-len", "8"],
                 ["--max-tokens must be at most --max-model-len (8), is 9"]),
                (USAGE_ERROR, [*prompt, "--stop", ""], ["stop"]),
                (USAGE_ERROR, [*prompt, "--stop", b"\xff"], ["stop", "UTF-8"]),
                (USAGE_ERROR, [*prompt, "--prompt", ""], ["--prompt", "empty"]),
                (USAGE_ERROR, [*prompt, "--prompt", b"\xff"], ["UTF-8"]),
                (USAGE_ERROR, [*prompt, "--chat", ""], ["--chat", "empty"]),
                (USAGE_ERROR, ["info", "/nowhere", "--dtype", "int8"],
                 ["--dtype"]),
                (USAGE_ERROR, ["bench", "step", "/nowhere", "--device", "x"],
                 ["--device"]),
                (USAGE_ERROR, ["bench", "throughput", "/nowhere", "--select",
                               "dense,qest"], ["--select", "quest"]),
                (USAGE_ERROR, ["bench", "throughput", "/nowhere", "--batches",
                               "0"], ["--batches"]),
                (FAILURE, [*prompt, "--prompt-file", empty],
                 [f"{empty}: prompt must have"]),
                (FAILURE, [*prompt, "--prompt-file", "/nowhere/p"],
                 ["/nowhere/p: cannot"])]:
            with self.subTest(arguments=arguments):
                done = subprocess.run([WINNOW, *arguments], text=True,
                                      capture_output=True, timeout=60)
                self.assert_error(done, status, *words)

    def test_tokens_that_the_model_has_no_rows_for(self):
        """As fine-tunes have them: refused where a text holds one."""
        model = self.copy_of_model()
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        tokenizer["added_tokens"].append({
            "id": 4096, "content": "<tool>", "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": False,
            "special": True})
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        generate = ["generate", model, "--max-tokens", "2"]
        done = winnow(*generate, "--prompt", "the")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('tokenizer.json: token "<tool>" has the id 4096, the '
                      "model has rows for ids below 4096 (vocab_size)",
                      done.stderr)
        said = ('token "<tool>" must have an id below 4096 (the model\'s '
                "vocab_size), has 4096\n")
        done = winnow(*generate, "--quiet", "--prompt", "the <tool>")
        self.assert_error(done, FAILURE, "--prompt: " + said)
        (model / "chat_template.jinja").write_text("<tool>")
        done = winnow(*generate, "--quiet", "--chat", "the")
        self.assert_error(done, FAILURE, "--chat: " + said)
        tasks = self.folder / "tasks"
        tasks.write_text('{"task": "t", "length": 1, "prompt": "<tool> the", '
                         '"answers": ["hated"]}\n')
        self.assert_error(winnow("eval", model, tasks, "--quiet"), FAILURE,
                          f"{tasks}:1: field prompt: " + said)

    def test_broken_checkpoints(self):
        def broken(name: str, change) -> Path:
            model = self.copy_of_model()
            change(model / name)
            return model

        def truncate(path: Path):
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size - 100)

        def ask_for_selector(path: Path):
            fields = json.loads(path.read_text())
            fields["architectures"] = ["MiniCPMForCausalLM"]
            fields |= {"scale_emb": 1, "scale_depth": 6 ** 0.5,
                       "dim_model_base": 384, "sparse_config": {
                           "kernel_size": 32, "kernel_stride": 16,
                           "init_blocks": 1, "block_size": 64,
                           "window_size": 2048, "topk": 64,
                           "use_nope": True, "dense_len": 8192}}
            path.write_text(json.dumps(fields))

        for name, change, words in [
                ("model.safetensors", truncate,
                 ["model.safetensors: tensor ", "is cut off"]),
                ("model.safetensors", Path.unlink, ["safetensors"]),
                ("config.json", lambda p: p.write_text("{"), ["config.json"]),
                ("config.json", lambda p: p.write_text(p.read_text().replace(
                    '"hidden_size": 384', '"hidden_size": -1')),
                 ["config.json", "hidden_size", "-1"]),
                ("config.json", lambda p: p.write_text(p.read_text().replace(
                    "LlamaForCausalLM", "OtherForCausalLM")),
                 ["config.json", "OtherForCausalLM"]),
                ("config.json", ask_for_selector,
                 ["sparse_config", "use_nope", "--select dense"]),
                ("tokenizer.json", lambda p: p.write_text("[]"),
                 ["tokenizer.json"]),
                ("tokenizer.json", Path.unlink, ["tokenizer.json"])]:
            with self.subTest(name=name, words=words):
                model = broken(name, change)
                done = winnow("generate", model, "--prompt", "x")
                self.assert_error(done, FAILURE, *words)
                shutil.rmtree(model)

    def test_an_error_is_one_line_whatever_a_path_has(self):
        for arguments, status in [(["info", "/nowhere/a\nb\x1b[31mc"], FAILURE),
                                  (["info", MODEL, "--a\nb\x1b"],
                                   USAGE_ERROR)]:
            with self.subTest(arguments=arguments):
                done = winnow(*arguments)
                self.assert_error(done, status, "a\\nb\\u001b")
                self.assertTrue(done.stderr[:-1].isprintable(), done.stderr)

    def test_a_template_that_fails_is_the_checkpoints_fault(self):
        model = self.copy_of_model()
        template = model / "chat_template.jinja"
        for text, words in [
                ("{{ raise_exception('no roles') }}", ["no roles"]),
                ("{% if %}", ["chat_template.jinja"]),
                ("{{ messages[0].content.nothing() }}", ["nothing"])]:
            with self.subTest(text=text):
                template.write_text(text)
                done = winnow("generate", model, "--chat", "hello")
                self.assert_error(done, FAILURE, *words)

    def is_sanitized(self) -> bool:
        return re.search(rb"__[at]san_init", Path(WINNOW).read_bytes())

    def test_too_little_memory_is_told(self):
        """Address space, as `ulimit -v` gives it."""
        if self.is_sanitized():
            self.skipTest("a sanitizer takes terabytes of it")
        def limited(num_bytes: int, *arguments):
            return winnow(*arguments, preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_AS, (num_bytes, num_bytes)))

        prompt = self.folder / "prompt"
        prompt.touch()
        os.truncate(prompt, 900 << 20)  # Nothing on the disk.
        done = limited(600 << 20, "generate", MODEL, "--prompt-file", prompt,
                       "--threads", "1")
        self.assert_error(done, FAILURE, "memory does not suffice")
        done = limited(1 << 30, "generate", MODEL, "--prompt", "the",
                       "--threads", "1000")
        self.assert_error(done, FAILURE, "threads", "1000")
        # Whatever runs short first, at start or in a step.
        prompt.write_text("the " * 3000)
        for mebibytes in range(120, 152, 4):
            with self.subTest(mebibytes=mebibytes):
                done = limited(mebibytes << 20, "generate", MODEL,
                               "--prompt-file", prompt, "--threads", "2",
                               "--dtype", "float16", "--max-tokens", "2")
                if done.returncode != 0:
                    self.assertEqual(done.returncode, FAILURE, done.stderr)
                    self.assertRegex(done.stderr, r"\Awinnow: .*\n\Z")
        # The tokenizer's crates can only give up.
        prompt.write_text("the quick brown fox " * 1_000_000)
        done = limited(400 << 20, "generate", MODEL, "--prompt-file", prompt,
                       "--threads", "1")
        self.assert_error(done, FAILURE, "memory does not suffice for text")

    def test_output_that_is_lost_is_a_failure(self):
        generate = ["generate", MODEL, "--prompt", "the", "--max-tokens",
                    "2", "--quiet"]
        bench = ["bench", "step", MODEL, "--prompt", "8", "--generate", "1",
                 "--rounds", "1"]
        for arguments in [generate, [*generate, "--json"], ["info", MODEL],
                          ["select", "list"], bench, ["--help"]]:
            ways = ['"$0" "$@" >/dev/full', '"$0" "$@" >&-']
            # This writes at once, not when all is flushed at the end; its
            # library and a sanitizer's both want to be the first.
            if not self.is_sanitized():
                ways.append('stdbuf -o0 "$0" "$@" >/dev/full')
            for way in ways:
                with self.subTest(arguments=arguments, way=way):
                    done = subprocess.run(
                        ["sh", "-c", way, WINNOW, *arguments], text=True,
                        capture_output=True, timeout=60)
                    self.assert_error(done, FAILURE, "standard output")

    def test_generation_ends_soon_after_its_output_does(self):
        """Minutes of text that nobody is to have."""
        model = self.copy_of_model()
        (model / "generation_config.json").write_text("{}")
        (model / "config.json").write_text(re.sub(
            r'"eos_token_id": \d+', '"eos_token_id": 0',
            (model / "config.json").read_text()))
        generate = [WINNOW, "generate", model, "--prompt", "the",
                    "--max-tokens", "100000", "--batch-invariant"]
        result = self.folder / "result"
        for flags, num_read in [([], 1), (["--json", result], 1),
                                (["--prompt", "the"], 1), (["--json"], 0)]:
            with self.subTest(flags=flags):
                process = subprocess.Popen([*generate, *flags],
                                           stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
                self.assertEqual(len(process.stdout.read(num_read)), num_read)
                process.stdout.close()
                said = process.stderr.read().decode()
                self.assertEqual(process.wait(timeout=60), FAILURE, said)
                self.assertRegex(said, r"\Awinnow: standard output: .*\n\Z")
                process.stderr.close()
        with open("/dev/full", "w") as full:
            done = subprocess.run([*generate, "--json", result], stdout=full,
                                  stderr=subprocess.PIPE, text=True,
                                  timeout=60)
        self.assertEqual(done.returncode, FAILURE)
        self.assertEqual(done.stderr, "winnow: standard output: not all could "
                         "be written\n")
        self.assertEqual(list(self.folder.iterdir()), [model])

    def test_a_full_disk_is_told(self):
        done = winnow("generate", MODEL, "--prompt", "the", "--max-tokens",
                      "2", "--json", "/dev/full", "--quiet")
        self.assertEqual(done.returncode, FAILURE)
        self.assertIn("/dev/full", done.stderr)

    def test_a_write_that_fails_keeps_the_old_result(self):
        """A limit of file sizes cuts as a full disk does."""
        result = self.folder / "result"
        result.write_text("old\n")
        for arguments in [
                ["generate", MODEL, "--prompt", "the", "--max-tokens", "2",
                 "--quiet"],
                ["info", MODEL],
                ["bench", "step", MODEL, "--prompt", "8", "--generate", "1",
                 "--rounds", "1"]]:
            with self.subTest(command=arguments[0]):
                done = winnow(*arguments, "--json", result,
                              preexec_fn=lambda: resource.setrlimit(
                                  resource.RLIMIT_FSIZE, (100, 100)))
                self.assertEqual(done.returncode, FAILURE, done.stderr)
                self.assertIn(f"{result}: cannot write: File too large",
                              done.stderr)
                self.assertEqual(result.read_text(), "old\n")
                self.assertEqual(list(self.folder.iterdir()), [result])

    def test_a_result_that_cannot_be_written_is_told_before_the_work(self):
        """Before the model, which is not there, is looked at."""
        for command in (["generate", "/nowhere", "--prompt", "x"],
                        ["info", "/nowhere"], ["bench", "step", "/nowhere"],
                        ["bench", "verbs", "/nowhere"]):
            with self.subTest(command=command):
                done = winnow(*command, "--json", "/nowhere/out")
                self.assert_error(done, FAILURE, "/nowhere/out: cannot")


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
