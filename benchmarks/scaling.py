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
from numpy.typing import NDArray

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


def power(sizes: list[int], costs: list[float]) -> tuple[float, float]:
    """Return the exponent of a power law through the costs, and R² of the fit in logarithms."""
    x, y = np.log(sizes), np.log(costs)
    slope, level = np.polyfit(x, y, 1)
    return float(slope), _explained(y, slope * x + level)


def line(sizes: list[int], costs: list[float]) -> tuple[float, float, float]:
    """Return the fixed cost and the cost of one more of a line through the costs, by relative errors, and its R²."""
    x, y = np.array(sizes, float), np.array(costs)
    slope, level = np.polyfit(x, y, 1, w=1 / y)
    return float(level), float(slope), _explained(y, slope * x + level)


def _explained(values: NDArray[np.float64], fitted: NDArray[np.float64]) -> float:
    return float(1 - ((values - fitted) ** 2).sum() / ((values - values.mean()) ** 2).sum())


def measure(name: str, weights: Path) -> None:
    """Print the seconds of one kind of growth, and the fits."""
    content, base = STUDIES[name]
    sizes = [base * factor for factor in FACTORS]
    costs = [seconds(content(size), weights) for size in sizes]
    fixed, each, r = line(sizes, costs)
    above = [max(cost - fixed, 1e-3) for cost in costs]
    exponent = power(sizes[1:], above[1:])[0]
    shown = "  ".join(f"{size:,}: {cost:.2f} s" for size, cost in zip(sizes, costs, strict=True))
    print(f"{name:<10} {shown}", flush=True)
    print(f"{'':<10} line: {fixed:.2f} s + {1000 * each:.3f} ms each, R² {r:.4f}", flush=True)
    print(f"{'':<10} exponent of the whole {power(sizes, costs)[0]:.2f} (R² {power(sizes, costs)[1]:.3f}); ", end="")
    print(f"of the second decade above the fixed cost {exponent:.2f}", flush=True)


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
