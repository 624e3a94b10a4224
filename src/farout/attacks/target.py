"""Target of an attack: a classifier, a detector, or both."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from farout.core import Activations, Detector, PostHoc
from farout.networks.network import Network
from farout.networks.passes import perturbed_pass


@dataclass(frozen=True)
class Target:
    """Network with an optional fitted detector. Gradients flow to images that require them.

    Every detector of this library passes gradients on, and they are the derivatives of its score almost everywhere:
    where the score is defined piecewise (selected class, neighbors, largest features), those of the active piece.
    Piecewise constant parts pass the gradient as in BPDA (Athalye et al. 2018, section 4.1), replaced by the identity:
    the sign of the step that odin and mds_layers take, so that the perturbed image moves as the image does. gram has a
    zero gradient where all statistics lie within its ranges: its score is 0 there, the lowest it can be.

    The network runs in evaluation mode. Weights and fitted tensors created in inference_mode, which gradients cannot
    pass, are copied.

    network: None for a detector that is attacked alone and reads images.
    detector: a post-hoc detector on the network, or one that reads images.
    on_pass: called with the number of images of every forward pass.
    """

    network: Network | None
    detector: PostHoc | Detector | None = None
    on_pass: Callable[[int], None] = lambda count: None

    def __post_init__(self) -> None:
        network, detector = self.network, self.detector
        with torch.inference_mode(False):
            if network is not None and _any_inference(chain(network.parameters(), network.buffers())):
                object.__setattr__(self, "network", copy.deepcopy(network))
            if isinstance(detector, PostHoc) and _any_inference(detector.state.values()):
                usable = copy.copy(detector)
                usable.state = {key: value.clone() for key, value in detector.state.items()}
                object.__setattr__(self, "detector", usable)

    @property
    def classifier(self) -> Network:
        """Network; raises if there is none."""
        if self.network is None:
            raise ValueError("this attack needs a classifier, got a detector alone: attack(name, network, …)")
        return self.network

    @property
    def classes(self) -> int:
        """Number of classes of the classifier; 0 without one."""
        return self.network.classes if self.network else 0

    def logits(self, images: Tensor) -> Tensor:
        """Return the classifier's logits, [B, C]."""
        return self._forward(images, frozenset()).logits

    def score(self, images: Tensor) -> Tensor:
        """Return the detector's scores, [B] float64."""
        if not isinstance(self.detector, PostHoc):
            return self._score_images(images)
        if self.detector.perturbs:
            return self._score_perturbed(self.detector, images)
        return self.detector.score(self._forward(images, self.detector.needs))

    def logits_and_scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and scores, from one forward pass unless the detector perturbs its input."""
        if not isinstance(self.detector, PostHoc) or self.detector.perturbs:
            return self.logits(images), self.score(images)
        activations = self._forward(images, self.detector.needs)
        return activations.logits, self.detector.score(activations)

    def _forward(self, images: Tensor, needs: frozenset[str]) -> Activations:
        self.on_pass(len(images))
        with self.classifier.evaluating():
            activations: Activations = self.classifier(_usable_in_graph(images), needs=needs)
        return activations

    def _score_perturbed(self, detector: PostHoc, images: Tensor) -> Tensor:
        self.on_pass(len(images))
        return detector.score(perturbed_pass(self.classifier, detector, images))

    def _score_images(self, images: Tensor) -> Tensor:
        if not isinstance(self.detector, Detector):
            raise ValueError("this attack needs a detector, got none: attack(…, detector=…)")
        self.on_pass(len(images))
        scores = torch.as_tensor(self.detector.score(_usable_in_graph(images))).to(images.device).double()
        if scores.shape != images.shape[:1]:
            raise ValueError(
                f"{self.detector.name} returned scores of shape {tuple(scores.shape)} for {len(images)} images, "
                f"expected ({len(images)},)"
            )
        return _usable_in_graph(scores)


def _any_inference(tensors: Iterable[Tensor]) -> bool:
    """Return True if any tensor was created in inference_mode."""
    return any(tensor.is_inference() for tensor in tensors)


def _usable_in_graph(tensor: Tensor) -> Tensor:
    """Return the tensor, copied if it was created in inference_mode and gradients may be needed."""
    return tensor.clone() if tensor.is_inference() and not torch.is_inference_mode_enabled() else tensor
