"""Cost of a study at 1, 10 and 100 times as many images, detectors and chains: it should grow no faster than they do.

Seconds are those that this process computes with one thread, so that a busy machine changes them little. A study also
has a fixed cost, which a run of the smallest size shows; the exponent is that of the seconds above it.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import farout
from farout.networks import create, save_weights
from farout.study.spec import StudySpec

FACTORS = (1, 10, 100)
REPEATS = 2
"""Runs of every size, of which the fastest counts."""
IMAGES, CHAINS = 200, 32
"""Numbers of images and of chains at factor 1; of detectors it is one."""
OUTLIERS = "outliers.npz"
INLIERS = {"train": {"name": "toy", "split": "train", "limit": 500}, "test": {"name": "toy", "limit": 100}}
Content = Callable[[int], dict[str, Any]]


def images(count: int) -> dict[str, Any]:
    """Return a study that scores so many outliers."""
    return {"outliers": [{"name": OUTLIERS, "limit": count}], "detectors": ["msp", "knn"], "protocols": ["clean"]}


def detectors(count: int) -> dict[str, Any]:
    """Return a study of so many detectors."""
    members = [{"name": "knn", "k": 1 + number, "label": f"knn {1 + number}"} for number in range(count)]
    return {"outliers": [{"name": OUTLIERS, "limit": 500}], "detectors": members, "protocols": ["clean"]}


def chains(count: int) -> dict[str, Any]:
    """Return a study of searches with so many chains."""
    search = {"name": "evg", "variations": ["affine"], "methods": ["mh"], "chains": count, "steps": 10}
    return {"outliers": [{"name": OUTLIERS, "limit": count}], "detectors": ["msp"], "protocols": [search]}


STUDIES: dict[str, tuple[Content, int]] = {
    "images": (images, IMAGES), "detectors": (detectors, 1), "chains": (chains, CHAINS),
}  # fmt: skip


def seconds(content: dict[str, Any], weights: Path) -> float:
    """Return the CPU seconds of a run."""
    networks = [{"name": "lenet", "weights": str(weights)}]
    spec = StudySpec.model_validate(
        {"name": "scaling", "inliers": INLIERS, "networks": networks, "budget": "full", **content}
    )
    times = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            failed = farout.run(spec, folder, workers=0).outcome.failed
            times.append(time.process_time() - began)
            assert not failed, failed
    return min(times)


def fit(sizes: list[int], costs: list[float]) -> tuple[float, float]:
    """Return the exponent of a power law through the costs, and R² of the fit in logarithms."""
    x, y = np.log(sizes), np.log(costs)
    slope, level = np.polyfit(x, y, 1)
    return float(slope), float(1 - ((y - slope * x - level) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def measure(name: str, weights: Path) -> None:
    """Print the seconds of one kind of growth, and the fit."""
    content, base = STUDIES[name]
    sizes = [base * factor for factor in FACTORS]
    fixed = seconds(content(max(1, base // 10)) if base > 1 else images(500), weights)
    costs = [seconds(content(size), weights) for size in sizes]
    above = [max(cost - fixed, 1e-3) for cost in costs]
    (raw, r_raw), (exponent, r) = fit(sizes, costs), fit(sizes[1:] if base == 1 else sizes, above[base == 1 :])
    shown = "  ".join(f"{size:,}: {cost:.2f} s" for size, cost in zip(sizes, costs, strict=True))
    print(f"{name:<10} fixed {fixed:5.2f} s  {shown}", flush=True)
    print(f"{'':<10} exponent {raw:.2f} (R² {r_raw:.3f}); above the fixed cost {exponent:.2f} (R² {r:.3f})", flush=True)


def main() -> None:
    """Fits of the cost over two decades."""
    torch.set_num_threads(1)
    print("\nCost against size (CPU seconds of one thread)")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        drawn = np.random.default_rng(0).integers(0, 256, (IMAGES * FACTORS[-1], 32, 32, 3), np.uint8)
        np.savez(OUTLIERS, images=drawn)
        weights = Path(folder) / "lenet.safetensors"
        save_weights(create("lenet", 4, 32), weights)
        seconds(images(10), weights)  # imports and compiles
        for name in STUDIES:
            measure(name, weights)


if __name__ == "__main__":
    main()
