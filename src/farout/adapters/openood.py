"""Adapter of OpenOOD's post-processors to a `farout.Network`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from farout.adapters.devices import cuda_on
from farout.adapters.libraries import seed_global_rngs
from farout.adapters.modules import code_of_class, copy_sharing, describe_object, preserve_modules
from farout.adapters.openood_loader import Loader, RaisingDict
from farout.adapters.openood_net import Net
from farout.adapters.openood_rules import Wrap, check_adaptable, finish_setup, wrapper_of
from farout.checks import check_count
from farout.core import Detector, ImageSet, NotFitted
from farout.identity import Json, describe_held
from farout.networks.network import Network


class OpenOOD(Detector):
    """Post-processor of OpenOOD on a `farout.Network`: OpenOOD(KNNPostprocessor(config), network).

    It gets the inputs that OpenOOD provides: normalized images, a net with return_feature, get_fc and so on, wrapped
    as in OpenOOD's evaluator (ReactNet, ASHNet, ScaleNet, AdaScaleANet, AdaScaleLNet), loaders of dicts with "data"
    and "label"; `.cuda()` goes to the network's device. Its confidence is larger for inliers, so scores are its
    negative. docs/adapters.md lists the supported post-processors; one that could not compute OpenOOD's scores is
    refused.

    `fit` sets up a copy, with the images as the loaders "train", "val" and "test" of the inliers, and no outliers.
    val: images for its loaders "val" and "test" instead.
    name: label in tables; by default its class's name.
    wrap: a function from the net to the net that the post-processor runs on; by default as in OpenOOD's evaluator.
    batch_size: images per batch of the loaders, by default as in OpenOOD's evaluator: nnguide keeps whole batches.
    seed: seed of the random draws, in `fit` and in each call of `score`.
    """

    def __new__(cls, postprocessor: Any = None, *_: Any, **__: Any) -> OpenOOD:
        needs = cls is OpenOOD and _needs_setup(postprocessor)
        return super().__new__(FittedOpenOOD if needs else cls)

    def __init__(
        self,
        postprocessor: Any,
        network: Network,
        *,
        val: ImageSet | None = None,
        name: str | None = None,
        wrap: Wrap | None = None,
        batch_size: int = 200,
        seed: int = 0,
    ) -> None:
        is_type = isinstance(postprocessor, type)
        if is_type or not all(callable(getattr(postprocessor, part, None)) for part in ("setup", "postprocess")):
            what = f"the class {postprocessor.__name__}" if is_type else type(postprocessor).__name__
            raise TypeError(f"expected a post-processor object with setup and postprocess, got {what}")
        if not isinstance(network, Network):
            got = type(network).__name__
            raise TypeError(f"expected a farout.Network, got {got}; wrap it: farout.Network(module, mean=…, std=…)")
        if network.head is None:
            raise ValueError("a post-processor of OpenOOD reads one network with a last layer, not an ensemble")
        check_count("batch_size", batch_size)
        self.postprocessor, self.network, self.val = postprocessor, network, val
        self.name = name or type(postprocessor).__name__.removesuffix("Postprocessor")
        check_adaptable(postprocessor, wrap, self.name)
        self.wrap = wrap or wrapper_of(postprocessor, self.name)
        self.batch_size, self.seed = batch_size, seed
        self.ready: Any = None if _needs_setup(postprocessor) else postprocessor
        self.fitted_on: str | None = None

    def score(self, images: Tensor) -> Tensor:
        if self.ready is None:
            raise NotFitted(f"{self.name} is not set up: call fit on inliers first")
        if not len(images):
            return images.new_empty(0, dtype=torch.float64)
        with self._net() as net:
            _, confidence = self.ready.postprocess(net, self.normalize_images(images))
        confidence = torch.as_tensor(confidence).detach().double()
        if confidence.shape not in ((len(images),), (len(images), 1)):
            shape = list(confidence.shape)
            raise ValueError(f"{self.name} gave confidences {shape} for {len(images)} images, expected [B] or [B, 1]")
        return -confidence.reshape(-1).to(images.device)

    @contextmanager
    def _net(self) -> Iterator[nn.Module]:
        """Yield the net that the post-processor runs on; network modes and random states are restored afterwards."""
        with preserve_modules([self.network]), seed_global_rngs(self.seed), cuda_on(self.network.device):
            net: nn.Module = Net(self.network, self.name)
            yield (net if self.wrap is None else self.wrap(net)).eval()

    def normalize_images(self, images: Tensor) -> Tensor:
        """Return the normalized images, without gradients."""
        with torch.no_grad():
            return self.network.normalize(images.detach().clone().to(self.network.device)).contiguous()

    def identity(self) -> Json | None:
        """Return the post-processor's class and settings, the network and the set-up images; None if unknown."""
        own = describe_object(self.postprocessor, "openood", "openood")
        wrapper: Any = self.wrap
        is_class = isinstance(wrapper, type)
        wrap = code_of_class(wrapper, "openood", "openood") if is_class else describe_held({"": wrapper})
        if own is None or wrap is None:
            return None
        return {
            "adapter": "openood",
            "version": 2,
            "postprocessor": own,
            "network": self.network.digest,
            "wrap": wrap,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "train": self.fitted_on,
            "val": self.val and self.val.fingerprint,
        }


class FittedOpenOOD(OpenOOD):
    """Post-processor that must be set up first."""

    def fit(self, images: ImageSet) -> None:
        ready = copy_sharing(self.postprocessor, [self.network])
        train, val = (
            Loader(part, self.batch_size, self.normalize_images, self.name) for part in (images, self.val or images)
        )
        outliers = RaisingDict(
            f"{self.name} learns from outliers ({{}}), which this adapter does not provide; set its parameters directly"
        )
        with self._net() as net:
            ready.setup(net, {"train": train, "val": val, "test": val}, outliers)
            finish_setup(ready)
        self.ready, self.fitted_on = ready, images.fingerprint


def _needs_setup(postprocessor: Any) -> bool:
    """Return True if it learns from inliers and is not set up yet."""
    owner = next((part for part in type(postprocessor).__mro__ if "setup" in vars(part)), None)
    return (
        owner is not None and owner.__name__ != "BasePostprocessor" and not getattr(postprocessor, "setup_flag", False)
    )
