"""What is attacked: a classifier, and with it a detector where the attack goes against both."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from farout.core import Activations, Detector, PostHoc
from farout.networks.network import Network
from farout.networks.passes import look


@dataclass(frozen=True)
class Victim:
    """A network, and perhaps a fitted detector. Gradients flow to images that require them.

    Every detector of this library hands them on, and they are the derivatives of its score almost everywhere: where the
    score is made of pieces (the choice of class, neighbours, largest features), those of the piece in force. Parts that
    are constant but for jumps pass the gradient as in BPDA (Athalye et al. 2018, section 4.1), with the identity for a
    stand-in: the sign of the step that odin and mds_layers take, so that the perturbed image moves as the image does.
    gram has no gradient where everything lies within its ranges: its score is 0 there, and can fall no further.

    The network runs in evaluation mode. Of weights and fitted tensors made in inference_mode, which gradients cannot
    pass, it holds copies.

    network: None where a detector that brings its own is attacked alone.
    detector: a post-hoc one that reads the network, or one that reads images.
    passed: called with the number of images of every pass.
    """

    network: Network | None
    detector: PostHoc | Detector | None = None
    passed: Callable[[int], None] = lambda count: None

    def __post_init__(self) -> None:
        network, detector = self.network, self.detector
        with torch.inference_mode(False):
            if network is not None and _barred(chain(network.parameters(), network.buffers())):
                object.__setattr__(self, "network", copy.deepcopy(network))
            if isinstance(detector, PostHoc) and _barred(detector.state.values()):
                passable = copy.copy(detector)
                passable.state = {key: value.clone() for key, value in detector.state.items()}
                object.__setattr__(self, "detector", passable)

    @property
    def classifier(self) -> Network:
        """The network; an error where there is none."""
        if self.network is None:
            raise ValueError("this attack goes against a classifier, and the detector reads images by itself")
        return self.network

    @property
    def classes(self) -> int:
        """How many the classifier tells apart; 0 where there is none."""
        return self.network.classes if self.network else 0

    def logits(self, images: Tensor) -> Tensor:
        """What the classifier says, [B, C]."""
        return self._pass(images, frozenset()).logits

    def score(self, images: Tensor) -> Tensor:
        """What the detector says, [B] float64."""
        if not isinstance(self.detector, PostHoc):
            return self._read(images)
        if self.detector.perturbs:
            return self._looked(self.detector, images)
        return self.detector.score(self._pass(images, self.detector.needs))

    def both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and scores, from one pass where the detector reads the images as they are."""
        if not isinstance(self.detector, PostHoc) or self.detector.perturbs:
            return self.logits(images), self.score(images)
        activations = self._pass(images, self.detector.needs)
        return activations.logits, self.detector.score(activations)

    def _pass(self, images: Tensor, needs: frozenset[str]) -> Activations:
        self.passed(len(images))
        with self.classifier.evaluating():
            activations: Activations = self.classifier(_passable(images), needs=needs)
        return activations

    def _looked(self, detector: PostHoc, images: Tensor) -> Tensor:
        self.passed(len(images))
        return detector.score(look(self.classifier, detector, images))

    def _read(self, images: Tensor) -> Tensor:
        if not isinstance(self.detector, Detector):
            raise ValueError("this attack goes against a detector, and none was given: attack(…, detector=…)")
        self.passed(len(images))
        scores = torch.as_tensor(self.detector.score(_passable(images))).to(images.device).double()
        if scores.shape != images.shape[:1]:
            raise ValueError(
                f"{self.detector.name} returned scores of shape {tuple(scores.shape)} for {len(images)} images, "
                f"expected ({len(images)},)"
            )
        return _passable(scores)


def _barred(tensors: Iterable[Tensor]) -> bool:
    """Is any of them made in inference_mode?"""
    return any(tensor.is_inference() for tensor in tensors)


def _passable(tensor: Tensor) -> Tensor:
    """The tensor, fit for gradients where these are wanted."""
    return tensor.clone() if tensor.is_inference() and not torch.is_inference_mode_enabled() else tensor
