"""Optional packages that need help to be imported."""

from __future__ import annotations

import importlib

import torch


def mend_torchvision() -> None:
    """Make torchvision, which timm and lpips import, importable on CPU builds of torch.

    Its extension is built for CUDA and does not load there, so that the operators it decorates on import are
    unknown; declaring them is enough for everything but those operators.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for operator in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", schema)
        importlib.import_module("torchvision")
