"""Import of published weights: those of detectors and of networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from farout import networks
from farout.api.train import check_out
from farout.detectors.catalog import catalog, names_of
from farout.detectors.trained import importing
from farout.detectors.trained.detector import TrainedDetector
from farout.networks.weights import load_weights, save_weights
from farout.registry import unknown

CIFAR10 = {"classes": 10, "side": 32}
"""Images of published networks, unless told."""


class Imported(NamedTuple):
    """Result of an import."""

    label: str
    mapped: Mapping[str, Tensor]
    """Tensors of the file, by our names."""
    left_out: list[str]
    """Names in the file that are not used."""
    complete: bool
    """True if nothing is left to fit."""


def import_weights(name: str, path: str | Path, out: str | Path, **params: Any) -> Imported:
    """Read the published weights of a detector or a network without executing them, and write our file to `out`.

    params: parameters of the detector, by default the paper's; of a network those of `networks.create`.
    """
    check_out(Path(out))
    if name in names_of(TrainedDetector):
        found = importing.import_weights(name, path, out, **params)
        return Imported(found.detector.label, found.mapped, found.left_out, found.detector.complete)
    if name in catalog:
        raise ValueError(f"{name} is fitted, not trained: import the network that it reads, such as resnet34")
    if name not in networks.names():
        raise unknown("model to import:", name, [*names_of(TrainedDetector), *networks.names()])
    shape = {key: params.pop(key, usual) for key, usual in CIFAR10.items()}
    network = load_weights(networks.create(name, **shape, **params), path)
    save_weights(network, out)
    return Imported(name, network.state_dict(), [], True)
