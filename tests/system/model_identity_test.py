#!/usr/bin/env python3
"""What the program keeps of a model, `--kv-disk` and `eval --resume`, is used
for that very model alone, and for that model whatever lies beside it.

    model_identity_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

from program_case import FAILURE, ProgramCase, winnow

from lab.tasks.record import make_record  # noqa: E402

PROMPT = "the quick brown fox " * 20


class ModelIdentityTest(ProgramCase):

    def setUp(self):
        super().setUp()
        self.model = self.copy_of_model()
        self.weights = self.model / "model.safetensors"
        self.kept = self.folder / "kv"
        self.cache = self.folder / "cache"
        # Long enough ago that nobody takes them for being written.
        self.tick()

    def tick(self):
        os.utime(self.weights)
        subprocess.run(["sleep", "0.2"], check=True)

    def generate(self, **environment):
        return winnow(
            "generate", self.model, "--prompt", PROMPT, "--max-tokens", "1",
            "--max-model-len", "1K", "--kv-disk", self.kept, "--kv-disk-size",
            "32MiB", "--restore", "copy", "--json", "--quiet",
            env={**os.environ, "XDG_CACHE_HOME": str(self.cache), **environment})

    def cached(self, **environment) -> bool:
        """Whether it began with what an earlier one had left."""
        done = self.generate(**environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["kv"]["fetched_bytes"] > 0

    def assert_refused(self, *words: str):
        self.assert_error(self.generate(), FAILURE, str(self.kept), *words,
                          "give another, or empty this one")

    def offset_of(self, tensor: str) -> int:
        raw = self.weights.read_bytes()
        length = struct.unpack("<Q", raw[:8])[0]
        begin, end = json.loads(raw[8:8 + length])[tensor]["data_offsets"]
        return 8 + length + (begin + end) // 4 * 2

    def flip(self, at: int):
        """In place, with the time of the last write set back."""
        before = self.weights.stat()
        with self.weights.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))
        os.utime(self.weights, ns=(before.st_atime_ns, before.st_mtime_ns))

    def set_field(self, file: str, **fields):
        path = self.model / file
        was = path.read_text()
        path.write_text(json.dumps({**json.loads(was), **fields}))
        return lambda: path.write_text(was)

    # The folder of KV.

    def test_one_bit_of_the_weights_is_another_model(self):
        self.assertFalse(self.cached())
        self.assertTrue(self.cached())
        for tensor in ("model.layers.0.self_attn.v_proj.weight",
                       "model.layers.1.input_layernorm.weight",
                       "model.layers.3.mlp.down_proj.weight",
                       "model.embed_tokens.weight"):
            with self.subTest(tensor):
                at = self.offset_of(tensor)
                self.flip(at)
                self.assert_refused(
                    "model.safetensors: hash of all bytes: the folder's KV was "
                    "made with ")
                self.flip(at)
                self.assertTrue(self.cached())

    def test_an_older_files_stamp_hides_nothing(self):
        self.assertFalse(self.cached())
        before = self.weights.stat()
        at = self.offset_of("model.norm.weight")
        raw = bytearray(self.weights.read_bytes())
        raw[at] ^= 1
        # Another file under its name, of its size and time.
        other = self.folder / "other"
        other.write_bytes(raw)
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        os.replace(other, self.weights)
        self.assert_refused("model.safetensors")

    def test_what_layers_are_computed_by_is_named(self):
        self.assertFalse(self.cached())
        for field, value, words in [
                ("rope_theta", 3000000.0,
                 ["rope_theta", "made with \"4000000\"",
                  "this model has \"3000000\""]),
                ("rms_norm_eps", 1e-3, ["rms_norm_eps", "0.001"]),
                ("rope_scaling", {"rope_type": "linear", "factor": 2.0},
                 ["rope_scaling.rope_type", "default", "linear",
                  "rope_scaling.factor"]),
                ("hidden_act", "gelu", ["hidden_act", "silu", "gelu"])]:
            with self.subTest(field):
                undo = self.set_field("config.json", **{field: value})
                self.assert_refused("config.json: ", *words)
                undo()
        self.assertTrue(self.cached())

    def test_what_lies_beside_the_weights_changes_nothing(self):
        self.assertFalse(self.cached())
        (self.model / "notes.json").write_text("{}")
        (self.model / "adapter.safetensors").write_bytes(b"none")
        (self.model / "chat_template.jinja").write_text("{{ messages }}")
        for file, fields in [
                ("generation_config.json", {"temperature": 0.6}),
                ("tokenizer_config.json", {"chat_template": "{{ messages }}",
                                           "model_max_length": 7}),
                ("config.json", {"transformers_version": "5", "eos_token_id": 3,
                                 "max_position_embeddings": 4096})]:
            with self.subTest(file):
                undo = self.set_field(file, **fields)
                self.assertTrue(self.cached())
                undo()
        # Nor does where the model lies.
        moved = self.folder / "moved"
        self.model.rename(moved)
        self.model = moved
        self.assertTrue(self.cached())

    def test_a_folder_of_an_older_version_says_so(self):
        self.kept.mkdir()
        (self.kept / "header").write_text(
            "version 1\nfolder 0123456789abcdef0123456789abcdef\n"
            "piece_bytes 98304\nkey model 0123, bfloat16\n")
        self.assert_error(
            self.generate(), FAILURE, f"{self.kept}/header", "is 1",
            "does not say all that its KV was made with",
            "give another folder, or empty this one")

    # What is remembered of files.

    def memory(self) -> Path:
        return self.cache / "winnow/weights.jsonl"

    def test_hashes_are_remembered_for_their_owner_alone(self):
        self.assertFalse(self.cached())
        self.assertEqual(stat.S_IMODE(self.memory().stat().st_mode), 0o600)
        entry = json.loads(self.memory().read_text())
        file = self.weights.stat()
        self.assertEqual(
            [entry[name] for name in ("path", "bytes", "inode", "device",
                                      "modified_ns", "changed_ns")],
            [str(self.weights.resolve()), file.st_size, file.st_ino,
             file.st_dev, file.st_mtime_ns, file.st_ctime_ns])
        written = self.memory().stat().st_mtime_ns
        self.assertTrue(self.cached())
        self.assertEqual(self.memory().stat().st_mtime_ns, written)

    def test_a_memory_that_is_damaged_or_cannot_be_written_costs_time_alone(self):
        self.assertFalse(self.cached())
        whole = self.memory().read_bytes()
        for content in (b"", b"notes", whole[:-9], whole.replace(b"a", b"b"),
                        b"\0" * 4096):
            self.memory().write_bytes(content)
            self.assertTrue(self.cached())
            self.assertEqual(self.memory().read_bytes(), whole)
        for environment in ({"XDG_CACHE_HOME": "/proc/nowhere"},
                            {"XDG_CACHE_HOME": "/dev/null"},
                            {"XDG_CACHE_HOME": "", "HOME": ""}):
            self.assertTrue(self.cached(**environment))

    def test_long_hashing_shows_progress(self):
        # A tensor that nothing needs makes the file longer.
        raw = self.weights.read_bytes()
        length = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8:8 + length])
        data, more = raw[8 + length:], 3 << 29
        header["rotary_emb.inv_freq"] = {
            "dtype": "U8", "shape": [more],
            "data_offsets": [len(data), len(data) + more]}
        text = json.dumps(header).encode()
        self.weights.write_bytes(struct.pack("<Q", len(text)) + text + data)
        os.truncate(self.weights, 8 + len(text) + len(data) + more)  # A hole.
        terminal, side = pty.openpty()
        process = subprocess.Popen(
            [self.program, "generate", self.model, "--prompt", "The",
             "--max-tokens", "1", "--max-model-len", "64", "--kv-disk",
             self.kept, "--kv-disk-size", "8MiB"],
            stdout=subprocess.DEVNULL, stderr=side,
            env={**os.environ, "XDG_CACHE_HOME": str(self.cache)})
        os.close(side)
        said = b""
        try:
            while piece := os.read(terminal, 4096):
                said += piece
        except OSError:  # The other side has closed.
            pass
        os.close(terminal)
        self.assertEqual(process.wait(60), 0, said)
        self.assertIn(b"hashing the weights", said)

    # Answers of an evaluation.

    def test_an_evaluation_goes_on_with_its_own_model_alone(self):
        tasks = self.folder / "tasks"
        record = make_record("niah", 256, 5, 0)
        tasks.write_text(json.dumps(
            {"task": "niah", "length": 256, "prompt": record.prompt,
             "answers": record.answers}) + "\n")
        journal = self.folder / "journal"

        def evaluate():
            # No table can be written, so that answers stay where they are.
            with open("/dev/full", "w") as full:
                return subprocess.run(
                    [self.program, "eval", self.model, tasks, "--resume",
                     journal, "--max-model-len", "1K", "--quiet"],
                    stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)

        self.assertIn("not all could be written", evaluate().stderr)
        self.assertIn("not all could be written", evaluate().stderr)

        def assert_refused(*words):
            said = evaluate().stderr
            for word in (f"{journal}: is of another evaluation: ", *words,
                         "remove it to begin anew"):
                self.assertIn(word, said)

        at = self.offset_of("model.norm.weight")
        self.flip(at)
        assert_refused("model.safetensors: hash of all bytes must be ")
        self.flip(at)
        for file, field, value in [
                ("config.json", "rope_theta", 3000000),
                ("generation_config.json", "eos_token_id", 3),
                ("tokenizer_config.json", "add_bos_token", True)]:
            undo = self.set_field(file, **{field: value})
            assert_refused(f"{file}: {field} must be ", str(value).lower())
            undo()
        for file, field, value in [
                ("generation_config.json", "temperature", 0.5),
                ("tokenizer_config.json", "chat_template", "{{ messages }}")]:
            undo = self.set_field(file, **{field: value})
            self.assertIn("not all could be written", evaluate().stderr)
            undo()

    def test_an_evaluation_ends_where_its_weights_change(self):
        tasks = self.folder / "tasks"
        lines = []
        for seed in range(40):
            record = make_record("niah", 256, 5, seed)
            lines.append(json.dumps(
                {"task": "niah", "length": 256, "prompt": record.prompt,
                 "answers": record.answers}) + "\n")
        tasks.write_text("".join(lines))
        journal = self.folder / "journal"
        command = [self.program, "eval", self.model, tasks, "--resume", journal,
                   "--max-model-len", "1K", "--max-num-seqs", "1", "--quiet"]

        def answers() -> list:
            if not journal.exists():
                return []
            return journal.read_text().splitlines()[1:]

        process = subprocess.Popen(command, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        while not answers() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        self.flip(self.offset_of("model.norm.weight"))
        before = answers()
        process.send_signal(signal.SIGCONT)
        table, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, FAILURE, said)
        self.assertEqual(table, "")
        self.assertEqual(said.count("\n"), 1, said)
        for word in (str(self.weights), "has changed", "start again"):
            self.assertIn(word, said)
        self.assertLess(len(before), len(lines))
        # An answer that was on its way to the file may have been right.
        self.assertLessEqual(len(answers()), len(before) + 1)
        self.flip(self.offset_of("model.norm.weight"))
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    ProgramCase.program = sys.argv.pop(1)
    unittest.main()
