"""Writes a trained model as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from lab.train.folder import folder_texts
from lab.train.shape import Shape


def write_checkpoint(
    weights: dict[str, Tensor], shape: Shape, folder: Path
) -> None:
    """`weights`: a LabModel's state; stored in bf16, embeddings tied."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in folder_texts(shape).items():
        (folder / name).write_text(text)
    tensors = {
        f"model.{name}": tensor.to("cpu", torch.bfloat16).contiguous()
        for name, tensor in weights.items()
    }
    path = folder / "model.safetensors"
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)  # Written for its owner alone otherwise.
