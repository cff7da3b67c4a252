"""The architecture cases: config.json as a checkpoint of the family has it."""

import dataclasses
from typing import Any

Config = dict[str, Any]

# The sizes that all cases share unless a case says otherwise.
_SIZES: Config = {
    "hidden_act": "silu",
    "hidden_size": 64,
    "initializer_range": 0.02,
    "intermediate_size": 96,
    "max_position_embeddings": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "use_cache": True,
    "vocab_size": 160,
}
# What transformers 4.x and 5.x write beside the architecture.
_OLD: Config = {"torch_dtype": "float32", "transformers_version": "4.46.3"}
_V5: Config = {"dtype": "float32", "transformers_version": "5.17.0"}


@dataclasses.dataclass(frozen=True)
class Case:
    """One tiny model: its folder's name, its config.json, what it pins."""

    name: str
    config: Config
    pins: str
    # Prompt plus generated tokens of the request whose prompt is golden; only
    # the rope types that look at the length of a request depend on it.
    planned_total_tokens: int = 80


def _llama(**changes: Any) -> Config:
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "mlp_bias": False,
        "model_type": "llama",
        "pretraining_tp": 1,
        "tie_word_embeddings": False,
        **_SIZES,
        **changes,
    }


def _qwen2(**changes: Any) -> Config:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "model_type": "qwen2",
        **_SIZES,
        "rms_norm_eps": 1e-06,
        **changes,
    }


def _qwen3(**changes: Any) -> Config:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "model_type": "qwen3",
        "max_window_layers": 2,
        "sliding_window": None,
        "use_sliding_window": False,
        **_SIZES,
        "rms_norm_eps": 1e-06,
        **changes,
    }


def _mistral(**changes: Any) -> Config:
    return {
        "architectures": ["MistralForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "model_type": "mistral",
        "tie_word_embeddings": False,
        **_SIZES,
        **changes,
    }


_SHORT = [0.998, 1.014, 1.032, 1.059, 1.1, 1.17, 1.32, 1.61]
_LONG = [0.998, 1.2, 1.7, 2.6, 4.3, 9.1, 19.5, 31.02]


def _minicpm4(original: int, **changes: Any) -> Config:
    return {
        "architectures": ["MiniCPMForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration_minicpm.MiniCPMConfig",
            "AutoModelForCausalLM": "modeling_minicpm.MiniCPMForCausalLM",
        },
        "bos_token_id": 1,
        "eos_token_id": [2, 159],
        "pad_token_id": 2,
        "model_type": "minicpm",
        **_SIZES,
        "rms_norm_eps": 1e-06,
        "rope_scaling": {
            "rope_type": "longrope",
            "long_factor": _LONG,
            "short_factor": _SHORT,
            "original_max_position_embeddings": original,
        },
        "scale_emb": 12,
        "dim_model_base": 32,
        "scale_depth": 1.4,
        "mup_denominator": 32,
        "tie_word_embeddings": False,
        **_OLD,
        **changes,
    }


_LLAMA3 = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 64,
    "rope_type": "llama3",
}
_DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}


def _llama_cases() -> list[Case]:
    plain = {"rope_theta": 10000.0, **_OLD}
    return [
        Case("llama", _llama(rope_scaling=None, **plain), "default rope"),
        Case(
            "llama_llama3",
            _llama(rope_theta=500000.0, rope_scaling=_LLAMA3, **_OLD)
            | {"tie_word_embeddings": True, "eos_token_id": [2, 3, 159]},
            "llama3 rope scaling, old spelling, tied, a list of eos",
        ),
        Case(
            "llama_llama3_params",
            _llama(
                rope_parameters={**_LLAMA3, "rope_theta": 500000.0},
                head_dim=16,
                num_hidden_layers=3,
                **_V5,
            ),
            "llama3 rope scaling, rope_parameters, three layers",
        ),
        Case(
            "llama_linear",
            _llama(rope_scaling={"type": "linear", "factor": 4.0}, **plain),
            "linear rope scaling under the legacy key `type`",
        ),
        Case(
            "llama_dynamic",
            _llama(rope_scaling=_DYNAMIC, **plain)
            | {"max_position_embeddings": 40},
            "dynamic NTK, all of the request is the prompt",
        ),
        Case(
            "llama_dynamic_planned",
            _llama(rope_scaling=_DYNAMIC, **plain)
            | {"max_position_embeddings": 40},
            "dynamic NTK, a request of 120 tokens whose prompt has 80",
            planned_total_tokens=120,
        ),
        Case(
            "llama_yarn",
            _llama(
                rope_scaling={
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 1024,
                },
                **plain,
            )
            | {"max_position_embeddings": 4096},
            "yarn with its defaults",
        ),
        Case(
            "llama_yarn_params",
            _llama(
                rope_parameters={
                    "rope_type": "yarn",
                    "rope_theta": 10000.0,
                    "factor": 8.0,
                    "original_max_position_embeddings": 64,
                    "attention_factor": 1.1,
                    "beta_fast": 1.0,
                    "beta_slow": 0.05,
                },
                **_V5,
            ),
            "yarn, rope_parameters, attention_factor and betas given",
        ),
        Case(
            "llama_bias",
            _llama(rope_scaling=None, **plain)
            | {"attention_bias": True, "mlp_bias": True},
            "attention_bias (q, k, v and o) and mlp_bias",
        ),
        Case(
            "llama_head_dim",
            _llama(rope_scaling=None, head_dim=32, **plain)
            | {"tie_word_embeddings": True},
            "head_dim 32, not hidden_size / heads; tied",
        ),
    ]


