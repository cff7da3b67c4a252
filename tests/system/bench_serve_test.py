#!/usr/bin/env python3
"""`winnow bench serve` against `winnow serve`, and against servers that fail.

    bench_serve_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

from serve_process import ROOT, Server, wait_until

sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

WINNOW = ""
USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130
KEY = "sk-of-the-test"
NUM_TASKS = 12


def bench(*arguments, key: str | None = KEY) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"}
    if key is not None:
        environment["OPENAI_API_KEY"] = key
    return subprocess.run([WINNOW, "bench", "serve", *map(str, arguments)],
                          text=True, capture_output=True, timeout=240,
                          env=environment)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class BenchServeTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        template = cls.folder / "plain.jinja"
        template.write_text("{{ bos_token }}{% for message in messages %}"
                            "{{ message['content'] }}{% endfor %}")
        cls.server = Server(WINNOW, "--api-key", KEY, "--log-level", "none",
                            "--chat-template", str(template))
        cls.addClassCleanup(cls.server.end)
        cls.tasks = cls.folder / "tasks.jsonl"
        cls.records = [make_record("niah", 1024, 5, index)
                       for index in range(NUM_TASKS)]
        cls.write_tasks(cls.tasks, cls.records)

    @staticmethod
    def write_tasks(path: Path, records, wrong: int = 0):
        lines = [{"task": record.task, "length": record.length,
                  "prompt": record.prompt,
                  "answers": ["none of it"] if index < wrong else [
                      record.answer]}
                 for index, record in enumerate(records)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def ask(self, *arguments, **options) -> subprocess.CompletedProcess:
        return bench("--port", self.server.port, *arguments, **options)

    def measure(self, *arguments) -> dict:
        done = self.ask(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def assert_error(self, done, status: int, *words: str):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    # What it measures.

    def test_all_answers_of_tasks_are_right(self):
        for arguments in [
                ["--request-rate", "20", "--burstiness", "0.5"],
                ["--max-concurrency", "2"],
                ["--backend", "openai-chat"],
                ["--no-stream", "--request-rate", "20"],
                ["--base-url", f"http://127.0.0.1:{self.server.port}/v1"]]:
            with self.subTest(arguments=arguments):
                told = self.measure("--dataset-path", self.tasks, *arguments)
                self.assertEqual(told["completed"], NUM_TASKS)
                self.assertEqual(told["answers_checked"], NUM_TASKS)
                self.assertEqual(told["answers_right"], NUM_TASKS)
                self.assertEqual(told["errors"], [])
                self.assertEqual(told["model_id"], "winnow-lab")
                self.assertEqual(told["answers_without_usage"], 0)
                self.assertGreater(told["total_input_tokens"], 900 * NUM_TASKS)
                self.assertGreater(told["mean_e2el_ms"], 0)
                self.assertEqual(told["mean_ttft_ms"] is None,
                                 "--no-stream" in arguments)

    def test_wrong_answers_are_counted_and_shown(self):
        tasks = self.folder / "wrong.jsonl"
        self.write_tasks(tasks, self.records[:3], wrong=1)
        done = self.ask("--dataset-path", tasks)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("answers     2 of 3 right; request 1: ", done.stdout)

    def test_random_prompts_are_as_long_as_asked(self):
        told = self.measure("--num-prompts", 8, "--random-input-len", 400,
                            "--random-output-len", 6, "--ignore-eos",
                            "--goodput", "ttft:60000", "tpot:60000",
                            "--request-rate", 50)
        self.assertEqual(told["total_output_tokens"], 8 * 6)
        self.assertLess(abs(told["total_input_tokens"] / 8 - 400), 40)
        self.assertEqual(told["request_goodput"], told["request_throughput"])

    def test_a_trace_is_replayed_at_its_times(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text("".join(json.dumps(
            {"timestamp": 1000 + 400 * i, "input_length": 600,
             "output_length": 2 + i, "hash_ids": [7, 70 + i]}) + "\n"
            for i in range(4)))
        told = self.measure("--dataset-name", "trace", "--dataset-path", trace,
                            "--trace-speed", 2, "--ignore-eos",
                            "--max-concurrency", 1, "--save-detailed")
        requests = told["requests"]
        self.assertEqual([r["due_s"] for r in requests], [0, 0.2, 0.4, 0.6])
        self.assertEqual([r["output_tokens"] for r in requests], [2, 3, 4, 5])
        for request in requests:
            self.assertGreaterEqual(request["sent_s"], request["due_s"])
            self.assertLess(abs(request["input_tokens"] - 600), 60)
        # The blocks that are the same are cached.
        self.assertGreater(told["cached_input_tokens"], 3 * 400)

    def test_the_same_seed_is_the_same_load(self):
        def load(seed):
            told = self.measure("--num-prompts", 6, "--random-input-len", 50,
                                "--random-output-len", 2, "--request-rate",
                                "40", "--seed", seed, "--save-detailed")
            return [(r["due_s"], r["text"]) for r in told["requests"]]

        self.assertEqual(load(3), load(3))
        self.assertNotEqual(load(3), load(4))

    def test_files_and_table(self):
        figures, picture = self.folder / "f.json", self.folder / "p.svg"
        done = self.ask("--dataset-path", self.tasks, "--num-prompts", 3,
                        "--json", figures, "--svg", picture)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ["winnow-lab at 127.0.0.1:", "3 of 3 requests in ",
                      "answers     3 of 3 right\n", "first token (ttft)",
                      "p99"]:
            self.assertIn(words, done.stdout)
        self.assertEqual(json.loads(figures.read_text())["completed"], 3)
        root = xml.etree.ElementTree.fromstring(picture.read_text())
        self.assertTrue(root.tag.endswith("svg"))
        self.assertGreater(len(root), 20)

    # How it ends.

    def test_interrupted_it_tells_what_there_is(self):
        figures = self.folder / "interrupted.json"
        process = subprocess.Popen(
            [WINNOW, "bench", "serve", "--port", str(self.server.port),
             "--dataset-path", str(self.tasks), "--request-rate", "0.5",
             "--api-key", KEY, "--json", str(figures)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        name = 'vllm:request_success_total'
        before = self.server_requests()
        wait_until(lambda: self.server_requests() > before, name)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, error)
        self.assertIn(f" of {NUM_TASKS} requests in ", out)
        told = json.loads(figures.read_text())
        self.assertLess(told["sent"], NUM_TASKS)
        self.assertGreaterEqual(told["completed"], 1)
        self.assertEqual(told["failed"], 0)

    def server_requests(self) -> int:
        _, _, text = self.server.ask(
            "GET", "/metrics", headers={"Authorization": f"Bearer {KEY}"})
        return sum(int(float(line.rsplit(" ", 1)[1]))
                   for line in text.splitlines()
                   if line.startswith("vllm:request_success_total"))

    def test_nobody_there(self):
        self.assert_error(bench("--port", free_port()), FAILURE,
                          "no server at 127.0.0.1:", "refused")

    def test_a_server_that_refuses(self):
        self.assert_error(self.ask(key=None), FAILURE, "status 401",
                          "--api-key")
        done = self.ask("--model", "another", "--dataset-path", self.tasks,
                        "--num-prompts", 2)
        self.assertEqual(done.returncode, FAILURE)
        self.assertIn("failed      2 x status 404; request 1: ", done.stdout)

    def test_a_server_that_never_answers(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            threading.Thread(target=self.swallow, args=[listener],
                             daemon=True).start()
            done = bench("--port", listener.getsockname()[1], "--model", "m",
                         "--dataset-path", self.tasks, "--num-prompts", 2,
                         "--timeout", 1)
        self.assertEqual(done.returncode, FAILURE, done.stderr)
        self.assertIn("failed      2 x timed out; request 1: ", done.stdout)

    @staticmethod
    def swallow(listener: socket.socket):
        clients = []
        while True:
            try:
                clients.append(listener.accept())
            except OSError:
                return

    def test_what_cannot_be_asked_for(self):
        for arguments, words in [
                (["--goodput", "itl:5"], ["--goodput must be ttft:MS"]),
                (["--goodput", "ttft:5", "--no-stream"], ["--no-stream"]),
                (["--request-rate", "0"], ["--request-rate must be inf or"]),
                (["--base-url", "https://host"], ["--base-url", "https"]),
                (["--dataset-name", "tasks"], ["--dataset-path"]),
                (["--dataset-name", "trace", "--dataset-path", "x",
                  "--request-rate", "1"], ["--request-rate", "--trace-speed"]),
                (["--metric-percentiles", "101"], ["--metric-percentiles"]),
                (["--extra-body", "[]"], ["--extra-body"]),
                (["--header", "x"], ["--header must be NAME=VALUE"]),
                (["--save-detailed"], ["--json"]),
                (["--unknown"], ["--unknown"])]:
            with self.subTest(arguments=arguments):
                self.assert_error(self.ask(*arguments), USAGE_ERROR, *words)

    def test_files_that_are_wrong(self):
        bad = self.folder / "bad.jsonl"
        bad.write_text("{}\n")
        self.assert_error(self.ask("--dataset-path", bad), FAILURE,
                          f"{bad}:1: field task")
        self.assert_error(
            self.ask("--dataset-name", "trace", "--dataset-path", bad),
            FAILURE, f"{bad}:1: field timestamp")
        self.assert_error(self.ask("--dataset-path", self.folder / "none"),
                          FAILURE, "none")
        self.assert_error(self.ask("--svg", self.folder / "no/where.svg"),
                          FAILURE, "where.svg")


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
