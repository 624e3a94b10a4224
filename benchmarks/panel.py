"""A panel's cost over a bare forward pass: everything is fitted and scored from one pass per image."""

from __future__ import annotations

import numpy as np
import torch

import farout
from benchmarks.timing import show, timed
from farout.core import CHUNK, ImageSet

IMAGES = {"resnet20": 1024, "resnet18": 256}
"""Images to fit on, and as many to score."""


def random_set(seed: int, images: int, classes: int = 10) -> ImageSet:
    """Random images with labels: what is on them does not matter here."""
    rng = np.random.default_rng(seed)
    return ImageSet.from_arrays(rng.integers(0, 256, (images, 32, 32, 3), np.uint8), rng.integers(0, classes, images))


def main() -> None:
    """Fit on one set and score another, beside as many images through the bare module; on one thread."""
    torch.set_num_threads(1)
    for name, count in IMAGES.items():
        network = farout.networks.create(name, classes=10, side=32)
        train, test = random_set(0, count), random_set(1, count)
        panel = farout.Panel(network, farout.detectors.names())
        batches = [images.batch(range(i, i + CHUNK)) for images in (train, test) for i in range(0, count, CHUNK)]
        ready = [network.normalize(batch) for batch in batches]

        def bare(module: torch.nn.Module = network.module, ready: list[torch.Tensor] = ready) -> None:
            with torch.inference_mode():
                for batch in ready:
                    module(batch)

        def ours(panel: farout.Panel = panel, train: ImageSet = train, test: ImageSet = test) -> None:
            panel.fit(train)
            panel.score(test)

        title = f"{name}: {len(panel.detectors)} detectors, fit on {count} and score {count} images of 32 px"
        show(title, timed({"bare forward passes": bare, "farout.Panel, fit and score": ours}, 3), "bare forward passes")


if __name__ == "__main__":
    main()
