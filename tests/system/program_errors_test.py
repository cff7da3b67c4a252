#!/usr/bin/env python3
"""Bad input: exit statuses, and one line that names what is wrong.

    program_errors_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from program_case import (
    FAILURE, LONGEST, MODEL, USAGE_ERROR, ProgramCase, run_tests, winnow,
)


class ProgramErrorsTest(ProgramCase):

    def test_usage_errors(self):
        prompt = ["--prompt", "x"]
        for arguments, words in [
                ([], ["command must be generate, "]),
                (["nonsense"], ["command must be generate, ", "nonsense"]),
                (["bench", "stop"], ["command must be step, ops, prefill, "
                                     "throughput, decode, tiers, disk, link, "
                                     "tables or serve", "stop"]),
                (["generate"], ["MODEL"]),
                (["generate", MODEL], ["--prompt"]),
                (["generate", MODEL, *prompt, "--max-token", "1"],
                 ["--max-token is no flag of winnow generate, did you mean "
                  "--max-tokens, "]),
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
                (["bench", "ops"], ["MODEL", "--shape"]),
                (["bench", "ops", MODEL, "--layouts"],
                 ["--layouts", "cuda", "auto"]),
                (["bench", "ops", MODEL, "--batch-invariant"],
                 ["--batch-invariant is no flag of winnow bench ops"]),
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
                (["bench", "ops", MODEL, "--gpu-memory-utilization", "0.9"],
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
                done = subprocess.run([self.program, *arguments], text=True,
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
                done = subprocess.run([self.program, *arguments], text=True,
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
        (model / "chat_template.jinja").write_text(
            "<tool>{{ messages[0].content }}")
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

    def test_a_template_beside_the_main_one_may_be_broken(self):
        model = self.copy_of_model()
        (model / "chat_template.jinja").write_text("{{ messages[0].content }}")
        others = model / "additional_chat_templates"
        others.mkdir()
        (others / "bad.jinja").write_text("{% trans %}a{% endtrans %}")
        done = winnow("generate", model, "--chat", "hello", "--max-tokens", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        (others / "default.jinja").write_text("{{ raise_exception('own') }}")
        done = winnow("generate", model, "--chat", "hello")
        self.assert_error(done, FAILURE, "default.jinja", "own")


if __name__ == "__main__":
    run_tests()
