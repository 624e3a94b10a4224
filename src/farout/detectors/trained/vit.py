"""Fine-tuned vision transformer (Fort et al. 2021, "Exploring the Limits of Out-of-Distribution Detection")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from farout.checks import check_choice
from farout.core import ImageSet, PostHoc
from farout.detectors.catalog import register
from farout.detectors.panel.sweeps import compute_activations
from farout.detectors.posthoc.mds import MDS
from farout.detectors.posthoc.msp import MSP
from farout.detectors.posthoc.rmds import RMDS
from farout.detectors.trained.detector import BY_PRESET, Inputs, Preset, TrainingSets
from farout.detectors.trained.fine_tuned import FineTunedDetector
from farout.networks.network import Network
from farout.networks.transformer import VisionTransformer
from farout.training import Recipe, Task
from farout.training.classifier import Classifier

Scoring = Literal["mds", "rmds", "msp"]
SCORES: Mapping[str, type[PostHoc]] = {"mds": MDS, "rmds": RMDS, "msp": MSP}


@register
@dataclass(kw_only=True, eq=False)
class ViT(FineTunedDetector):
    """Mahalanobis distance of the class token, or confidence, of a vision transformer fine-tuned on the inliers.

    The score is that of `mds`, `rmds` or `msp` on the transformer; the features are the class token after the last
    layer norm. Images are resized to the transformer's side, gray ones repeated in three channels.
    Full: ViT-B/16 from weights of ImageNet-21k (`start`), with Fort et al.'s batches of 512 and gradients of norm 1 at
    most; steps and learning rate are those of Mukhoti et al. 2022, appendix A.1.
    """

    name = "vit"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"side": 32, "patch": 4, "width": 64, "depth": 4},
        "full": {"side": 224, "patch": 16, "width": 768, "depth": 12},
    }
    scoring: Scoring = "mds"
    """Score: Mahalanobis distance ("mds"), relative to that of all classes ("rmds"), or 1 − max p ("msp")."""
    side: int = BY_PRESET
    """Side to which images are resized."""
    patch: int = BY_PRESET
    """Side of a patch."""
    width: int = BY_PRESET
    """Size of a token: 768 in ViT-B, 1,024 in ViT-L."""
    depth: int = BY_PRESET
    """Number of blocks: 12 in ViT-B, 24 in ViT-L."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("scoring", self.scoring, tuple(SCORES))

    def recipe(self) -> Recipe:
        if self.preset == "full":
            return Recipe.of(preset="raised_bar_vit", batch=512, clip=1.0)
        return Recipe(epochs=10, batch=64, optimizer="adamw", lr=1e-3, weight_decay=0.05, warmup_epochs=1)

    def check_fit(self, train: ImageSet, auxiliary_outliers: ImageSet | None = None) -> None:
        super().check_fit(train, auxiliary_outliers)
        if self.weights is None and self.preset == "full" and self.start is None:
            raise ValueError(
                "vit with preset full is fine-tuned from pretrained weights and got none: give start=FILE, such as "
                "timm's vit_base_patch16_224.augreg_in21k (model.safetensors); preset small trains from new weights"
            )

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        module = VisionTransformer(
            inputs.classes, self.side, channels=3, patch=self.patch, width=self.width, depth=self.depth
        )
        return {"network": Network(module, mean=[0.5] * 3, std=[0.5] * 3, head="head")}

    def task(self, sets: TrainingSets) -> Task:
        self.load_start()
        return Classifier(self.network, sets.val)

    @property
    def _measures(self) -> bool:
        return SCORES[self.scoring].fits_on is not None

    def measure(self, train: ImageSet, *, seed: int) -> dict[str, Tensor]:
        """Return what the post-hoc detector learns from the training images: class means and whitener."""
        if not self._measures:
            return {}
        detector = SCORES[self.scoring]()
        labels = None if train.labels is None else torch.from_numpy(train.labels)
        return detector.fit(compute_activations(self.network, train, detector.needs), labels).state

    def compute(self, images: Tensor) -> Tensor:
        detector = SCORES[self.scoring]()
        detector.state = self.statistics
        return detector.score(self.network(images, needs=()))
