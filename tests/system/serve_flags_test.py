#!/usr/bin/env python3
"""The flags of `winnow serve` for who comes from vLLM.

    serve_flags_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import re
import subprocess
import sys
import unittest

from serve_process import MODEL, ROOT, Server

WINNOW = ""


def serve(*flags: str) -> subprocess.CompletedProcess:
    return subprocess.run([WINNOW, "serve", MODEL, *flags], text=True,
                          capture_output=True, timeout=60)


class FlagsTest(unittest.TestCase):

    def test_what_people_paste_is_taken_and_says_what_changes_nothing(self):
        server = Server(
            WINNOW, "--trust-remote-code", "-tp", "1", "--tool-call-parser",
            "hermes", "--enable-prefix-caching", "--kv-cache-memory-bytes",
            "16M", "--kv-offloading-size", "0.01", "--max-num-batched-tokens",
            "1k", "--max-model-len", "2k", VLLM_API_KEY="secret")
        said = "".join(server.lines)
        for name in ("--trust-remote-code", "--tensor-parallel-size",
                     "--tool-call-parser"):
            self.assertIn(f"winnow: {name} has no effect: ", said)
        self.assertEqual(said.count("has no effect"), 3)
        self.assertEqual(server.ask("GET", "/v1/models")[0], 401)
        headers = {"Authorization": "Bearer secret"}
        models = server.ask("GET", "/v1/models", headers=headers)[2]
        self.assertIn('"max_model_len":2000', models)
        metrics = server.ask("GET", "/metrics", headers=headers)[2]
        # 16 MiB and 0.01 GiB of pages of 192 KiB.
        self.assertEqual(re.findall(r'num_[cg]pu_blocks="(\d+)"', metrics),
                         ["85", "54"])
        self.assertEqual(server.end(), 0)

    def test_a_model_has_several_names(self):
        server = Server(WINNOW, "--served-model-name", "one", "two", "--seed",
                        "1", "--reasoning-parser", "qwen3")
        self.assertIn("--reasoning-parser qwen3 is taken as auto",
                      "".join(server.lines))
        for name in ("one", "two"):
            answer = server.complete(model=name, prompt="the man", max_tokens=1)
            self.assertEqual(answer["model"], name)
        status, _, text = server.ask("POST", "/v1/completions", {
            "model": "three", "prompt": "the man"})
        self.assertEqual(status, 404)
        self.assertIn('must be \\"one\\" or \\"two\\", is', text)
        self.assertEqual(server.end(), 0)

    def test_prefixes_are_kept_unless_they_are_not_wanted(self):
        server = Server(WINNOW, "--no-enable-prefix-caching")
        for _ in range(2):
            usage = server.complete(prompt=list(range(5, 105)),
                                    max_tokens=1)["usage"]
            self.assertEqual(usage["prompt_tokens_details"],
                             {"cached_tokens": 0})
        self.assertEqual(server.end(), 0)

    def test_what_cannot_be_is_refused_with_its_reason(self):
        for flags, words in [
                (["-tp", "2"], "--tensor-parallel-size must be 1, is \"2\": a "
                               "model runs on one device"),
                (["--kv-cache-dtype", "fp8"], "KV is kept as --dtype says"),
                (["--kv-offloading-size", "2GiB"], "a number of GiB"),
                (["--max-model-length", "4K"],
                 "--max-model-length is no flag of winnow serve, did you mean "
                 "--max-model-len, "),
                (["--speculative-config", "{}"], "did you mean"),
                (["--load-format", "gguf"], "checkpoints are safetensors"),
                (["--api-key", ""], "--api-key must not be empty"),
                (["--served-model-name", ""], "must not be empty")]:
            with self.subTest(flags=flags):
                done = serve(*flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(words, done.stderr)

    def test_help_keeps_the_contract(self):
        page = (ROOT / "docs/contract.md").read_text()
        section = page[page.index("Of vLLM's flags that are spelled"):]
        section = section[:section.index("\n\n")]
        contract = set(re.findall(r"`(--[a-z-]+)", section))
        shown = serve("--help").stdout
        listed, _, footer = shown.partition("vLLM's flags that are taken and "
                                            "change nothing: ")
        idle = set(re.findall(r"--[a-z-]+", footer))
        self.assertGreater(len(idle), 5)
        self.assertEqual(idle & set(re.findall(r"(?m)^  (--\S+)", listed)),
                         set())
        for name in contract - idle - {"--device-kv", "--host-kv", "--help"}:
            self.assertRegex(listed, rf"(?m)^  {name}\b")
        self.assertEqual(idle - contract, set())


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
