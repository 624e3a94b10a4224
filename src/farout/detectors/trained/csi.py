"""CSI (Tack et al. 2020, arXiv:2007.08176): contrast with turned images as negatives, and naming the turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.checks import check_count
from farout.core import ImageSet
from farout.detectors.catalog import register
from farout.detectors.trained.contrastive.losses import contrastive_loss
from farout.detectors.trained.contrastive.network import ContrastiveNetwork
from farout.detectors.trained.contrastive.views import NUMBERS, Views
from farout.detectors.trained.detector import BY_PRESET, Inputs, Preset, TrainedDetector, TrainingSets
from farout.identity import Json
from farout.rng import generator
from farout.training import Batch, Context, Recipe, Task

TURNS = 4
"""Rotations by 0, 90, 180 and 270 degrees: the shifting transformation."""
HUE = 0.1 * 255 / 360
"""Largest turn of the hue: the authors' code adds 255 instead of 360 degrees per turn."""
TRAIN_VIEWS = Views(area=(0.08, 1.0), flip=False, hue=HUE, hsv=True)
TEST_VIEWS = Views(area=(0.54, 0.54), flip=False, hue=HUE, hsv=True)
TEMPERATURE = 0.5
ENCODER = ("conv1.", "bn1.", "layer")
"""Prefixes of the encoder's tensors in the authors' checkpoint."""


def turned(images: Tensor) -> Tensor:
    """Return the images turned by 0, 90, 180 and 270 degrees, one turn after the other: [4B, C, H, W]."""
    return torch.cat([images.rot90(turn, (2, 3)) for turn in range(TURNS)])


class ShiftContrast(Task):
    """Two views of all four turns of every image: contrast between all of them, and cross entropy of the turn.

    A view's positive is the other view of the same image in the same turn (eq. 5); the two losses are added (eq. 7).
    """

    def __init__(self, network: ContrastiveNetwork) -> None:
        self.network, self.modules = network, {"network": network}

    @property
    def identity(self) -> Json:
        return {"name": "csi", "version": 3}

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        views = torch.cat([self._views(batch.images, context.generator) for _ in range(2)])
        features = self.network(views)
        rows = TURNS * len(batch.images)
        groups = torch.arange(rows, device=views.device).repeat(2)
        turns = torch.arange(TURNS, device=views.device).repeat_interleave(len(batch.images)).repeat(2)
        contrast = contrastive_loss(self.network.unit(features), groups, TEMPERATURE)
        return contrast + F.cross_entropy(self.network.name_shift(features), turns)

    @staticmethod
    def _views(images: Tensor, draws: torch.Generator) -> Tensor:
        mirrored = torch.rand(len(images), generator=draws).to(images.device) < 0.5
        images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
        return TRAIN_VIEWS(turned(images), draws)


@register
@dataclass(kw_only=True, eq=False)
class CSI(TrainedDetector):
    """Similarity to the nearest training image, and confidence in the turn, over four turns (section 2.3, eq. 11).

    Every image is scored by the same random views, so that its score does not depend on its batch; the authors draw
    other ones for every image of a batch. The axes of all training images are kept, 2 KB each, and saved.
    """

    name = "csi"
    version = 3
    at_once = 64
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"width": 16, "views": 1},
        "full": {"width": 64, "views": 10},
    }
    width: int = BY_PRESET
    """Channels of the ResNet-18's first stage."""
    views: int = BY_PRESET
    """Views per turn that a score averages over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("views", self.views)

    def recipe(self) -> Recipe:
        if self.preset == "small":
            return Recipe(epochs=10, batch=32, optimizer="adam", lr=1e-3, weight_decay=0.0, augment="none")
        return Recipe(
            epochs=1000, batch=128, optimizer="lars", lr=1.0, exclude_1d=False, nesterov=False, weight_decay=1e-6,
            schedule="cosine", warmup_epochs=10, warmup_from=0.1, augment="none",
        )  # fmt: skip

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        network = ContrastiveNetwork(
            "resnet18", side=inputs.side, channels=inputs.channels, width=self.width, shifts=TURNS
        )
        return {"network": network}

    def task(self, sets: TrainingSets) -> Task:
        return ShiftContrast(self.network)

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return our tensors from those of the authors' ResNet-18 (last.model); heads of other modes are left out."""
        state = {f"network.encoder.{key}": tensors[key] for key in tensors if key.startswith(ENCODER)}
        for layer in ("simclr_layer.0", "simclr_layer.2", "shift_cls_layer"):
            state |= {f"network.{layer}.{kind}": tensors[f"{layer}.{kind}"] for kind in ("weight", "bias")}
        return state

    @property
    def network(self) -> ContrastiveNetwork:
        """Trained network."""
        network = self.modules["network"]
        assert isinstance(network, ContrastiveNetwork)
        return network

    def outputs(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return means over the views: projections [4, B, 128], and the logit of the right turn, [4, B]."""
        projections: list[Tensor] = []
        logits: list[Tensor] = []
        for view in range(self.views):
            features = self.network(self._view(images, view))
            projections.append(self.network.project(features).unflatten(0, (TURNS, len(images))))
            named = self.network.name_shift(features).unflatten(0, (TURNS, len(images)))
            logits.append(torch.stack([named[turn, :, turn] for turn in range(TURNS)]))
        return torch.stack(projections).mean(0), torch.stack(logits).mean(0)

    def _view(self, images: Tensor, number: int) -> Tensor:
        """Return one view of every turn, [4B, C, H, W]; a turn has the same random numbers for all images."""
        draws = torch.rand(TURNS, NUMBERS, generator=generator(0, "csi", number)).to(images.device)
        mirror = torch.rand(1, generator=generator(0, "csi", "mirror", number)) < 0.5
        images = turned(images.flip(3) if mirror else images)
        return TEST_VIEWS.apply(images, draws.repeat_interleave(len(images) // TURNS, 0))

    @torch.no_grad()
    def measure(self, train: ImageSet, *, seed: int) -> dict[str, Tensor]:
        """Return the axes of the training images, and the weights 1 / mean norm and 1 / mean logit of every turn."""
        device = next(self.network.parameters()).device
        parts = [self.outputs(part.to(device)) for part in train]
        projections, logits = (torch.cat(list(kind), 1) for kind in zip(*parts, strict=True))
        return {
            "axes": F.normalize(projections, dim=2),
            "contrast": 1 / projections.norm(dim=2).double().mean(1),
            "turn": 1 / logits.double().mean(1),
        }

    def compute(self, images: Tensor) -> Tensor:
        projections, logits = self.outputs(images)
        similar = torch.stack(list(map(_nearest, projections, self.statistics["axes"])))
        weigh = partial(torch.einsum, "t,tb->b")
        total = weigh(self.statistics["contrast"], similar.double()) + weigh(self.statistics["turn"], logits.double())
        return -total / TURNS


def _nearest(rows: Tensor, axes: Tensor) -> Tensor:
    """Return the largest product of every row with an axis, [B]."""
    return (rows @ axes.T).amax(1)
