"""The texts of a Hugging Face folder, tokenizer included."""

from __future__ import annotations

import json

from lab.tasks.words import BEGIN, END, PAD, SPECIALS, UNKNOWN, WORDS
from lab.train.shape import Shape


def model_config(shape: Shape) -> dict:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": shape.max_positions,
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rope_theta,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "torch_dtype": "bfloat16",
    }
    if shape.qk_norm:
        config.pop("mlp_bias")
        config |= {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "use_sliding_window": False,
            "sliding_window": None,
            "max_window_layers": shape.layers,
        }
    return config


def generation_config() -> dict:
    return {
        "do_sample": False,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
    }


def tokenizer() -> dict:
    """Words split on white space; <s> in front; decoded with single spaces."""
    begin = {"SpecialToken": {"id": WORDS[BEGIN], "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token,
                "content": word,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token, word in enumerate(SPECIALS)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, text],
            "pair": [begin, text, second],
            "special_tokens": {
                WORDS[BEGIN]: {
                    "id": WORDS[BEGIN],
                    "ids": [BEGIN],
                    "tokens": [WORDS[BEGIN]],
                }
            },
        },
        # No word begins with "##": this decoder only puts spaces between.
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": {
            "type": "WordLevel",
            "vocab": {word: token for token, word in enumerate(WORDS)},
            "unk_token": WORDS[UNKNOWN],
        },
    }


def tokenizer_config(shape: Shape) -> dict:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": WORDS[PAD],
        "bos_token": WORDS[BEGIN],
        "eos_token": WORDS[END],
        "unk_token": WORDS[UNKNOWN],
        "clean_up_tokenization_spaces": False,
        "model_max_length": shape.max_positions,
    }


def folder_texts(shape: Shape) -> dict[str, str]:
    """The contents of each file but the weights, by its name."""
    contents = {
        "config.json": model_config(shape),
        "generation_config.json": generation_config(),
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": tokenizer_config(shape),
    }
    return {
        name: json.dumps(content, indent=1) + "\n"
        for name, content in contents.items()
    }
