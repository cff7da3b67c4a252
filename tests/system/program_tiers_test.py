#!/usr/bin/env python3
"""What the program keeps on the host and on a disk, and finds there again.

    program_tiers_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import os
import subprocess
import time

from program_case import (
    FAILURE, MODEL, USAGE_ERROR, ProgramCase, run_tests, winnow,
)

from lab.tasks.record import make_record


class ProgramTiersTest(ProgramCase):

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

    def answers_of(self, prompts, *arguments):
        """What generate says of each, with the same bits whoever runs."""
        asked = []
        for prompt in prompts:
            asked += ["--prompt", prompt]
        done = winnow("generate", MODEL, *asked, "--json", "--quiet",
                      "--batch-invariant", "--logprobs", "2", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def assert_same_bits(self, answers, expected):
        for answer, whole in zip(answers, expected, strict=True):
            self.assertEqual(answer["token_ids"], whole["token_ids"])
            self.assertEqual(answer["logprobs"], whole["logprobs"])

    def test_a_request_that_generates_makes_room_for_one_that_waits(self):
        prompts = [make_record("niah", 1024, 6, index).prompt
                   for index in range(2)]
        ask = ["--max-tokens", "48", "--select",
               "mean:budget=64,block=16,sink=0,recent=16"]
        whole = self.answers_of(prompts, *ask)
        # Whole they would be 8 MiB.
        kept = self.answers_of(prompts, *ask, "--device-kv", "5MiB",
                               "--host-kv", "16MiB")
        self.assert_same_bits(kept, whole)
        first, second = [answer["kv"] for answer in kept]
        self.assertGreater(first["misses"], 0)
        self.assertGreater(first["hits"], 0)
        self.assertLess(first["device_bytes"], whole[0]["kv"]["device_bytes"])
        self.assertGreater(first["host_bytes"], 0)
        self.assertEqual(second["picks"], 0)

    def test_a_prompt_larger_than_the_device(self):
        prompts = [make_record("niah", 2048, 6, 0).prompt]
        budget = "mean:budget=64,block=16,sink=0,recent=16,dense_layers="
        for layers in ("none", "0-1"):
            ask = ["--max-tokens", "32", "--select", budget + layers]
            whole = self.answers_of(prompts, *ask)
            size = ["--device-kv", "5MiB", "--host-kv", "16MiB"]
            self.assertGreater(whole[0]["kv"]["device_bytes"], 5 << 20)
            near = self.answers_of(prompts, *ask, *size)
            self.assert_same_bits(near, whole)
            kv = near[0]["kv"]
            self.assertLess(kv["device_bytes"], 5 << 20)
            self.assertGreater(kv["host_bytes"], 5 << 20)
            self.assertGreater(kv["misses"], 0)
        self.assert_error(
            winnow("generate", MODEL, "--prompt", prompts[0], "--select",
                   "dense", "--max-tokens", "32", *size), FAILURE,
            "device-kv holds 5.0 MiB")

    def test_a_prompt_without_room_costs_others_nothing(self):
        prompts = ["day " * 50, make_record("niah", 2048, 6, 0).prompt,
                   "night " * 50]
        whole = self.answers_of([prompts[0], prompts[2]], "--max-tokens", "4",
                                "--select", "dense")
        arguments = []
        for i, text in enumerate(prompts):
            file = self.folder / f"prompt{i}"
            file.write_text(text)
            arguments += ["--prompt-file", file]
        done = winnow("generate", MODEL, *arguments, "--max-tokens", "4",
                      "--select", "dense", "--quiet", "--json", "--logprobs",
                      "2", "--device-kv", "4MiB", "--batch-invariant")
        self.assertEqual(done.returncode, FAILURE, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("prompt1, prompt 2 of 3:", done.stderr)
        self.assertIn("device-kv holds 3.9 MiB", done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer["finish_reason"] for answer in answers],
                         ["length", "error", "length"])
        self.assert_same_bits([answers[0], answers[2]], whole)

    def test_an_empty_size_or_folder_is_refused(self):
        """As an unset variable leaves it: it would quietly keep nothing."""
        for command in (["generate", "/nowhere", "--prompt", "x"],
                        ["eval", "/nowhere", "/nowhere/f"],
                        ["serve", "/nowhere"]):
            for flag in ("--kv-disk", "--host-kv", "--device-kv",
                         "--kv-disk-size", "--cache-budget",
                         "--max-model-len"):
                folder = [] if flag == "--kv-disk" else [
                    "--kv-disk", self.folder]
                for before in ([], folder):
                    with self.subTest(command=command[0], flag=flag):
                        self.assert_error(winnow(*command, *before, flag, ""),
                                          USAGE_ERROR,
                                          flag + " must not be empty")
        disk = ["bench", "disk", "--kv-disk"]
        self.assert_error(winnow(*disk, ""), USAGE_ERROR,
                          "--kv-disk must not be empty")
        self.assert_error(winnow(*disk, self.folder, "--kv-disk-size", ""),
                          USAGE_ERROR, "--kv-disk-size must not be empty")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_sizes_out_of_range_are_usage_errors(self):
        disk = self.folder / "disk"
        ask = ["generate", MODEL, "--prompt", "x", "--quiet"]
        for flags, words in [
                (["--host-kv", "1B"],
                 ["host-kv must hold at least one page of", "is 1 B"]),
                (["--device-kv", "10KiB"],
                 ["device-kv must hold at least one page of", "is 10.0 KiB"]),
                (["--device-kv", "0"], ["--device-kv must hold", 'is "0"']),
                (["--device-kv", "0B"], ["--device-kv must hold", 'is "0B"']),
                (["--kv-disk", disk, "--kv-disk-size", "1KiB"],
                 ["--kv-disk-size must be at least", "is 1.0 KiB"]),
                (["--kv-disk", disk, "--kv-disk-size", "4000000TiB"],
                 ["--kv-disk-size must be at least", "fewer than 2^32",
                  "is 4000000 TiB"]),
                (["--kv-disk", disk, "--kv-disk-size", "0"],
                 ["--kv-disk-size must hold", 'is "0"'])]:
            with self.subTest(flags=flags):
                self.assert_error(winnow(*ask, *flags), USAGE_ERROR, *words)
        self.assertFalse(disk.exists())
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        beyond = 2 * (memory >> 30) + 1
        self.assert_error(
            winnow(*ask, "--device-kv", f"{beyond}GiB", "--host-kv", "1MiB"),
            FAILURE, "device-kv must be at most", f"is {beyond}")
        for none in ("0", "0B"):
            done = winnow(*ask, "--host-kv", none, "--max-tokens", "2")
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_request_gives_way_and_comes_back(self):
        # More than was expected of each, and more than the device holds.
        prompts = [word * 100 for word in ("day ", "night ", "7 ")]
        ask = ["--max-tokens", "700", "--select", "dense"]
        whole = self.answers_of(prompts, *ask)
        self.assertGreater(sum(answer["kv"]["device_bytes"]
                               for answer in whole), 2 * (3 << 20))
        crowded = self.answers_of(prompts, *ask, "--device-kv", "3MiB",
                                  "--host-kv", "16MiB")
        self.assert_same_bits(crowded, whole)
        fetched = [answer["kv"]["fetched_bytes"] for answer in crowded]
        self.assertEqual(fetched[0], 0)
        self.assertGreater(max(fetched), 0)

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

    def test_prompts_do_not_depend_on_the_number_of_threads(self):
        fetched = []
        for threads in (1, 2, 3):
            done = self.generate_from_disk("--batch-invariant", "--threads",
                                           str(threads))
            self.assertEqual(done.returncode, 0, done.stderr)
            fetched.append(json.loads(done.stdout)["kv"]["fetched_bytes"])
        self.assertEqual(fetched[0], 0)
        self.assertGreater(fetched[1], 0)
        self.assertEqual(fetched[2], fetched[1])

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
            [self.program, "generate", MODEL, "--prompt-file", prompt,
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
                          FAILURE, "--dtype: the folder's KV was made with "
                          '"bfloat16", this model has "float32"',
                          "of one model")
        again = self.generate_from_disk()
        self.assertGreater(json.loads(again.stdout)["kv"]["fetched_bytes"], 0)
        self.assertEqual((self.folder / "kv").stat().st_mode & 0o777, 0o700)

    def test_a_smaller_folder_says_what_it_gives_up(self):
        kv = self.folder / "kv"
        prompt = ["generate", MODEL, "--prompt", "day " * 100, "--max-tokens",
                  "1", "--kv-disk", kv]
        for size, line in [("8MiB", ""), ("4MiB", "--kv-disk-size is 4.0 MiB"),
                           ("4MiB", "")]:
            done = winnow(*prompt, "--kv-disk-size", size)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(line, done.stderr)
            self.assertEqual("given up" in done.stderr, line != "")

    def test_what_lies_there_already_stays(self):
        kv = self.folder / "kv"
        kv.mkdir()
        (kv / "blocks").write_text("precious")
        self.assert_error(
            winnow("generate", MODEL, "--prompt", "x", "--kv-disk", kv),
            FAILURE, "has blocks of 8 B and no header")
        self.assertEqual((kv / "blocks").read_text(), "precious")

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


if __name__ == "__main__":
    run_tests()
