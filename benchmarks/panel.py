"""A panel's cost over a bare forward pass: everything is fitted and scored from one pass per image.

Without odin, which looks at images of its own and so costs two more passes and a gradient by nature.
"""

from __future__ import annotations

import numpy as np
import torch

import farout
from benchmarks.timing import show, timed
from farout.core import CHUNK, ImageSet

IMAGES = {"resnet20": 1024, "resnet18": 320}
"""Images of each split to fit on, and as many to score."""
DETECTORS = [name for name in farout.detectors.names() if name != "odin"]


def random_set(seed: int, images: int, classes: int = 10) -> ImageSet:
    """Random images with labels: what is on them does not matter here."""
    rng = np.random.default_rng(seed)
    return ImageSet.from_arrays(rng.integers(0, 256, (images, 32, 32, 3), np.uint8), rng.integers(0, classes, images))


def measure(name: str, count: int) -> None:
    """Fit on two splits and score a third, beside as many images through the bare module."""
    network = farout.networks.create(name, classes=10, side=32)
    train, val, test = (random_set(seed, count) for seed in range(3))
    panel = farout.Panel(network, DETECTORS)
    batches = [images.batch(range(i, i + CHUNK)) for images in (train, val, test) for i in range(0, count, CHUNK)]
    ready = [network.normalize(batch) for batch in batches]

    def bare() -> None:
        with torch.inference_mode():
            for batch in ready:
                network.module(batch)

    def ours() -> None:
        panel.fit(train, val)
        panel.score(test)

    title = f"{name}: {len(DETECTORS)} detectors (without odin, which takes two passes more of its own),"
    title += f" fit on {count} + {count} and score {count} images of 32 px"
    show(title, timed({"bare forward passes": bare, "farout.Panel, fit and score": ours}, 3), "bare forward passes")


def main() -> None:
    """Both networks, on one thread."""
    torch.set_num_threads(1)
    for name, count in IMAGES.items():
        measure(name, count)


if __name__ == "__main__":
    main()
