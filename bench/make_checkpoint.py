#!/usr/bin/env python3
"""Writes a checkpoint of random bfloat16 weights in a known model's shape.

    bench/make_checkpoint.py llama-3.2-1b build/bench/llama-3.2-1b

For timing: the weights mean nothing, the sizes and the file format are real.
Its tokenizer.json has a word a token, "t17" for token 17; that of the shape
"vocabulary-128k" is a byte-level BPE instead. Needs only Python; a GiB takes
about a second.
"""

from __future__ import annotations

import array
import json
import random
import struct
import sys
from pathlib import Path

import make_tokenizer

# hidden, intermediate, layers, query heads, KV heads, head_dim, vocabulary,
# tied embeddings: as the published config.json files have them.
SHAPES = {
    "llama-3.2-1b": (2048, 8192, 16, 32, 8, 64, 128256, True),
    "llama-3.1-8b": (4096, 14336, 32, 32, 8, 128, 128256, False),
    "winnow-lab": (384, 1024, 6, 8, 2, 64, 4096, True),
    # Next to no weights: what starting with a large vocabulary costs.
    "vocabulary-128k": (64, 128, 1, 2, 1, 32, 128256, True),
}
# One block of values, written again and again: making new ones for every
# weight would take minutes and change nothing. A prime, so that no two rows
# of a matrix, and no two logits, are the same.
BLOCK_WEIGHTS = 1048583


def bfloat16_block(num_weights: int, low: float, high: float) -> bytes:
    source = random.Random(0)
    bits = array.array("H")
    for _ in range(num_weights):
        word = struct.unpack("<I", struct.pack(
            "<f", source.uniform(low, high)))[0]
        bits.append(word >> 16)
    return bits.tobytes()


def tensors(shape: tuple) -> list[tuple[str, tuple[int, ...]]]:
    hidden, ffn, layers, q_heads, kv_heads, head_dim, vocab, tied = shape
    named = [("model.embed_tokens", (vocab, hidden))]
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        q, kv = q_heads * head_dim, kv_heads * head_dim
        named += [
            (prefix + "self_attn.q_proj", (q, hidden)),
            (prefix + "self_attn.k_proj", (kv, hidden)),
            (prefix + "self_attn.v_proj", (kv, hidden)),
            (prefix + "self_attn.o_proj", (hidden, q)),
            (prefix + "mlp.gate_proj", (ffn, hidden)),
            (prefix + "mlp.up_proj", (ffn, hidden)),
            (prefix + "mlp.down_proj", (hidden, ffn)),
            (prefix + "input_layernorm", (hidden,)),
            (prefix + "post_attention_layernorm", (hidden,)),
        ]
    named.append(("model.norm", (hidden,)))
    if not tied:
        named.append(("lm_head", (vocab, hidden)))
    return [(name + ".weight", dims) for name, dims in named]


def config(shape: tuple) -> dict:
    hidden, ffn, layers, q_heads, kv_heads, head_dim, vocab, tied = shape
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": hidden, "intermediate_size": ffn,
        "num_hidden_layers": layers, "num_attention_heads": q_heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim,
        "vocab_size": vocab, "tie_word_embeddings": tied,
        "max_position_embeddings": 131072, "rope_theta": 500000.0,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "bos_token_id": 1,
        "eos_token_id": 2, "torch_dtype": "bfloat16",
    }


def write_weights(path: Path, named: list) -> None:
    header, offset = {}, 0
    for name, dims in named:
        num_bytes = 2
        for dim in dims:
            num_bytes *= dim
        header[name] = {"dtype": "BF16", "shape": list(dims),
                        "data_offsets": [offset, offset + num_bytes]}
        offset += num_bytes
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    block = bfloat16_block(BLOCK_WEIGHTS, -0.05, 0.05)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        at = 0
        for name, dims in named:
            if len(dims) == 1:  # a norm's, near one
                file.write(bfloat16_block(dims[0], 0.9, 1.1))
                continue
            left = 2 * dims[0] * dims[1]
            while left > 0:
                piece = block[at:at + left]
                file.write(piece)
                left -= len(piece)
                at = (at + len(piece)) % len(block)


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        print(f"usage: {sys.argv[0]} {'|'.join(SHAPES)} FOLDER",
              file=sys.stderr)
        return 2
    shape, folder = SHAPES[sys.argv[1]], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder / "model.safetensors", tensors(shape))
    write_tokenizer = (make_tokenizer.write_byte_level
                       if sys.argv[1] == "vocabulary-128k"
                       else make_tokenizer.write_word_level)
    write_tokenizer(folder / "tokenizer.json", shape[6])
    (folder / "config.json").write_text(json.dumps(config(shape), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
