"""Base of the trained detectors that are classifiers and learn from outliers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout.detectors.posthoc.msp import MSP
from farout.detectors.trained.detector import Outliers, TrainedDetector
from farout.networks.network import Network
from farout.training import Recipe

MEAN = (125.3 / 255, 123.0 / 255, 113.9 / 255)
"""Mean of CIFAR-10's channels, as OE's and ATOM's authors set it."""
STD = (63.0 / 255, 62.1 / 255, 66.7 / 255)
SIDE = 32
"""Side of the images of the authors' checkpoints."""


@dataclass(kw_only=True, eq=False)
class ClassifierDetector(TrainedDetector):
    """Classifier that learns from inliers and outliers; the score is that of `msp`, 1 − max p."""

    outliers: ClassVar[Outliers] = "required"
    labeled: ClassVar[bool] = True

    @property
    def network(self) -> Network:
        """The classifier, with its normalizer."""
        network = self.modules["network"]
        assert isinstance(network, Network)
        return network

    @property
    def settings(self) -> Recipe:
        """Recipe of the preset, with the changes of `training`."""
        return self.recipe().changed(**self.training)

    def compute(self, images: Tensor) -> Tensor:
        return MSP().score(self.network(images, needs=()))


def normalized(module: nn.Module, channels: int) -> Network:
    """Return the network with CIFAR-10's mean and standard deviation; for gray images with their averages."""
    if channels == 3:
        return Network(module, mean=MEAN, std=STD)
    return Network(module, mean=[fmean(MEAN)], std=[fmean(STD)])


def renamed(checkpoint: Mapping[str, Any], layers: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the tensors of the authors' checkpoint under the names of a classifier detector's state.

    layers: our names of layers by theirs. Raise if a tensor belongs to none of them, or if a layer has no tensor. Files
    of torch before 0.4.1 lack the batch norms' counts of batches, which do not matter: they are 0 then.
    """
    tensors: Mapping[str, Tensor] = checkpoint.get("state_dict", checkpoint)
    found, missing = dict[str, Tensor](), set(layers)
    for key, value in tensors.items():
        layer, _, kind = key.removeprefix("module.").rpartition(".")
        if layer not in layers:
            raise ValueError(f"the checkpoint has a tensor {key!r}; expected those of the layers {_listed(layers)}")
        missing.discard(layer)
        found[f"network.{layers[layer]}.{kind}"] = value
        if kind == "running_var":
            found.setdefault(f"network.{layers[layer]}.num_batches_tracked", torch.tensor(0))
    if missing:
        raise ValueError(f"the checkpoint has no tensors of the layers {_listed(sorted(missing))}")
    return found


def _listed(names: Collection[str]) -> str:
    return ", ".join(list(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
