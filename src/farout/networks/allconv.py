"""All-convolutional network for small images (Springenberg et al. 2015), in the form of Hendrycks et al. 2019."""

from __future__ import annotations

from torch import Tensor, nn

from farout.networks.base import NETWORKS, he_initialize

UNSEEN = 2
"""Last rows and columns of the last map, which its average leaves out."""


class ScaledSiLU(nn.Module):
    """x·σ(1.702x), an approximation of the GELU (Hendrycks and Gimpel 2016, section 2)."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (1.702 * x).sigmoid()


def layer(inputs: int, outputs: int, kernel: int = 3, padding: int = 1) -> list[nn.Module]:
    """Build a convolution with bias, batch norm and the activation."""
    return [nn.Conv2d(inputs, outputs, kernel, padding=padding), nn.BatchNorm2d(outputs), ScaledSiLU()]


@NETWORKS.register("allconv")
class AllConv(nn.Module):
    """All-convolutional network, as the authors of outlier exposure build it for 32 px.

    Its 1×1 convolutions are padded: the last map has 10×10 positions, of which the average sees the first 8×8.
    At other sides the average leaves out the last two rows and columns too.
    width: channels of the first stage; the others have twice as many.
    """

    block_names = ("stage1", "stage2", "stage3")

    def __init__(self, classes: int, side: int, channels: int, width: int = 96) -> None:
        super().__init__()
        self.side, wide = side, 2 * width
        pool = [nn.MaxPool2d(2), nn.Dropout(0.5)]
        self.stage1 = nn.Sequential(*layer(channels, width), *layer(width, width), *layer(width, width), *pool)
        self.stage2 = nn.Sequential(*layer(width, wide), *layer(wide, wide), *layer(wide, wide), *pool)
        self.stage3 = nn.Sequential(
            *layer(wide, wide, padding=0), *layer(wide, wide, kernel=1), *layer(wide, wide, kernel=1)
        )
        self.linear = nn.Linear(wide, classes)
        he_initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage3(self.stage2(self.stage1(x)))
        return self.linear(x[:, :, :-UNSEEN, :-UNSEEN].mean((2, 3)))  # type: ignore[no-any-return]
