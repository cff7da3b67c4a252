"""MiniCPM4 in float64, whole prompt at once: transformers has no class for it.

Differences from Llama: embeddings * scale_emb; each residual branch *
scale_depth / sqrt(num_hidden_layers); the final hidden state is divided by
hidden_size / dim_model_base before lm_head, tied or not; LongRoPE:
inv_freq_i = 1 / (factor_i * theta^(2i/d)), and cos and sin are multiplied by
sqrt(1 + ln(max_position / original) / ln(original)). The long factors are used
when the request's total length exceeds the original one (LongRoPE, Ding et al.
2024, arXiv 2402.13753; the same rule as transformers' "longrope").
"""

import math
from typing import Any

import torch

Tensors = dict[str, torch.Tensor]


def tensor_shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """Name -> shape of every tensor in a MiniCPM4 checkpoint."""
    hidden = config["hidden_size"]
    inter = config["intermediate_size"]
    dim = hidden // config["num_attention_heads"]
    q_rows = config["num_attention_heads"] * dim
    kv_rows = config["num_key_value_heads"] * dim
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden]}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes[at + "self_attn.q_proj.weight"] = [q_rows, hidden]
        shapes[at + "self_attn.k_proj.weight"] = [kv_rows, hidden]
        shapes[at + "self_attn.v_proj.weight"] = [kv_rows, hidden]
        shapes[at + "self_attn.o_proj.weight"] = [hidden, q_rows]
        shapes[at + "mlp.gate_proj.weight"] = [inter, hidden]
        shapes[at + "mlp.up_proj.weight"] = [inter, hidden]
        shapes[at + "mlp.down_proj.weight"] = [hidden, inter]
        shapes[at + "input_layernorm.weight"] = [hidden]
        shapes[at + "post_attention_layernorm.weight"] = [hidden]
    shapes["model.norm.weight"] = [hidden]
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [config["vocab_size"], hidden]
    return shapes


def _rope_tables(
    config: dict[str, Any], length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [length, head_dim / 2], scaled as LongRoPE asks."""
    dim = config["hidden_size"] // config["num_attention_heads"]
    scaling = config["rope_scaling"]
    original = scaling["original_max_position_embeddings"]
    key = "long_factor" if length > original else "short_factor"
    factors = torch.tensor(scaling[key], dtype=torch.float64)
    exponents = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    theta = float(config.get("rope_theta", 10000.0))
    inv_freq = 1.0 / (factors * theta**exponents)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), inv_freq)
    ratio = config["max_position_embeddings"] / original
    scale = math.sqrt(1.0 + math.log(ratio) / math.log(original))
    return angles.cos() * scale, angles.sin() * scale


def _rotate(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """Half-split rotation of x [heads, length, head_dim]."""
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


def _rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def _attention(
    x: torch.Tensor,
    weights: Tensors,
    at: str,
    config: dict[str, Any],
    tables: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Causal attention of one layer: [length, hidden] -> the same."""
    heads = config["num_attention_heads"]
    groups = heads // config["num_key_value_heads"]
    dim = config["hidden_size"] // heads
    length = x.shape[0]

    def project(name: str) -> torch.Tensor:
        y = x @ weights[f"{at}{name}_proj.weight"].T
        return y.view(length, -1, dim).transpose(0, 1)

    q = _rotate(project("q"), *tables)
    k = _rotate(project("k"), *tables).repeat_interleave(groups, 0)
    v = project("v").repeat_interleave(groups, 0)
    scores = q @ k.transpose(1, 2) / math.sqrt(dim)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(future, -math.inf)
    out = scores.softmax(-1) @ v
    out = out.transpose(0, 1).reshape(length, heads * dim)
    return out @ weights[f"{at}o_proj.weight"].T


def logits(
    config: dict[str, Any], weights: Tensors, tokens: list[int]
) -> torch.Tensor:
    """float64 logits [len(tokens), vocab_size] of one whole prompt."""
    weights = {name: w.double() for name, w in weights.items()}
    eps = config["rms_norm_eps"]
    layers = config["num_hidden_layers"]
    branch = config["scale_depth"] / math.sqrt(layers)
    embed = weights["model.embed_tokens.weight"]
    tables = _rope_tables(config, len(tokens))
    x = embed[tokens] * config["scale_emb"]
    for layer in range(layers):
        at = f"model.layers.{layer}."
        y = _rms_norm(x, weights[at + "input_layernorm.weight"], eps)
        y = _attention(y, weights, at + "self_attn.", config, tables)
        x = x + branch * y
        y = _rms_norm(x, weights[at + "post_attention_layernorm.weight"], eps)
        gate = y @ weights[at + "mlp.gate_proj.weight"].T
        up = y @ weights[at + "mlp.up_proj.weight"].T
        y = torch.nn.functional.silu(gate) * up
        x = x + branch * (y @ weights[at + "mlp.down_proj.weight"].T)
    x = _rms_norm(x, weights["model.norm.weight"], eps)
    x = x / (config["hidden_size"] / config["dim_model_base"])
    return x @ weights.get("lm_head.weight", embed).T
