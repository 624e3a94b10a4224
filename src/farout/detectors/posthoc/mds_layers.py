"""`mds_layers`: Mahalanobis distances at every block; the one detector that may learn from outliers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor

from farout.core import Activations, PostHoc, Split
from farout.detectors.catalog import register
from farout.detectors.math.gaussian import ROWS, fitted_gaussians, squared_distances
from farout.detectors.math.regression import logistic_regression
from farout.networks.passes import with_gradients

if TYPE_CHECKING:
    from farout.networks.network import Network


@register
@dataclass(kw_only=True)
class MDSLayers(PostHoc):
    """Mahalanobis distances at every block, of perturbed images, weighted (Lee et al. 2018, algorithm 1).

    **This is the one detector that may learn from outliers** (`supervised`): `panel.fit(train, val, outliers=images)`.
    M_l is the squared distance of block l's output, averaged over its positions, to the nearest class mean under one
    shared covariance, at x − ε·sign(∇ₓ M_l(x)) with pixels in [0, 1]: every block has its own perturbed image. The
    score is Σ_l α_l M_l + constant, the log-odds of a logistic regression between the outliers and as many inliers of
    the validation split. Its loss is Σ log-loss + ½‖w‖² with weights w of standardized M_l, scikit-learn's default; the
    authors select the penalty by cross-validation.

    Without outliers, after `fit` alone, every block's distance is divided by its mean over the training split (images
    not perturbed), and all are summed. `state["supervised"]` is True if it learned from outliers.

    Directions without variance in training are left out (pseudo-inverse). Perturbed images are not clipped to [0, 1].
    With L blocks an image costs L gradients and L + 1 passes; with epsilon=0 none, as it reads the shared pass.

    OpenOOD's mds_ensemble, as configured in v1.5, is M_1 alone with a step of 2ε in normalized pixels, taken also where
    the gradient is zero. It learns no weights, so it is not a variant of this detector.
    """

    name = "mds_layers"
    needs: ClassVar[frozenset[str]] = frozenset({"means"})
    fits_on: ClassVar[Split | None] = "train"
    supervised: ClassVar[bool] = True
    epsilon: float = 0.0014
    """Size of the perturbation, for pixels in [0, 1]; 0 for none."""

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon must be at least 0 and finite, got {self.epsilon}")

    @property
    def perturbs(self) -> bool:
        return self.epsilon > 0

    def check_fit(self, total: int, labeled: bool) -> None:
        if not labeled:
            raise ValueError("mds_layers needs the class of every training image: give a training set with labels")

    def check_network(self, activations: Activations) -> None:
        if not activations.means:
            raise ValueError("mds_layers reads the blocks' means, and these activations have none: needs={'means'}")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        self.check_network(activations)
        assert labels is not None
        present, classes = labels.unique(return_inverse=True)
        state: dict[str, Tensor] = {}
        for name, means in activations.means.items():
            _check_finite(name, means)
            whitener, centers = fitted_gaussians(means, classes, len(present))
            if not whitener.shape[1]:
                raise ValueError(
                    f"mds_layers: the means of block {name!r} do not vary within {len(present)} classes on "
                    f"{len(means)} training images; give more images per class, or name other blocks: "
                    "Network(..., blocks=[...])"
                )
            state |= {f"whitener:{name}": whitener, f"means:{name}": centers}
        self.state = state
        lengths = self._all_distances(activations).mean(0)
        self.state |= {
            "weights": 1 / lengths,
            "constant": lengths.new_zeros(()),
            "supervised": torch.tensor(False, device=lengths.device),
        }
        return self

    def supervise(self, inliers: Activations, outliers: Activations) -> None:
        rows = []
        for role, activations in (("inliers", inliers), ("outliers", outliers)):
            if not len(activations):
                raise ValueError(f"mds_layers got no {role} to learn from")
            rows.append(self._all_distances(activations))
            if not rows[-1].isfinite().all():
                raise ValueError(f"mds_layers: the blocks of the {role} to learn from gave NaN or infinity")
        weights, constant = logistic_regression(*rows)
        self.state |= {"weights": weights, "constant": constant, "supervised": self.fitted("supervised") | True}

    def perturbed_pass(self, network: Network, images: Tensor) -> Activations:
        if not self.perturbs:
            return super().perturbed_pass(network, images)
        with with_gradients():
            signs = self.signs(network, images)
        means: dict[str, Tensor] = {}
        for name, sign in signs.items():
            activations: Activations = network(images - self.epsilon * sign, needs=self.needs)
            means[name] = activations.means[name]
        return dataclasses.replace(activations, means=means)

    def signs(self, network: Network, images: Tensor) -> Mapping[str, Tensor]:
        """Return, by block, the sign of the gradient of the block's distance with respect to every pixel."""
        inputs = images.detach().requires_grad_()
        clean: Activations = network(inputs, needs=self.needs)
        self.check_network(clean)
        distances = {name: self._nearest(name, means).sum() for name, means in clean.means.items()}
        return {
            name: torch.autograd.grad(distance, inputs, retain_graph=True)[0].sign()
            for name, distance in distances.items()
        }

    def score(self, activations: Activations) -> Tensor:
        return self._distances(activations) @ self.fitted("weights") + self.fitted("constant")

    def _all_distances(self, activations: Activations) -> Tensor:
        """Return M_l of a long table, [N, blocks], computed on the state's device."""
        device = next(iter(self.state.values())).device if self.state else activations.logits.device
        return torch.cat([self._distances(part.to(device)) for part in activations.chunks(ROWS)])

    def _distances(self, activations: Activations) -> Tensor:
        """Return M_l of every row and block, [B, blocks]."""
        self.check_network(activations)
        return torch.stack([self._nearest(name, means) for name, means in activations.means.items()], 1)

    def _nearest(self, name: str, means: Tensor) -> Tensor:
        """Return the squared distance of every row of one block to the nearest class mean."""
        return squared_distances(means, self.fitted(f"whitener:{name}"), self.fitted(f"means:{name}")).amin(1)


def _check_finite(name: str, means: Tensor) -> None:
    if not all(rows.isfinite().all() for rows in means.split(ROWS)):
        raise ValueError(
            f"mds_layers: block {name!r} gives NaN or infinity on training images; check the network's weights for NaN"
        )
