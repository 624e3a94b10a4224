"""Import of the weights that the authors of a detector published."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from farout.checks import check_count
from farout.detectors.catalog import catalog, names_of
from farout.detectors.trained.detector import INPUTS, STATISTICS, Inputs, TrainedDetector
from farout.networks.base import seeded
from farout.networks.weights import check_tensors, read_tensors
from farout.registry import unknown

CIFAR10 = Inputs(3, 32, 10)
"""Inputs of published checkpoints, unless their tensors tell others."""
DATA_PARALLEL = "module."
COUNTER = "num_batches_tracked"


class Imported(NamedTuple):
    """Detector with imported weights."""

    detector: TrainedDetector
    mapped: dict[str, Tensor]
    """Tensors of the file, by our names."""
    left_out: list[str]
    """Names in the file that are not used."""


def import_weights(name: str, path: str | Path, out: str | Path | None = None, **params: Any) -> Imported:
    """Read the authors' checkpoint of a detector without executing it, check it, and write our file to `out`.

    params: parameters of the detector, by default the paper's (preset="full"); and `channels`, `side` and `classes` of
        the images it was trained on, by default CIFAR-10's, unless the file tells.
    """
    if name not in names_of(TrainedDetector):
        raise unknown("trained detector", name, names_of(TrainedDetector))
    images = {key: params.pop(key) for key in Inputs._fields if key in params and key not in accepted(name)}
    for key, value in images.items():
        check_count(key, value)
    detector = catalog.create(name, **{"preset": "full", **params})
    assert isinstance(detector, TrainedDetector)
    read = _Read(_plain_names(read_tensors(Path(path))))
    try:
        mapped = dict(detector.import_state(read))
    except KeyError as error:
        raise ValueError(
            f"{path} has no tensor {error}, which the published checkpoint of {name} has; it has "
            f"{', '.join(sorted(read)[:6])}, …"
        ) from error
    inputs = Inputs(*mapped.pop(INPUTS, torch.tensor(CIFAR10)).tolist())._replace(**images)
    _load(detector, mapped, inputs, Path(path))
    if out is not None:
        detector.save(out)
    return Imported(detector, mapped, read.unused(mapped.values()))


def accepted(name: str) -> Collection[str]:
    """Return the names of a detector's parameters."""
    return inspect.signature(catalog[name]).parameters


def _load(detector: TrainedDetector, mapped: Mapping[str, Tensor], inputs: Inputs, path: Path) -> None:
    """Load the tensors; counters of batch norms, which older files lack, may be missing."""
    with seeded(0):
        own = nn.ModuleDict(detector.build(inputs)).state_dict()
    weights = {key: value for key, value in mapped.items() if not key.startswith(f"{STATISTICS}.")}
    counters = {key: value for key, value in own.items() if key.endswith(COUNTER)}
    advice = (
        f"Expected {detector.name} with {detector.stored_params} for images of "
        f"{inputs.channels}×{inputs.side}×{inputs.side} and {inputs.classes} classes: change them by --set"
    )
    check_tensors(own, counters | weights, path, advice)
    detector.load_state_dict({INPUTS: torch.tensor(inputs), **counters, **mapped})


def _plain_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without the prefix that data-parallel training adds to every name."""
    wrapped = all(key.startswith(DATA_PARALLEL) for key in tensors)
    return {key.removeprefix(DATA_PARALLEL) if wrapped else key: value for key, value in tensors.items()}


class _Read(dict[str, Tensor]):
    """Tensors of a file, which remembers the names that were looked up."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(tensors)
        self.names, self.read = dict(tensors), set[str]()

    def __getitem__(self, name: str) -> Tensor:
        self.read.add(name)
        return super().__getitem__(name)

    def unused(self, mapped: Iterable[Tensor]) -> list[str]:
        """Return the names that were not looked up, and whose tensors are not among the mapped ones; without counters
        of batch norms."""
        used = {tensor.untyped_storage().data_ptr() for tensor in mapped}
        left = {name for name in self.names.keys() - self.read if not name.endswith(COUNTER)}
        return sorted(name for name in left if self.names[name].untyped_storage().data_ptr() not in used)
