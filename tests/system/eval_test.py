#!/usr/bin/env python3
"""`winnow eval` as its users meet it, on winnow-lab and 1K-token documents.

    eval_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import array
import json
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "lab/models/winnow-lab"
USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130
WINNOW = ""


def evaluate(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([WINNOW, "eval", *map(str, arguments)], text=True,
                          capture_output=True, timeout=240, **options)


def rows_of(text: str) -> list[dict]:
    """The rows without their seconds, which no two runs share."""
    rows = json.loads(text)["rows"]
    return [{key: value for key, value in row.items() if key != "seconds"}
            for row in rows]


def write_tiny_model(folder: Path, vocab_size: int) -> None:
    """A golden case's shape, with a sliding window and random weights."""
    case = ROOT / "tests/golden/models/mistral"
    config = json.loads((case / "config.json").read_text())
    config["vocab_size"] = vocab_size
    (folder / "config.json").write_text(json.dumps(config))
    source, header, data = random.Random(3), {}, b""
    shapes = json.loads((case / "tensors.json").read_text())["shapes"]
    for name, shape in shapes.items():
        if name in ("lm_head.weight", "model.embed_tokens.weight"):
            shape = [vocab_size, shape[1]]
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        low, high = (0.8, 1.2) if len(shape) == 1 else (-0.4, 0.4)
        values = array.array("f", (source.uniform(low, high)
                                   for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + 4 * count]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + data)


class EvalTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def tasks(self, name: str, count: int, seed: int = 11, length: str = "1K",
              questions: int = 1) -> list[dict]:
        path = self.folder / "made"
        subprocess.run(
            [ROOT / "lab/make_tasks", "--task", name, "--length", length,
             "--count", str(count), "--questions", str(questions), "--seed",
             str(seed), "--out", path], check=True)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def file(self, name: str, tasks: list[dict | str]) -> Path:
        path = self.folder / name
        path.write_text("".join(
            (task if isinstance(task, str) else json.dumps(task)) + "\n"
            for task in tasks))
        return path

    def rows(self, *arguments) -> list[dict]:
        done = evaluate(MODEL, *arguments, "--json", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return rows_of(done.stdout)

    def assert_error(self, done, status: int, *words: str):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("winnow: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    # What it does.

    def test_table_and_file(self):
        niah = self.file("niah.jsonl", self.tasks("niah", 4))
        vt = self.file("vt.jsonl", self.tasks("vt", 2))
        out = self.folder / "out.json"
        done = evaluate(MODEL, niah, vt, "--json", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^.*niah\.jsonl +niah +1024 +4 +"
                         r"1\.000 \(0\.510-1\.000\) +1\.000 +1\.000 +1\.000 ")
        self.assertRegex(done.stderr, r"^6 answers to 6 texts in .* s; ")
        rows = json.loads(out.read_text())["rows"]
        self.assertEqual([row["file"] for row in rows], [str(niah), str(vt)])
        self.assertEqual(rows[0]["token_accuracy"], 1.0)
        self.assertEqual(rows[0]["tokens_read_share"], 1.0)
        self.assertGreater(rows[0]["seconds"], 0)
        self.assertFalse(Path(f"{out}.progress.jsonl").exists())

    def test_questions_about_one_text_as_about_their_own(self):
        # The text is read once for all of them; the answers must not notice.
        tasks = self.tasks("multikey", 2)
        first, second = tasks
        shared = [first | {"depth": 0.5, "turn": 1, "conversation": "x"},
                  first | {"question": second["question"],
                           "answers": second["answers"], "turn": 2},
                  first]
        together = self.file("together.jsonl", shared)
        alone = [self.file(f"alone{i}.jsonl", [task])
                 for i, task in enumerate(shared)]
        [row] = self.rows(together, "--batch-invariant")
        each = self.rows(*alone, "--batch-invariant")
        self.assertEqual(row["n"], 3)
        for figure in ("exact", "token_accuracy", "free_token_accuracy"):
            self.assertAlmostEqual(row[figure],
                                   sum(one[figure] for one in each) / 3)
        # The second question is about another text.
        self.assertAlmostEqual(row["exact"], 2 / 3)
        self.assertLess(row["token_accuracy"], 1)

    def test_prompts_answers_rules_and_limits(self):
        task = self.tasks("niah", 1)[0]
        prompt = {"task": "prompt", "length": 1024, "answers": task["answers"],
                  "prompt": f"{task['context']} {task['question']}"}
        words = " ".join(task["answers"]).split()
        other = dict(prompt, task="other", answers=words[::-1],
                     unordered=True)
        file = self.file("f.jsonl", [prompt, other, "not JSON"])
        rows = self.rows(file, "--limit", "2")
        self.assertEqual([row["exact"] for row in rows], [1, 1])
        self.assertEqual([row["token_accuracy"] for row in rows][0], 1)
        half = dict(prompt, answers=words[:2])
        file = self.file("g.jsonl", [half])
        self.assertEqual(self.rows(file)[0]["exact"], 1)
        self.assertEqual(self.rows(file, "--match", "exact")[0]["exact"], 0)
        pattern = self.file("h.jsonl", [dict(prompt, answers=[r"^(\d ?)+$"])])
        [row] = self.rows(pattern, "--match", "regex")
        self.assertEqual((row["exact"], row["token_accuracy"]), (1, None))
        self.assertEqual(
            self.rows(file, "--max-tokens", "1")[0]["exact"], 0)

    def test_any_checkpoint_against_what_it_generates(self):
        tokenizer = ROOT / "tests/golden/tokenizers/wordlevel/tokenizer.json"
        words = list(json.loads(tokenizer.read_text())["model"]["vocab"])
        model = self.folder / "tiny"
        model.mkdir()
        shutil.copy(tokenizer, model / "tokenizer.json")
        write_tiny_model(model, len(words))
        source, tasks, share = random.Random(5), [], []
        while len(tasks) < 3:
            prompt = " ".join(source.choices(words[3:], k=30 + len(tasks)))
            done = subprocess.run(
                [WINNOW, "generate", model, "--prompt", prompt, "--max-tokens",
                 "6", "--temperature", "0", "--batch-invariant", "--json",
                 "--quiet"], text=True, capture_output=True, check=True)
            line = json.loads(done.stdout)
            if line["finish_reason"] != "length" or min(line["token_ids"]) < 3:
                continue  # Special tokens have no text to be compared.
            # The second is told another last word: one of six tokens wrong.
            answers = line["text"].split()
            if len(tasks) == 1:
                answers[5] = words[3 + (answers[5] == words[3])]
            tasks.append({"task": "t", "length": 30, "prompt": prompt,
                          "answers": answers})
            # Five draws are fed, and each reads the window of 24 tokens.
            first = line["prompt_tokens"] + 1
            share += [24 / context for context in range(first, first + 5)]
        flags = ["--match", "exact", "--max-tokens", "6", "--batch-invariant"]
        done = evaluate(model, self.file("f.jsonl", tasks), *flags, "--json",
                        "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        [row] = rows_of(done.stdout)
        self.assertEqual(row["n"], 3)
        self.assertAlmostEqual(row["exact"], 2 / 3)
        self.assertAlmostEqual(row["token_accuracy"], 17 / 18)
        self.assertAlmostEqual(row["free_token_accuracy"], 17 / 18)
        self.assertAlmostEqual(row["tokens_read_share"],
                               sum(share) / len(share))

    def test_every_selection_is_evaluated(self):
        file = self.file("f.jsonl", self.tasks("niah", 2))
        rows = self.rows(file, "--select", "dense", "--select", "auto")
        self.assertEqual([row["select"] for row in rows], ["dense", "auto"])
        self.assertEqual(self.rows(file, "--select", "dense,auto"), rows)

    # Where the device has no room for it.

    SELECTS = ["--select", "quest:budget=256", "--select",
               "infllm-v2:dense_len=1024,budget=512,sink=64,recent=256"]

    def table(self, *arguments) -> tuple[list[dict], dict, str]:
        """Rows, what KV cost, and what was said on standard error."""
        done = evaluate(MODEL, *arguments, *self.SELECTS, "--batch-invariant",
                        "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = rows_of(done.stdout)
        for row in rows:
            # Summed by layers, in float32, where a prompt is read by layers.
            row["tokens_read_share"] = round(row["tokens_read_share"], 6)
        return rows, json.loads(done.stdout)["kv"], done.stderr

    def test_texts_larger_than_the_device_give_the_same_table(self):
        tasks = self.tasks("multikey", 2, length="2K", questions=2)
        file = self.file("f.jsonl", tasks)
        rows, kv, said = self.table(file)
        self.assertEqual([row["n"] for row in rows], [4, 4])
        self.assertGreater(rows[0]["exact"], 0)
        self.assertEqual((kv["cached_tokens"], kv["picks"]), (0, 0))
        self.assertNotIn("near", said)
        # Of the 6 MiB of each text.
        near = ["--device-kv", "5632KiB"]
        refused = evaluate(MODEL, file, *near, *self.SELECTS)
        self.assert_error(refused, FAILURE, "f.jsonl:1", "device-kv holds")
        far = [*near, "--host-kv", "16MiB", "--cache-budget", "1K"]
        same, kv, said = self.table(file, *far)
        self.assertEqual(same, rows)
        self.assertEqual(kv["picks"], kv["hits"] + kv["misses"])
        for figure in ("hits", "misses", "fetched_bytes"):
            self.assertGreater(kv[figure], 0, figure)
        # Each text is read once a selection, not once a question.
        num_read = kv["prompt_tokens"] - kv["cached_tokens"]
        self.assertLess(num_read, 6 * 2048)
        self.assertGreater(num_read, 4 * 1900)
        for words in ("prompt tokens cached", "picks near", "fetched"):
            self.assertIn(words, said)
        self.assert_error(evaluate(MODEL, file, *far, *self.SELECTS,
                                   "--select", "dense"),
                          FAILURE, "f.jsonl:1", "device-kv holds 5.4 MiB")

        disk = [*far, "--kv-disk", self.folder / "kv", "--kv-disk-size",
                "32MiB"]
        for is_there in (False, True):
            same, kv, _ = self.table(file, *disk)
            self.assertEqual(same, rows)
            self.assertGreater(kv["misses"], 0)
            num_read = kv["prompt_tokens"] - kv["cached_tokens"]
            self.assertEqual(num_read < 4 * 1900, is_there, kv)

    def test_a_text_without_room_is_left_out_where_asked(self):
        tasks = self.tasks("multikey", 1, length="2K", questions=2)
        file = self.file("f.jsonl", [*tasks, *self.tasks("niah", 1)])
        for more in ([], ["--host-kv", "1MiB"]):
            done = evaluate(MODEL, file, "--device-kv", "4MiB", "--skip-bad",
                            "--json", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("f.jsonl:1", done.stderr)
            self.assertIn("skipped 2 bad lines; questions left: 1",
                          done.stderr)
            self.assertEqual(json.loads(done.stdout)["skipped_lines"], 2)
        self.assert_error(evaluate(MODEL, file, "--device-kv", "100KiB",
                                   "--skip-bad"),
                          FAILURE, "device-kv holds")

    def test_a_cache_budget_holds_where_the_device_has_room(self):
        file = self.file("f.jsonl", self.tasks("multikey", 2, length="2K"))
        rows, kv, _ = self.table(file)
        self.assertEqual(kv["picks"], 0)
        same, kv, _ = self.table(file, "--host-kv", "64MiB", "--cache-budget",
                                 "2x")
        self.assertEqual(same, rows)
        self.assertGreater(kv["hits"], 0)
        self.assertGreater(kv["misses"], 0)

    def test_what_tiers_cannot_be(self):
        file = self.file("f.jsonl", self.tasks("multikey", 1, length="2K"))
        quest = ["--select", "quest:budget=256"]
        small = [*quest, "--device-kv", "5632KiB"]
        for status, arguments, words in [
                (USAGE_ERROR, [*quest, "--cache-budget", "2x"],
                 ["--cache-budget", "--host-kv"]),
                (USAGE_ERROR, ["--host-kv", "8MiB", "--cache-budget", "2x"],
                 ["cache-budget", "selector", "none"]),
                (USAGE_ERROR, ["--kv-disk-size", "1GiB"],
                 ["--kv-disk-size", "--kv-disk"]),
                (USAGE_ERROR, ["--kv-disk", self.folder / "kv",
                               "--kv-disk-size", "much"],
                 ["--kv-disk-size", "much"]),
                (FAILURE, ["--kv-disk", self.folder / "missing/kv"],
                 ["cannot make the folder", "missing/kv"]),
                (FAILURE, [*small, "--host-kv", "4MiB", "--cache-budget",
                           "1K"],
                 ["f.jsonl:1", "host-kv holds 3.9 MiB"]),
                (FAILURE, [*quest, "--device-kv", "3MiB", "--host-kv", "8MiB"],
                 ["f.jsonl:1", "device-kv holds 3.0 MiB"])]:
            with self.subTest(arguments=arguments):
                self.assert_error(evaluate(MODEL, file, *arguments), status,
                                  *words)

    def test_bad_lines_are_skipped_and_counted_where_asked(self):
        good = self.tasks("niah", 2)
        file = self.file("f.jsonl", [good[0], "{", good[1],
                                     dict(good[0], answers=[])])
        done = evaluate(MODEL, file, "--skip-bad", "--json", "--quiet")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(rows_of(done.stdout)[0]["n"], 2)
        self.assertIn(f"{file}:2: not valid JSON", done.stderr)
        self.assertIn(f"{file}:4: field answers", done.stderr)
        self.assertIn("skipped 2 bad lines", done.stderr)
        self.assertEqual(json.loads(done.stdout)["skipped_lines"], 2)
        done = evaluate(MODEL, file, "--skip-bad", "--max-model-len", "3")
        self.assertEqual(done.returncode, FAILURE)
        self.assertRegex(done.stderr, "no line is left to answer: all 4 were "
                         "skipped, .*:1: field context: must fit the context")

    def test_answers_with_little_room_are_told(self):
        file = self.file("f.jsonl", [{"task": "t", "length": 2, "prompt": "the",
                                      "answers": ["hated"]}] * 2)
        done = evaluate(MODEL, file, "--max-model-len", "3", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            done.stderr, f"winnow: {file}:1: field prompt: 2 tokens leave 2 "
            "for the answer in the context of 3 (max-model-len), not 34; so 2 "
            "lines\n")

    # Going on after an interruption.

    def interrupted(self, arguments: list, journal: Path) -> str:
        """Runs until some answers are there, then presses Ctrl-C."""
        process = subprocess.Popen(
            [WINNOW, "eval", *map(str, arguments)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + 120
        while time.monotonic() < end and process.poll() is None:
            if journal.exists() and journal.read_text().count("\n") > 3:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, said)
        self.assertIn(str(journal), said)
        self.assertIn("auto", shown)
        return said

    def test_an_interrupted_run_goes_on_to_the_same_table(self):
        tasks = self.tasks("multikey", 8) + self.tasks("vt", 4)
        tasks.append(dict(tasks[0], answers=["9 9"], task="wrong"))
        file = self.file("f.jsonl", tasks)
        flags = ["--batch-invariant", "--max-num-batched-tokens", "64",
                 "--max-num-seqs", "2"]
        whole = self.rows(file, *flags)
        out = self.folder / "out.json"
        journal = Path(f"{out}.progress.jsonl")
        command = [MODEL, file, *flags, "--json", out]
        self.interrupted(command, journal)
        self.assertFalse(out.exists())
        kept = journal.read_text()
        # Cut off in the middle of a line, as by a lost machine.
        journal.write_text(kept[:-9])

        other = evaluate(*command, "--match", "exact")
        self.assert_error(other, FAILURE, str(journal),
                          "match must be exact, is contains")
        self.file("f.jsonl", tasks[:-1])
        self.assert_error(evaluate(*command), FAILURE, "file_0_digest")
        self.file("f.jsonl", tasks)

        done = evaluate(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"has \d+ of 13 answers")
        self.assertEqual(rows_of(out.read_text()), whole)
        self.assertFalse(journal.exists())

    def test_answers_are_kept_where_the_user_says(self):
        file = self.file("f.jsonl", self.tasks("niah", 12))
        journal = self.folder / "kept"
        command = [MODEL, file, "--resume", journal,
                   "--max-num-batched-tokens", "64", "--max-num-seqs", "1"]
        self.interrupted(command, journal)
        done = evaluate(*command, "--quiet")
        self.assertEqual(done.returncode, 0)
        self.assertIn(" 12 ", done.stdout)
        self.assertFalse(journal.exists())

    def test_answers_outlive_a_table_that_is_lost(self):
        file = self.file("f.jsonl", self.tasks("niah", 3))
        whole = self.rows(file)
        journal = self.folder / "kept"
        command = [MODEL, file, "--resume", journal]
        for flags in ([], ["--json"]):
            with self.subTest(flags=flags), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [WINNOW, "eval", *map(str, command), *flags, "--quiet"],
                    stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, FAILURE)
                self.assertEqual(done.stderr, "winnow: standard output: not "
                                 "all could be written\n")
                self.assertEqual(journal.read_text().count("\n"), 4)
        done = evaluate(*command, "--json")
        self.assertIn("has 3 of 3 answers", done.stderr)
        self.assertEqual(rows_of(done.stdout), whole)
        self.assertFalse(journal.exists())

    def test_it_ends_soon_where_nobody_is_to_have_its_answers(self):
        file = self.file("f.jsonl", self.tasks("niah", 2))
        journal = self.folder / "kept"
        command = [MODEL, file, "--resume", journal, "--max-num-seqs", "1",
                   "--max-num-batched-tokens", "64"]
        process = subprocess.Popen([WINNOW, "eval", *map(str, command)],
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=60), FAILURE, said)
        self.assertRegex(said, r"\Awinnow: standard output: .*\n\Z")
        self.assertEqual(journal.read_text().count("\n"), 1)  # No answer.

        # A disk with room for the beginning of one.
        limit = journal.stat().st_size + 20
        done = evaluate(*command, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, limit)))
        self.assert_error(done, FAILURE,
                          f"{journal}: cannot write: File too large")
        done = evaluate(*command, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(journal.exists())

    # What it refuses.

    def test_bad_lines(self):
        good = self.tasks("niah", 1)[0]

        def without(field: str) -> dict:
            return {key: value for key, value in good.items() if key != field}

        for line, words in [
                ('{"task": "x"', ["not valid JSON", "byte 13"]),
                ("7", ["JSON object", "7"]),
                (without("task"), ["field task", "missing"]),
                (without("length"), ["field length", "missing"]),
                (without("answers"), ["field answers", "at least 1"]),
                (without("question"), ["field question", "missing"]),
                (without("context"), ["field context", "missing"]),
                (dict(good, length="1K"), ["field length", '"1K"']),
                (dict(good, answers="3"), ["field answers", '"3"']),
                (dict(good, answers=[3]), ["field answers[0]", "is 3"]),
                (dict(good, answers=[" "]), ["field answers", "blank"]),
                (dict(good, unordered="yes"), ["field unordered", "yes"]),
                (dict(good, prompt="p"), ["field context", "prompt"]),
                (dict(good, context="the " * 3000),
                 ["field context", "2048", "max-model-len"])]:
            with self.subTest(words=words):
                file = self.file("f.jsonl", [good, line])
                done = evaluate(MODEL, file, "--max-model-len", "2K")
                self.assert_error(done, FAILURE, f"{file}:2: ", *words)
        for pattern, words in [("(" * 60000, ["at most 4096 ", "60000"]),
                               ("(" * 4000, ["is none"])]:
            file = self.file("deep.jsonl", [good | {"answers": [pattern]}])
            self.assert_error(evaluate(MODEL, file, "--match", "regex"),
                              FAILURE, f"{file}:1: field answers: ", *words)
        file = self.folder / "latin.jsonl"
        file.write_bytes(b'{"task": "caf\xe9"}\n')
        self.assert_error(evaluate(MODEL, file), FAILURE,
                          f"{file}:1: must be UTF-8, byte 14", "0xe9")

    def test_what_cannot_be_done(self):
        file = self.file("f.jsonl", self.tasks("niah", 1))
        empty = self.file("empty.jsonl", [])
        notes = self.file("notes", ["my notes"])
        for status, arguments, words in [
                (USAGE_ERROR, [MODEL], ["FILE"]),
                (USAGE_ERROR, [MODEL, file, "--match", "glob"],
                 ["match", "glob"]),
                (USAGE_ERROR, ["/nowhere", file, "--select", "dense,qest"],
                 ["--select", "qest", "quest"]),
                (FAILURE, [MODEL, file, "--max-model-len", "3"],
                 ["f.jsonl:1: field context: must fit the context of 3 tokens "
                  "(max-model-len)"]),
                (USAGE_ERROR, [MODEL, file, "--limit", "0"], ["limit", "0"]),
                (USAGE_ERROR, [MODEL, file, "--max-tokens", "-1"],
                 ["max-tokens", "-1"]),
                (USAGE_ERROR, [MODEL, file, "--select", "auto,auto"],
                 ["select", "auto"]),
                (USAGE_ERROR, [MODEL, file, "--max-num-seqs", "0"],
                 ["max-num-seqs", "0"]),
                (USAGE_ERROR, [MODEL, file, "--json", file],
                 ["json", "task file"]),
                (USAGE_ERROR, [MODEL, file, "--select", "dense,qest"],
                 ["--select", "qest", "quest"]),
                (FAILURE, [MODEL, self.folder / "none"],
                 ["none", "No such file"]),
                (FAILURE, [MODEL, self.folder], ["folder"]),
                (FAILURE, [MODEL, empty], ["empty.jsonl", "at least 1 line"]),
                (FAILURE, ["/nowhere", file], ["/nowhere"]),
                (FAILURE, [MODEL, file, "--device-kv", "1MiB"],
                 ["f.jsonl:1", "device-kv", "MiB"]),
                (FAILURE, [MODEL, file, "--json", "/nowhere/out"],
                 ["/nowhere/out"]),
                (FAILURE, [MODEL, file, "--resume", notes],
                 ["notes", "another file"]),
                (USAGE_ERROR, [MODEL, file, "--json", self.folder / "same",
                         "--resume", f"{self.folder}/./same"],
                 ["--resume", "another file than --json", "same"])]:
            with self.subTest(arguments=arguments):
                self.assert_error(evaluate(*arguments), status, *words)
        self.assertEqual(notes.read_text(), "my notes\n")

    def test_help_keeps_the_contract(self):
        self.assertIn("or a selector with its parameters",
                      re.sub(r"\s+", " ", evaluate("--help").stdout))
        page = (ROOT / "docs/contract.md").read_text()
        section = page[page.index("**Flags**, the same"):]
        section = section[:section.index("\n\n")]
        contract = set(re.findall(r"`(--[a-z-]+)", section))
        self.assertGreater(len(contract), 10)
        offered = set(re.findall(r"(--[a-z-]+)", evaluate("--help").stdout))
        own = {"--match", "--max-tokens", "--limit", "--skip-bad", "--resume",
               "--help"}
        self.assertEqual(offered - own, contract)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
