"""A post-processor of OpenOOD v1.5 on a network of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.adapters.modules import copied, left_alone, told
from farout.adapters.openood_net import Net
from farout.core import Detector, ImageSet, NotFitted, chunks
from farout.identity import Json
from farout.networks.network import Network


class OpenOOD(Detector):
    """A post-processor of OpenOOD v1.5 on a `farout.Network`: OpenOOD(KNNPostprocessor(config), network).

    It sees what OpenOOD's see: normalised images, a net with return_feature, get_fc and so on, loaders of dicts with
    "data" and "label". Its confidence is larger for inliers, so scores are its negative.

    `fit` sets a copy up, with the images as the loaders "train", "val" and "test" of the inliers, and no outliers.
    val: images for its loaders "val" and "test" instead.
    name: what tables call it; its class's name by default.
    """

    def __new__(cls, postprocessor: Any = None, *_: Any, **__: Any) -> OpenOOD:
        needs = cls is OpenOOD and _needs_setup(postprocessor)
        return super().__new__(FittedOpenOOD if needs else cls)

    def __init__(
        self, postprocessor: Any, network: Network, *, val: ImageSet | None = None, name: str | None = None
    ) -> None:
        given = isinstance(postprocessor, type)
        if given or not all(callable(getattr(postprocessor, part, None)) for part in ("setup", "postprocess")):
            what = f"the class {postprocessor.__name__}" if given else type(postprocessor).__name__
            raise TypeError(f"expected a post-processor with setup and postprocess, made with its config, got {what}")
        if not isinstance(network, Network):
            got = type(network).__name__
            raise TypeError(f"expected a farout.Network, got {got}; wrap it: farout.Network(module, mean=…, std=…)")
        if network.head is None:
            raise ValueError("a post-processor of OpenOOD reads one network with a last layer, not an ensemble")
        self.postprocessor, self.network, self.val = postprocessor, network, val
        self.name = name or type(postprocessor).__name__.removesuffix("Postprocessor")
        self.ready: Any = None if _needs_setup(postprocessor) else postprocessor
        self.fitted_on: str | None = None

    def score(self, images: Tensor) -> Tensor:
        if self.ready is None:
            raise NotFitted(f"{self.name} is not set up: call fit on inliers first")
        if not len(images):
            return images.new_empty(0, dtype=torch.float64)
        with left_alone([self.network]):
            _, confidence = self.ready.postprocess(Net(self.network), placed(self.seen(images)))
        confidence = torch.as_tensor(confidence).detach().double()
        return -confidence.to(images.device)

    def seen(self, images: Tensor) -> Tensor:
        """What the net sees: normalised images, without gradients."""
        with torch.no_grad():
            return self.network.normalize(images.detach().clone().to(self.network.device))

    def identity(self) -> Json | None:
        """The post-processor's class and settings, the network, and what it was set up with; None if out of reach."""
        own = told(self.postprocessor, "openood", "openood")
        val = self.val and self.val.fingerprint
        return own and {
            "adapter": "openood",
            "version": 1,
            "postprocessor": own,
            "network": self.network.digest,
            "train": self.fitted_on,
            "val": val,
        }


class FittedOpenOOD(OpenOOD):
    """One that must be set up."""

    def fit(self, images: ImageSet) -> None:
        ready = copied(self.postprocessor, [self.network])
        train, val = Loader(images, self), Loader(self.val or images, self)
        with left_alone([self.network]):
            ready.setup(Net(self.network), {"train": train, "val": val, "test": val}, {})
        self.ready, self.fitted_on = ready, images.fingerprint


class Loader:
    """A set as OpenOOD's loaders give it: dicts with "data" and "label", any number of times."""

    def __init__(self, images: ImageSet, owner: OpenOOD) -> None:
        self.images, self.owner = images, owner

    def __len__(self) -> int:
        return len(list(chunks(len(self.images))))

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        labels = self.images.labels
        for part in chunks(len(self.images)):
            data = self.owner.seen(self.images.batch(np.arange(part.start, part.stop)))
            classes = torch.full((len(data),), -1) if labels is None else torch.from_numpy(labels[part])
            yield {"data": placed(data), "label": placed(classes.to(data.device))}


class _Placed(Tensor):
    """A tensor that stays where it is: OpenOOD's post-processors call .cuda() on what loaders give, GPU or not."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    """What is computed from it is an ordinary tensor."""

    def cuda(self, *_: Any, **__: Any) -> Tensor:
        """Itself."""
        return self.as_subclass(Tensor)


def placed(tensor: Tensor) -> Tensor:
    """The tensor, such that .cuda() works where the network is on the processor."""
    return tensor if tensor.is_cuda else tensor.as_subclass(_Placed)


def _needs_setup(postprocessor: Any) -> bool:
    """Does it learn from inliers, and has not yet?"""
    owner = next((part for part in type(postprocessor).__mro__ if "setup" in vars(part)), None)
    return (
        owner is not None and owner.__name__ != "BasePostprocessor" and not getattr(postprocessor, "setup_flag", False)
    )
