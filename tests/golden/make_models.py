"""Makes the golden logits of the tiny models under tests/golden/models/.

Made with transformers 5.17.0 and torch 2.11.0 on a CPU, in float32; MiniCPM4,
for which transformers has no class, by minicpm4.py in float64.

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python make_models.py            writes models/
    venv/bin/python make_models.py --check    makes all again and compares

--check demands that every config, prompt and list of tensors is equal and that
no logit differs by more than --tolerance (1e-6) * max(1, |logit|). On a CPU
with other vector instructions torch adds in another order: use 5e-5 there.

Both print how far float32 is from float64, the noise floor of the golden
values themselves; for MiniCPM4 the float32 side is transformers' Llama with
the factors folded into the weights, so that this number also vouches for the
transcription.
README.md says what the files hold; tiny_weights.py how weights are made.
"""

import argparse
import json
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np
import torch
import transformers

import minicpm4
import model_cases
import tiny_weights

PROMPT_TOKENS = 80
# Logits are kept of the vocabulary entries 1, 6, 11, ..., 156.
FIRST_COLUMN, COLUMN_STEP = 1, 5
MODELS = pathlib.Path(__file__).resolve().parent / "models"


def prompt(case: model_cases.Case) -> list[int]:
    """planned_total_tokens ids; the first PROMPT_TOKENS are the prompt."""
    h = tiny_weights.hashes(f"prompt:{case.name}", case.planned_total_tokens)
    vocab = np.uint64(case.config["vocab_size"])
    return [int(token) for token in (h >> np.uint64(40)) % vocab]


def hugging_face_model(config: dict[str, Any]) -> torch.nn.Module:
    """transformers' model for this config.json, weights not yet set."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        parsed = transformers.AutoConfig.from_pretrained(folder)
    return transformers.AutoModelForCausalLM.from_config(
        parsed, attn_implementation="eager", dtype=torch.float32
    ).eval()


def folded_llama_logits(
    config: dict[str, Any], state: minicpm4.Tensors, tokens: list[int]
) -> np.ndarray:
    """MiniCPM4's logits by transformers' Llama with the factors folded in.

    A second way to the same numbers, in float32: the three constants go into
    the embeddings, o_proj and down_proj, and lm_head.
    """
    rope = {"rope_theta": 10000.0, **config["rope_scaling"]}
    llama = {
        k: v
        for k, v in config.items()
        if k not in ("auto_map", "rope_scaling", "tie_word_embeddings")
    }
    llama |= {"model_type": "llama", "rope_parameters": rope}
    branch = config["scale_depth"] / config["num_hidden_layers"] ** 0.5
    embed = state["model.embed_tokens.weight"]
    folded = {
        name: t * branch if "o_proj" in name or "down_proj" in name else t
        for name, t in state.items()
    }
    folded["model.embed_tokens.weight"] = embed * config["scale_emb"]
    folded["lm_head.weight"] = state.get("lm_head.weight", embed) * (
        config["dim_model_base"] / config["hidden_size"]
    )
    model = hugging_face_model(llama)
    model.load_state_dict(folded)
    with torch.no_grad():
        return model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()


def make_case(
    case: model_cases.Case,
) -> tuple[dict[str, np.ndarray], np.ndarray, float]:
    """The tensors, the logits [planned, vocab], the largest distance between
    transformers' float32 and float64 logits."""
    tokens = prompt(case)
    is_minicpm = case.config["model_type"] == "minicpm"
    if is_minicpm:
        shapes = minicpm4.tensor_shapes(case.config)
    else:
        model = hugging_face_model(case.config)
        shapes = {n: list(t.shape) for n, t in model.state_dict().items()}
        if case.config.get("tie_word_embeddings"):
            # A tied checkpoint does not hold the second name.
            del shapes["lm_head.weight"]
    tensors = {
        name: tiny_weights.make_tensor(name, shape)
        for name, shape in sorted(shapes.items())
    }
    state = {name: torch.from_numpy(t) for name, t in tensors.items()}
    if is_minicpm:
        exact = minicpm4.logits(case.config, state, tokens).numpy()
        folded = folded_llama_logits(case.config, state, tokens)
        distance = float(np.abs(exact - folded).max())
        return tensors, exact.astype(np.float32), distance
    missing, extra = model.load_state_dict(state, strict=False)
    assert not extra and set(missing) <= {"lm_head.weight"}, (missing, extra)
    model.tie_weights()
    ids = torch.tensor([tokens])
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits[0].numpy()
        exact = model.double()(ids, use_cache=False).logits[0].numpy()
    return tensors, logits, float(np.abs(exact - logits).max())


def stored(logits: np.ndarray) -> np.ndarray:
    """What logits.bin keeps: [PROMPT_TOKENS, 32] little-endian float32."""
    kept = logits[:PROMPT_TOKENS, FIRST_COLUMN::COLUMN_STEP]
    return np.ascontiguousarray(kept, dtype="<f4")


def text_files(
    case: model_cases.Case, tensors: dict[str, np.ndarray]
) -> dict[str, str]:
    """File name -> text of the three JSON files of one case."""
    vocab = case.config["vocab_size"]
    golden = {
        "pins": case.pins,
        "tokens": prompt(case)[:PROMPT_TOKENS],
        "planned_total_tokens": case.planned_total_tokens,
        "logit_ids": list(range(FIRST_COLUMN, vocab, COLUMN_STEP)),
    }
    rows = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(list(tensor.shape))}"
        for name, tensor in tensors.items()
    )
    checksum = tiny_weights.checksum(tensors)
    return {
        "config.json": json.dumps(case.config, indent=2) + "\n",
        "prompt.json": "{\n"
        + ",\n".join(
            f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in golden.items()
        )
        + "\n}\n",
        "tensors.json": f'{{\n"checksum": "{checksum}",\n"shapes": {{\n'
        f"{rows}\n}}\n}}\n",
    }


def differences(
    case: model_cases.Case,
    texts: dict[str, str],
    logits: np.ndarray,
    tolerance: float,
) -> list[str]:
    """What differs between a case made again and the committed one."""
    folder = MODELS / case.name
    found = [
        f"{case.name}/{name} differs"
        for name, text in texts.items()
        if not (folder / name).is_file() or (folder / name).read_text() != text
    ]
    if not (folder / "logits.bin").is_file():
        return found + [f"{case.name}/logits.bin is missing"]
    old = np.fromfile(folder / "logits.bin", dtype="<f4")
    if old.size != logits.size:
        return found + [f"{case.name}/logits.bin has {old.size} values"]
    gap = np.abs(old - logits.reshape(-1))
    worst = float((gap / np.maximum(1.0, np.abs(old))).max())
    if worst > tolerance:
        found.append(f"{case.name}/logits.bin differs by {worst:.2e}")
    return found


def main() -> int:
    """Writes or checks all cases; 1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    problems: list[str] = []
    for case in model_cases.CASES:
        tensors, full_logits, distance = make_case(case)
        logits, texts = stored(full_logits), text_files(case, tensors)
        if arguments.check:
            problems += differences(case, texts, logits, arguments.tolerance)
        else:
            folder = MODELS / case.name
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (folder / name).write_text(text)
            (folder / "logits.bin").write_bytes(logits.tobytes())
        print(
            f"{case.name:22} logits {full_logits.min():7.2f} .. "
            f"{full_logits.max():6.2f}, float32 against float64 "
            f"{distance:.1e}"
        )
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
