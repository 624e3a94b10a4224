"""Log-likelihoods of glow and pixelcnn: beside normflows' flow of the same size, and beside the bare network.

We know no package for torch that has PixelCNN++, so pixelcnn is compared with its network alone, which any other must
compute too. TensorFlow Probability has it (`tfp.distributions.PixelCNN`), on another framework: it is not compared.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import Time, show, timed
from farout.detectors.trained.glow import Glow
from farout.detectors.trained.pixelcnn import PixelCNN
from farout.processes import torch_threads

IMAGES, SIDE = 64, 32


def normflows_glow(levels: int, depth: int, width: int) -> Any:
    """Return normflows' flow of the same size; its splits have no learned prior."""
    import normflows as nf

    flows, bases, channels, side = [], [], 3, SIDE
    for level in range(levels):
        channels, side = 4 * channels, side // 2
        blocks = [nf.flows.GlowBlock(channels, width, use_lu=False, net_actnorm=True) for _ in range(depth)]
        flows.append([*blocks, nf.flows.Squeeze()])
        channels = channels // 2 if level < levels - 1 else channels
        bases.append(nf.distributions.DiagGaussian((channels, side, side), trainable=False))
    merges = [nf.flows.Merge() for _ in flows[1:]]
    return nf.MultiscaleFlow(bases[::-1], flows[::-1], merges, nf.transforms.Logit(0.05), class_cond=False)


def main() -> None:
    torch.manual_seed(0)
    images = torch.rand(IMAGES, 3, SIDE, SIDE)
    detector, pixels = Glow(), PixelCNN().density(3, SIDE).eval()
    flow = detector.density(3, SIDE).eval()
    flow.initialize(images)
    functions: dict[str, Callable[[], Tensor]] = {"farout": lambda: flow.log_likelihood(images)}
    if importlib.util.find_spec("normflows"):
        peer = normflows_glow(detector.levels, detector.depth, detector.width).eval()
        functions["normflows"] = lambda: peer.log_prob(images, None)
    with torch_threads(1), torch.no_grad():
        times = timed(functions)
        show(f"Log-likelihood of {IMAGES} images, glow (small)", times, list(functions)[-1])
        _rates(times)
        times = timed(
            {"farout": lambda: pixels.log_likelihood(images), "network alone": lambda: pixels(2 * images - 1)}
        )
        show(f"Log-likelihood of {IMAGES} images, pixelcnn (small)", times, "network alone")
        _rates(times)


def _rates(times: dict[str, Time]) -> None:
    for name, time in times.items():
        print(f"{name}: {IMAGES / time.seconds:.0f} images per second")


if __name__ == "__main__":
    main()
