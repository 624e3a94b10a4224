"""A post-processor of OpenOOD on a network of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from farout.adapters.devices import cuda_on
from farout.adapters.libraries import drawing_from
from farout.adapters.modules import code_of_class, copied, left_alone, told
from farout.adapters.openood_loader import Answering, Loader
from farout.adapters.openood_net import Net
from farout.adapters.openood_rules import Wrap, check_adaptable, settle, wrapper_of
from farout.checks import check_count
from farout.core import Detector, ImageSet, NotFitted
from farout.identity import Json, describe_held
from farout.networks.network import Network


class OpenOOD(Detector):
    """A post-processor of OpenOOD on a `farout.Network`: OpenOOD(KNNPostprocessor(config), network).

    It sees what OpenOOD's see: normalized images, a net with return_feature, get_fc and so on, wrapped as OpenOOD's
    evaluator wraps it (ReactNet, ASHNet, ScaleNet, AdaScaleANet, AdaScaleLNet), loaders of dicts with "data" and
    "label"; `.cuda()` goes to the network's device. Its confidence is larger for inliers, so scores are its negative.
    docs/adapters.md lists the post-processors that work; one that could not compute what OpenOOD does is refused.

    `fit` sets a copy up, with the images as the loaders "train", "val" and "test" of the inliers, and no outliers.
    val: images for its loaders "val" and "test" instead.
    name: what tables call it; its class's name by default.
    wrap: a function from the net to the net that the post-processor runs on; by default as OpenOOD's evaluator has it.
    batch_size: images per batch of the loaders, as OpenOOD's evaluator has it: nnguide keeps whole batches.
    seed: where random draws start from, in `fit` and in each call of `score`.
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
        given = isinstance(postprocessor, type)
        if given or not all(callable(getattr(postprocessor, part, None)) for part in ("setup", "postprocess")):
            what = f"the class {postprocessor.__name__}" if given else type(postprocessor).__name__
            raise TypeError(f"expected a post-processor with setup and postprocess, made with its config, got {what}")
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
            _, confidence = self.ready.postprocess(net, self.seen(images))
        confidence = torch.as_tensor(confidence).detach().double()
        if confidence.shape not in ((len(images),), (len(images), 1)):
            shape = list(confidence.shape)
            raise ValueError(f"{self.name} gave confidences {shape} for {len(images)} images, expected [B] or [B, 1]")
        return -confidence.reshape(-1).to(images.device)

    @contextmanager
    def _net(self) -> Iterator[nn.Module]:
        """The net that the post-processor runs on, evaluating; the network and the random generators are left alone."""
        with left_alone([self.network]), drawing_from(self.seed), cuda_on(self.network.device):
            net: nn.Module = Net(self.network, self.name)
            yield (net if self.wrap is None else self.wrap(net)).eval()

    def seen(self, images: Tensor) -> Tensor:
        """Return the images as the net sees them: normalized, without gradients."""
        with torch.no_grad():
            return self.network.normalize(images.detach().clone().to(self.network.device)).contiguous()

    def identity(self) -> Json | None:
        """The post-processor's class and settings, the network, and what it was set up with; None if out of reach."""
        own = told(self.postprocessor, "openood", "openood")
        given: Any = self.wrap
        is_class = isinstance(given, type)
        wrap = code_of_class(given, "openood", "openood") if is_class else describe_held({"": given})
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
    """One that must be set up."""

    def fit(self, images: ImageSet) -> None:
        ready = copied(self.postprocessor, [self.network])
        train, val = (Loader(part, self.batch_size, self.seen, self.name) for part in (images, self.val or images))
        outliers = Answering(
            f"{self.name} learns from outliers ({{}}), and this adapter gives it none; set what it learns"
        )
        with self._net() as net:
            ready.setup(net, {"train": train, "val": val, "test": val}, outliers)
            settle(ready)
        self.ready, self.fitted_on = ready, images.fingerprint


def _needs_setup(postprocessor: Any) -> bool:
    """Does it learn from inliers, and has not yet?"""
    owner = next((part for part in type(postprocessor).__mro__ if "setup" in vars(part)), None)
    return (
        owner is not None and owner.__name__ != "BasePostprocessor" and not getattr(postprocessor, "setup_flag", False)
    )
