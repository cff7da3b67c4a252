"""A batch's gradients; on a GPU as one graph for each shape of a batch.

Launched one by one, the kernels of a step over short documents take the CPU
two to four times as long as the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.train.batches import Batch
from lab.train.model import LabModel

_WARM_UPS = 2  # Before a capture: compilation, and the libraries' first calls.


@dataclass
class _Graph:
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    loss: Tensor


class Gradients:
    """Owns what a batch is copied to and how many answers were right.

    Adds to the parameters' gradients, which must stay where they are. One
    training thread calls it.
    """

    def __init__(self, model: LabModel, num_labels: int) -> None:
        self._model = model
        self._device = model.embed_tokens.weight.device
        self._counts = torch.zeros(2, num_labels, device=self._device)
        self._graphs: dict[tuple, _Graph] = {}
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def add(self, batch: Batch, share: float, pointing: float) -> Tensor:
        """The gradients of `share` of the batch's loss; returns the loss, on
        the device and until the next call. `pointing`: as in LabModel."""
        arrays = (
            batch.tokens,
            batch.positions,
            batch.targets,
            batch.weights,
            batch.labels,
            batch.sources,
        )
        inputs = [torch.from_numpy(array) for array in arrays]
        if self._device.type != "cuda":
            return self._add(inputs, share, pointing)
        key = (batch.tokens.shape, share, pointing, self._model.rope_theta)
        if key not in self._graphs:
            self._graphs[key] = self._capture(inputs, share, pointing)
        captured = self._graphs[key]
        for place, tensor in zip(captured.inputs, inputs):
            place.copy_(tensor)
        captured.graph.replay()
        return captured.loss

    def take_counts(self) -> list[list[float]]:
        """By label, since the last call: answer tokens right, and asked."""
        counts = self._counts.tolist()
        self._counts.zero_()
        return counts

    def _add(
        self, inputs: list[Tensor], share: float, pointing: float
    ) -> Tensor:
        tokens, positions, targets, weights, labels, sources = inputs
        loss, right = self._model(
            tokens.long(),
            positions.long(),
            targets.long(),
            weights,
            sources.long(),
            pointing,
        )
        (loss * share).backward()
        labels = labels.long().flatten()
        right = right.flatten().float()
        self._counts[0].index_add_(0, labels, right)
        self._counts[1].index_add_(0, labels, torch.ones_like(right))
        return loss.detach()

    def _capture(
        self, inputs: list[Tensor], share: float, pointing: float
    ) -> _Graph:
        places = [tensor.to(self._device) for tensor in inputs]
        counts = self._counts.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self._add(places, 0.0, pointing)
        torch.cuda.current_stream().wait_stream(stream)
        self._counts.copy_(counts)
        graph = torch.cuda.CUDAGraph()
        # Graphs run one after another, so that all share one's memory.
        first = next(iter(self._graphs.values()), None)
        pool = first.graph.pool() if first else None
        with torch.cuda.graph(graph, pool=pool):
            loss = self._add(places, share, pointing)
        return _Graph(graph, places, loss)
