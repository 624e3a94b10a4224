"""A small data set, and studies that generate sets from it in a few seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

SIDE, COUNT = 16, 100
MEMBERS = [{"name": "lenet", "seed": seed, "train": {"epochs": 2, "batch": 40, "augment": "none"}} for seed in (1, 2)]
GAN: dict[str, Any] = {"name": "dcgan", "width": 4, "dim": 4, "train": {"epochs": 2, "batch": 32}}
NEAR = {"name": "near_ood", "generator": GAN, "ensemble": MEMBERS, "lambda_s": [1, 2], "count": COUNT}
SHIFTED = {
    "name": "shifted",
    "generator": {"name": "pix2pix", "width": 4, "train": {"epochs": 1, "batch": 32}},
    "ensemble": MEMBERS,
}
PLAIN = {"name": "generated", "generator": GAN, "count": 70}


def write_data(folder: Path) -> Path:
    """Write bright and dark blobs: 128 training, 70 validation and 70 test images of 16 px, one channel."""
    rng = np.random.default_rng(0)
    arrays = {}
    for split, total in (("train", 128), ("val", 70), ("test", 70)):
        labels = np.arange(total) % 2
        images = rng.integers(0, 60, (total, SIDE, SIDE), np.uint8)
        images[:, 4:12, 4:12] += (60 + 120 * labels).astype(np.uint8)[:, None, None]
        arrays |= {f"{split}_images": images, f"{split}_labels": labels}
    np.savez(folder / "blobs.npz", **arrays)
    return folder / "blobs.npz"


def study(folder: Path, *outliers: dict[str, Any], **changes: Any) -> Path:
    """Write a study of these generated sets beside the data set."""
    write_data(folder)
    content = {
        "inliers": "blobs.npz",
        "outliers": list(outliers),
        "networks": MEMBERS[:1],
        "detectors": ["msp"],
        "budget": "full",
        **changes,
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    return folder / "study.yaml"
