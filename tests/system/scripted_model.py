"""Checkpoints that say what a test wants: a Llama without attention whose next
token follows from the last one alone.

A script's name is a token; whoever ends a prompt with it is answered by the
script's pieces, a token each, and the end. So no piece may occur twice in one
model.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"
SPECIAL = {UNKNOWN, BEGIN, END}
SHARPNESS = 10.0  # logits: sqrt(hidden) * SHARPNESS, and zeros
HEADS, KV_HEADS, LAYERS = 4, 2, 2


def _hidden_for(num_tokens: int) -> int:
    """One dimension a token, in heads of a multiple of 16."""
    return math.ceil(num_tokens / 64) * 64


def _tokenizer(tokens: list[str], special: set[str], decoder: dict) -> dict:
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": token in special}
             for i, token in enumerate(tokens)]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": added, "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": decoder,
            "model": {"type": "WordLevel", "unk_token": UNKNOWN,
                      "vocab": {token: i for i, token in enumerate(tokens)}}}


def _write_weights(path: Path, follows: dict[int, int], hidden: int) -> None:
    """float32, zeros but for embedding, head and norms."""
    def matrix(rows: int, columns: int, ones: dict[tuple[int, int], float]):
        values = bytearray(4 * rows * columns)
        for (row, column), value in ones.items():
            struct.pack_into("<f", values, 4 * (row * columns + column), value)
        return [rows, columns], bytes(values)

    norm = [hidden], struct.pack("<f", 1.0) * hidden
    kv = hidden * KV_HEADS // HEADS
    tensors = {
        "model.embed_tokens.weight": matrix(
            hidden, hidden, {(i, i): 1.0 for i in range(hidden)}),
        "lm_head.weight": matrix(
            hidden, hidden, {(after, token): SHARPNESS
                             for token, after in follows.items()}),
        "model.norm.weight": norm}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        for part, rows in [("self_attn.q_proj", hidden),
                           ("self_attn.k_proj", kv), ("self_attn.v_proj", kv),
                           ("self_attn.o_proj", hidden),
                           ("mlp.gate_proj", hidden), ("mlp.up_proj", hidden),
                           ("mlp.down_proj", hidden)]:
            tensors[f"{name}{part}.weight"] = matrix(rows, hidden, {})
        for part in ["input_layernorm", "post_attention_layernorm"]:
            tensors[f"{name}{part}.weight"] = norm
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def write_scripted_model(folder: Path, scripts: dict[str, list[str]],
                         template: str, special: set[str] = frozenset(),
                         decoder: dict | None = None, **files: dict) -> None:
    """Into a folder that is there. `special`: pieces that are special tokens.
    `decoder`: the tokenizer's, else tokens are joined. `files`: what more
    generation_config.json and its like hold, by their names less ".json"."""
    tokens = [UNKNOWN, BEGIN, END]
    follows = {}
    for name, pieces in scripts.items():
        chain = [len(tokens) + i for i in range(len(pieces) + 1)] + [2]
        follows.update(zip(chain, chain[1:]))
        tokens += [name, *pieces]
    assert len(set(tokens)) == len(tokens), "a piece occurs twice"
    hidden = _hidden_for(len(tokens))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
              "vocab_size": hidden, "hidden_size": hidden,
              "intermediate_size": hidden, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
              "hidden_act": "silu", "max_position_embeddings": 4096,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "attention_bias": False, "mlp_bias": False,
              "tie_word_embeddings": False, "bos_token_id": 1,
              "eos_token_id": 2, "torch_dtype": "float32"}
    for name, value in [("config.json", config),
                        ("tokenizer.json",
                         _tokenizer(tokens, SPECIAL | set(special),
                                    decoder or {"type": "Fuse"})),
                        ("tokenizer_config.json",
                         {"bos_token": BEGIN, "eos_token": END,
                          "unk_token": UNKNOWN})]:
        more = files.pop(name.removesuffix(".json"), {})
        (folder / name).write_text(json.dumps({**value, **more}))
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    (folder / "chat_template.jinja").write_text(template)
    _write_weights(folder / "model.safetensors", follows, hidden)