def _qwen_cases() -> list[Case]:
    theta = {"rope_theta": 1000000.0, **_OLD}
    window = {"sliding_window": 24, "use_sliding_window": True}
    return [
        Case(
            "qwen2",
            _qwen2(
                max_window_layers=0,
                sliding_window=24,
                use_sliding_window=False,
                tie_word_embeddings=True,
                **theta,
            ),
            "implied q, k, v bias; tied; a window that is switched off",
        ),
        Case(
            "qwen2_window",
            _qwen2(max_window_layers=1, tie_word_embeddings=False, **window)
            | {"num_hidden_layers": 3, **theta},
            "layers >= max_window_layers slide, the first does not",
        ),
        Case(
            "qwen2_layer_types",
            _qwen2(
                layer_types=[
                    "sliding_attention",
                    "full_attention",
                    "sliding_attention",
                ],
                max_window_layers=3,
                rope_parameters={
                    "rope_theta": 1000000.0,
                    "rope_type": "default",
                },
                tie_word_embeddings=False,
                **window,
            )
            | {"num_hidden_layers": 3, **_V5},
            "layer_types wins over max_window_layers; rope_parameters",
        ),
        Case(
            "qwen2_yarn",
            _qwen2(
                max_window_layers=2,
                rope_scaling={
                    "factor": 4.0,
                    "original_max_position_embeddings": 32,
                    "type": "yarn",
                },
                sliding_window=512,
                tie_word_embeddings=True,
                use_sliding_window=False,
                **theta,
            ),
            "yarn under the legacy key `type`, as Qwen2.5 documents it",
        ),
        Case(
            "qwen3",
            _qwen3(
                head_dim=32,
                rope_scaling=None,
                tie_word_embeddings=False,
                **theta,
            ),
            "q_norm and k_norm before rope, explicit head_dim, no bias",
        ),
        Case(
            "qwen3_params",
            _qwen3(
                head_dim=16,
                layer_types=["full_attention", "full_attention"],
                rope_parameters={
                    "rope_theta": 1000000.0,
                    "rope_type": "default",
                },
                tie_word_embeddings=True,
                **_V5,
            ),
            "rope_parameters, layer_types, tied",
        ),
    ]


def _other_cases() -> list[Case]:
    theta = {"rope_theta": 10000.0, **_OLD}
    return [
        Case(
            "mistral",
            _mistral(sliding_window=24, **theta),
            "a window of 24 tokens, the query's own among them, all layers",
        ),
        Case(
            "mistral_no_window",
            _mistral(
                head_dim=32,
                rope_parameters={
                    "rope_theta": 1000000.0,
                    "rope_type": "default",
                },
                sliding_window=None,
                **_V5,
            ),
            "sliding_window null, head_dim 32, rope_parameters",
        ),
        Case(
            "minicpm4_long",
            _minicpm4(64),
            "long factors (80 > 64), cos and sin scaled, untied",
        ),
        Case(
            "minicpm4_short",
            _minicpm4(128, rope_theta=10000.0, tie_word_embeddings=True),
            "short factors (80 <= 128), cos and sin scaled, tied",
        ),
        Case(
            "minicpm4_native",
            _minicpm4(512),
            "original length = max_position_embeddings: no scale",
        ),
    ]


CASES: list[Case] = _llama_cases() + _qwen_cases() + _other_cases()
