"""Bases of detectors whose classifier may start from trained weights, and may be any network."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from farout import networks
from farout.core import ImageSet
from farout.detectors.trained.classifier import ClassifierDetector, NetworkDetector
from farout.detectors.trained.detector import Inputs
from farout.identity import bytes_of, digest_arrays
from farout.networks.network import Network
from farout.networks.weights import load_weights, read_tensors
from farout.registry import Named, split_settings


@dataclass(kw_only=True, eq=False)
class FineTunedDetector(NetworkDetector):
    """Base of detectors whose classifier may start from the weights of an earlier training."""

    files: ClassVar[tuple[str, ...]] = ("weights", "start")
    start: str | Path | None = None
    """File of weights that training starts from, of the same architecture; its head is replaced if the classes differ.
    Only `fit` reads it."""

    def identity(self) -> dict[str, Any]:
        """Return the settings, the recipe and the content of the start weights; once fitted, the state instead."""
        identity = super().identity()
        if self.start is not None and self.inputs is None:
            tensors = read_tensors(Path(self.start))
            identity["start"] = digest_arrays((name, bytes_of(tensor)) for name, tensor in sorted(tensors.items()))
        return identity

    def check_fit(self, train: ImageSet, auxiliary_outliers: ImageSet | None = None) -> None:
        super().check_fit(train, auxiliary_outliers)
        if self.weights is None and self.start is not None and not Path(self.start).is_file():
            raise FileNotFoundError(
                f"{self.name}: no weights to start from at {self.start}; expected a .safetensors, .pt or .pth file"
            )

    def load_start(self) -> None:
        """Load the weights that training starts from into the network, if there are any."""
        if self.start is not None:
            load_weights(self.network, self.start, fine_tune=True)


@dataclass(kw_only=True, eq=False)
class AnyNetworkDetector(FineTunedDetector, ClassifierDetector):
    """Base of detectors whose loss suits every classifier: the paper's network, or another one."""

    added: ClassVar[frozenset[str]] = frozenset({"architecture", "start"})
    architecture: Named | None = None
    """Network in place of the paper's: a name of `farout list networks`, or {name: resnet20, width: 32, mean: 0.5,
    std: 0.25} with the arguments of `farout.networks.create`. By default images are normalized by mean and std 0.5."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.architecture is not None:
            name, params = self._architecture(self.architecture)
            networks.NETWORKS[name]  # raise now if it is unknown
            networks.check_parameters(name, {key: params[key] for key in params if key not in ("mean", "std")})

    def identity(self) -> dict[str, Any]:
        """Return the settings; of a user's network also the code that builds it."""
        identity = super().identity()
        if self.architecture is not None and (code := networks.own_identity(*self._architecture(self.architecture))):
            identity["network"] = code
        return identity

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        if self.architecture is None:
            return {"network": self.build_own(inputs)}
        name, params = self._architecture(self.architecture)
        seed = int(torch.randint(2**31, ()))  # `create` seeds by itself: let its weights depend on the seed of `fit`
        return {"network": networks.create(name, inputs.classes, inputs.side, inputs.channels, seed=seed, **params)}

    @abstractmethod
    def build_own(self, inputs: Inputs) -> Network:
        """Return the paper's network, with new weights."""

    def _architecture(self, given: Named) -> tuple[str, dict[str, Any]]:
        """Return the name of the network and the arguments that create it."""
        return split_settings(f"{self.name}: architecture", given)
