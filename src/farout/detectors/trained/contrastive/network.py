"""ResNet with a projection head, as contrastive learning trains it."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from farout.networks.base import NETWORKS


class ContrastiveNetwork(nn.Module):
    """Encoder of images in [0, 1], a head that projects its features for the loss, and a head that names the shift.

    The names of the layers are those of CSI's code. shifts: outputs of the shift head; 0 for none.
    mean, std: normalizer, one number for all channels or one per channel.
    """

    def __init__(
        self, name: str, *, side: int, channels: int, width: int, shifts: int = 0,
        mean: float | Sequence[float] = 0.5, std: float | Sequence[float] = 0.5,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mean, self.std, self.side = mean, std, side
        self.encoder = NETWORKS.create(name, classes=1, side=side, channels=channels, width=width)
        last = self.encoder.linear
        assert isinstance(last, nn.Linear)
        size = last.in_features
        self.encoder.linear = nn.Identity()
        self.simclr_layer = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 128))
        self.shift_cls_layer = nn.Linear(size, shifts) if shifts else None

    def forward(self, images: Tensor) -> Tensor:
        """Return the features [B, D]."""
        mean, std = (images.new_tensor(one).view(-1, 1, 1) for one in (self.mean, self.std))
        return self.encoder((images - mean) / std)  # type: ignore[no-any-return]

    def project(self, features: Tensor) -> Tensor:
        """Return the output of the projection head, [B, 128]."""
        return self.simclr_layer(features)  # type: ignore[no-any-return]

    def unit(self, features: Tensor) -> Tensor:
        """Return the projections with unit norm."""
        return F.normalize(self.project(features), dim=1)

    def name_shift(self, features: Tensor) -> Tensor:
        """Return the logits of the shifts, [B, shifts]."""
        assert self.shift_cls_layer is not None
        return self.shift_cls_layer(features)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"mean={self.mean}, std={self.std}"
