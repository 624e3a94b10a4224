"""Confidence-enhancing data augmentation (Hein et al. 2019, "Why ReLU Networks Yield High-Confidence Predictions Far
Away From the Training Data", section 4), and its form in Bitterwolf et al. 2020."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from farout.detectors.catalog import register
from farout.detectors.trained.classifier import renamed
from farout.detectors.trained.detector import Inputs, Outliers, Preset, TrainingSets
from farout.detectors.trained.fine_tuned import AnyNetworkDetector
from farout.detectors.trained.noise import noise_like
from farout.detectors.trained.plain_network import plain_network
from farout.identity import Json
from farout.networks.network import Network
from farout.training import Batch, Context, Position, Recipe, Stage, ramp
from farout.training.exposure import ExposedClassifier, uniform_cross_entropy

WEIGHT_DECAY = 0.005 / 128
"""Weight decay of GOOD's authors, whose losses are sums over 128 images; here they are means."""
LAYERS = {
    **{f"C{number}": f"features.{2 * number - 2}" for number in range(1, 6)},
    "L6": "features.11", "L7": "features.13", "L8": "linear",
}  # fmt: skip
"""Our names of XL's layers by those of GOOD's authors."""
AUGMENTATION = ("crop_flip", "autoaugment_cifar")

Ramp = tuple[float, float]
"""Start and stop of a linear rise, as fractions of a training."""


def progress(at: Position) -> float:
    """Return the finished fraction of a stage."""
    return at.step / at.steps


def max_log_probability(logits: Tensor) -> Tensor:
    """Return max_k log p_k of every image, [B]: the logarithm of the confidence."""
    return logits.log_softmax(1).amax(1)


class LowConfidence(ExposedClassifier):
    """Task of a classifier that is trained to be undecided on outliers, with a weight κ that rises during training.

    With outliers: cross entropy to the uniform distribution (Bitterwolf et al. 2020). Without: noise made from the
    training images, and its maximum log-probability (Hein et al. 2019, section 4).
    """

    stages: tuple[Stage, ...] = (Stage(),)

    def __init__(self, network: Network, sets: TrainingSets, *, batch: int, kappa: Ramp, weight: float = 1.0) -> None:
        """kappa: rise of κ, as fractions of the training. weight: final κ."""
        super().__init__(network, sets.val, sets.outliers, batch=batch, weight=weight)
        self.noise, self.kappa = sets.outliers is None, kappa

    @property
    def identity(self) -> Json:
        return {"exposed": super().identity, "name": "low confidence", "version": 1, "kappa": list(self.kappa)}

    @property
    def scalars(self) -> Mapping[str, Callable[[Position], float]]:  # type: ignore[override]
        return {"kappa": lambda at: ramp(progress(at), *self.kappa, 0.0, self.weight)}

    def select_outliers(self, batch: Batch, context: Context) -> Tensor:
        if self.noise:
            return noise_like(batch.images, context.generator)
        return super().select_outliers(batch, context)

    def outlier_weight(self, context: Context) -> float:
        return context.scalars["kappa"]

    def outlier_loss(self, logits: Tensor) -> Tensor:
        return max_log_probability(logits).mean() if self.noise else uniform_cross_entropy(logits)


@register
@dataclass(kw_only=True, eq=False)
class CEDA(AnyNetworkDetector):
    """CEDA: maximum softmax probability of a classifier that learned to be undecided on outliers, or on noise.

    With auxiliary outliers it is the version of GOOD's authors, which EvG tests. Without, the outliers and their loss
    are those of Hein et al. 2019; network and optimizer are the same. Losses are means where the authors add them up.
    """

    name = "ceda"
    outliers: ClassVar[Outliers] = "optional"
    kappa: ClassVar[Mapping[Preset, Ramp]] = {"small": (0.0, 0.4), "full": (60 / 420, 360 / 420)}
    """Rise of κ, the weight of the loss on outliers, as fractions of the training."""
    added: ClassVar[frozenset[str]] = AnyNetworkDetector.added | {"weight"}
    weight: float = 1.0
    """Final κ; 0 trains a plain classifier."""

    def recipe(self) -> Recipe:
        if self.preset == "small":
            return Recipe(epochs=12, batch=64, optimizer="adam", lr=1e-3, weight_decay=WEIGHT_DECAY, final_lr=1e-5)
        return Recipe(
            epochs=420, batch=128, optimizer="adam", lr=7.8e-4, weight_decay=WEIGHT_DECAY,
            schedule="milestones", milestones=(30, 100), factor=0.2, augment=AUGMENTATION,
        )  # fmt: skip

    def build_own(self, inputs: Inputs) -> Network:
        return plain_network(self.preset, inputs)

    def task(self, sets: TrainingSets) -> LowConfidence:
        self.load_start()
        return self.exposed(sets)

    def exposed(self, sets: TrainingSets) -> LowConfidence:
        """Return the task that trains `network`."""
        return LowConfidence(self.network, sets, batch=self.batch, kappa=self.kappa[self.preset], weight=self.weight)

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return our tensors from those of a network XL of GOOD's authors: CEDA, ACET or GOOD."""
        return renamed(tensors, LAYERS)
