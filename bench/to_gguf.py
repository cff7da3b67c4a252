"""Writes a Llama checkpoint's bfloat16 weights as a GGUF file, bit for bit.

    .tools/llama-cpp/bin/python bench/to_gguf.py FOLDER FILE.gguf

Only what bench/make_checkpoint.py makes: one safetensors file, no rope
scaling. There is no vocabulary in the file; it is asked in token ids.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import gguf
import numpy as np

LAYER_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
OTHER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm",
               "lm_head": "output"}


def gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in OTHER_NAMES:
        return OTHER_NAMES[stem] + ".weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[rest]}.weight"


def read_tensors(path: Path):
    """Yields (name, bits): uint16 arrays in the tensor's shape."""
    with path.open("rb") as file:
        header_bytes = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(header_bytes))
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            raise SystemExit(f"{path}: {name} is {entry['dtype']}, not BF16")
        yield name, np.memmap(path, dtype="<u2", mode="r",
                              offset=8 + header_bytes +
                              entry["data_offsets"][0],
                              shape=tuple(entry["shape"]))


def pair_neighbours(bits: np.ndarray, num_heads: int) -> np.ndarray:
    """llama.cpp turns neighbouring rows of a head together, Hugging Face rows
    half a head apart."""
    rows, columns = bits.shape
    half = rows // num_heads // 2
    return np.ascontiguousarray(
        bits.reshape(num_heads, 2, half, columns).swapaxes(1, 2)
    ).reshape(rows, columns)


def write_config(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("no_vocab")


def main() -> int:
    if len(sys.argv) != 3:
        print(f"usage: {sys.argv[0]} FOLDER FILE.gguf", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text())
    heads = {"q_proj": config["num_attention_heads"],
             "k_proj": config["num_key_value_heads"]}
    writer = gguf.GGUFWriter(sys.argv[2], "llama")
    write_config(writer, config)
    for name, bits in read_tensors(folder / "model.safetensors"):
        if bits.ndim == 1:
            norm = (bits.astype(np.uint32) << 16).view(np.float32)
            writer.add_tensor(gguf_name(name), norm)
            continue
        num_heads = heads.get(name.split(".")[-2])
        if num_heads is not None:
            bits = pair_neighbours(bits, num_heads)
        writer.add_tensor(gguf_name(name), bits.view(np.uint8),
                          raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
