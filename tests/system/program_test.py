#!/usr/bin/env python3
"""The program as its users meet it: answers, help, interruptions.

    program_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

from program_case import (
    INTERRUPTED, MODEL, ROOT, USAGE_ERROR, ProgramCase, run_tests, winnow,
)

from lab.tasks.record import make_record


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


class ProgramTest(ProgramCase):

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
            [self.program, "generate", MODEL, "--prompt-file", prompt, "--json",
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
                    [self.program, *arguments, "--json", result], text=True,
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
                        ["bench", "step"], ["bench", "ops"],
                        ["bench", "prefill"], ["bench", "throughput"],
                        ["bench", "decode"],
                        ["bench", "tiers"], ["bench", "disk"],
                        ["bench", "link"], ["bench", "tables"]):
            done = winnow(*command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Usage", done.stdout)
        self.assertIn("Exit status: 0 done; 2 the command line",
                      winnow("--help").stdout)

    def test_help_keeps_the_contract(self):
        page = (ROOT / "docs/contract.md").read_text()
        section = page[page.index("**Flags**, the same"):]
        section = section[:section.index("\n\n")]
        contract = set(re.findall(r"`(--[a-z-]+)", section))
        self.assertGreater(len(contract), 10)
        shown = winnow("generate", "--help").stdout
        offered = set(re.findall(r"(--[a-z-]+)", shown))
        own = {"--prompt", "--prompt-file", "--chat", "--max-tokens",
               "--temperature", "--top-p", "--top-k", "--min-p",
               "--repetition-penalty", "--stop", "--logprobs", "--help"}
        self.assertEqual(offered - own, contract)


if __name__ == "__main__":
    run_tests()
