"""A network, a data set and a shift of your own in a study.

Run it beside own_parts.yaml: farout run own_parts.yaml --plugin own_parts.py
"""

import numpy as np
from torch import nn

import farout


@farout.register(kind="network", name="small")
def small(classes, channels, width=8):
    """One convolution and the mean over places; gets those of classes, side and channels that it names."""
    body = [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(width, classes))


@farout.register(kind="dataset", name="stripes")
def stripes(split="test", count=300):
    """Noise, with horizontal or with vertical stripes."""
    rng = np.random.default_rng(["train", "val", "test"].index(split))
    images, labels = rng.integers(0, 80, (count, 16, 16, 3), np.uint8), np.arange(count) % 3
    images[labels == 1, ::2] += 150
    images[labels == 2, :, ::2] += 150
    return farout.ImageSet.from_arrays(images, labels, name="stripes")


@farout.register
class Dim(farout.Shift):
    """Half as bright."""

    name, random = "dim", False

    def apply(self, images, params):
        return images / 2
