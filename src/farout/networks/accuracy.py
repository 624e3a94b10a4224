"""Accuracy of a classifier, and the check that labels fit it."""

from __future__ import annotations

import numpy as np
import torch

from farout.core import ImageSet
from farout.networks.network import Network
from farout.tensors import chunks


def accuracy(network: Network, images: ImageSet) -> float:
    """Return the fraction of images whose largest logit is their label's; the network is put in eval mode."""
    return accuracy_and_largest_logit(network, images)[0]


@torch.inference_mode()
def accuracy_and_largest_logit(network: Network, images: ImageSet) -> tuple[float, float]:
    """Return the accuracy and the largest logit of all images and classes, NaN if any logit is NaN."""
    check_labels(images, network.classes, "evaluation")
    assert images.labels is not None
    network.eval()
    correct, largest = 0, torch.tensor(-torch.inf)
    for part in chunks(len(images), 128):
        logits = network(images.batch(np.arange(part.start, part.stop)).to(network.device), needs=()).logits
        correct += int((logits.argmax(1).cpu().numpy() == images.labels[part]).sum())
        largest = torch.maximum(largest, logits.max().float().cpu())
    return correct / len(images), float(largest)


def check_labels(images: ImageSet, classes: int, role: str) -> None:
    """Raise a clear error where a classifier cannot be trained or validated on a set."""
    if not len(images):
        raise ValueError(f"the {role} set {images.name!r} is empty; expected at least one image")
    if images.labels is None:
        raise ValueError(f"the {role} set {images.name!r} has no labels; training needs a class index per image")
    low, high = int(images.labels.min()), int(images.labels.max())
    if low < 0 or high >= classes:
        raise ValueError(
            f"the {role} set {images.name!r} has labels from {low} to {high}, the network has {classes} classes "
            f"(0 to {classes - 1}); create it with classes={high + 1} or map the labels"
        )
    if role == "training" and low == high:
        raise ValueError(
            f"all {len(images):,} images of the training set {images.name!r} have the label {low}; a classifier "
            "needs at least two classes"
        )
