"""Where a training run stands at the end of an epoch, in one safetensors file, so that it can go on from there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from farout.files import present
from farout.identity import bytes_of, digest_arrays
from farout.networks.weights import write_tensors

KEY = "farout"
"""The entry of the file's header that holds identity and history as JSON."""


@dataclasses.dataclass(frozen=True)
class History:
    """What happened in each epoch."""

    losses: tuple[float, ...] = ()
    """Mean training loss."""
    accuracies: tuple[float, ...] = ()
    """Validation accuracy, from 0 to 1."""

    @property
    def best_epoch(self) -> int:
        """The epoch, counted from 0, with the highest validation accuracy; the last of equals."""
        return max(range(len(self.accuracies)), key=lambda epoch: (self.accuracies[epoch], epoch))

    @property
    def best_accuracy(self) -> float:
        """The validation accuracy of the weights that were kept."""
        return self.accuracies[self.best_epoch]

    def extended(self, loss: float, accuracy: float) -> History:
        """This history and one more epoch."""
        return History((*self.losses, loss), (*self.accuracies, accuracy))


@dataclasses.dataclass
class Standing:
    """A run between two epochs: the best weights so far and the history; the rest lies in network and optimizer."""

    best: dict[str, Tensor]
    history: History = dataclasses.field(default_factory=History)


def copy_of(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of a state dict that further training does not change."""
    return {key: value.detach().clone() for key, value in state.items()}


def save(path: Path, identity: str, network: nn.Module, optimizer: torch.optim.Optimizer, standing: Standing) -> None:
    """Write the run's state; it is there whole or not at all."""
    tensors = {f"weights/{key}": value for key, value in network.state_dict().items()}
    tensors |= {f"best/{key}": value for key, value in standing.best.items()}
    for name, parameter in network.named_parameters():
        momentum = optimizer.state[parameter].get("momentum_buffer") if parameter in optimizer.state else None
        if momentum is not None:
            tensors[f"momentum/{name}"] = momentum
    header = {"identity": identity, "history": dataclasses.asdict(standing.history), "content": _content(tensors)}
    write_tensors(path, tensors, {KEY: json.dumps(header)})


def load(path: Path, identity: str, network: nn.Module, optimizer: torch.optim.Optimizer) -> Standing | None:
    """Put network and optimizer where the file left them; None, and nothing touched, if it is of another run."""
    found = _read(path)
    if found is None or found[0].get("identity") != identity:
        return None
    header, tensors = found
    network.load_state_dict(_under("weights/", tensors))
    momenta = _under("momentum/", tensors)
    for name, parameter in network.named_parameters():
        if name in momenta:
            optimizer.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(momenta[name]).detach()
    history = History(**{key: tuple(values) for key, values in header["history"].items()})
    return Standing(_under("best/", tensors), history)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Header and tensors; None where there is no file, a damaged one, or one that training did not write."""
    try:
        if not present(path):
            return None
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {})[KEY])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError):
        return None
    return (header, tensors) if isinstance(header, dict) and header.get("content") == _content(tensors) else None


def _content(tensors: Mapping[str, Tensor]) -> str:
    """Checksum of the tensors: training does not go on from damaged ones."""
    return digest_arrays((key, bytes_of(value)) for key, value in sorted(tensors.items()))
