"""`farout.attack`: attack images from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.judging import Attacked, run_attack
from farout.attacks.target import Target
from farout.core import Detector, PostHoc
from farout.data import as_image_set
from farout.detectors.panel.panel import Member
from farout.networks.network import Network
from farout.progress import task
from farout.tensors import chunks


def attack(
    name: str | Attack,
    network: Network | None,
    images: Any,
    labels: Any = None,
    *,
    detector: PostHoc | Detector | None = None,
    seed: int = 0,
    **params: Any,
) -> Attacked:
    """Attack images and judge the result: `farout.attack("pgd", network, images, labels, epsilon=4 / 255)`.

    network: the classifier; None for an attack on a detector that reads images directly.
    images: any input of `farout.data.as_image_set`; a set, its name or a data set provide their own labels.
    detector: a fitted detector, for attacks on detectors (adaptive_pgd, score_pgd): `panel["knn"]`.
    Randomness depends on the seed and the image's index, so attacks that differ in one setting can be paired.
    A progress bar is shown on a terminal.
    """
    selected = _build_attack(name, params)
    target = _build_target(selected, network, detector)
    inputs = as_image_set(images, channels=network.channels if network else 3)
    if labels is None and selected.against != "detector":
        labels = inputs.labels
    true_labels = _parse_labels(labels, len(inputs), target.classes, selected)
    parts = []
    with task(selected.label, len(inputs) * selected.passes(target.classes), unit="passes") as count:
        for part in chunks(len(inputs)):
            order = range(part.start, part.stop)
            parts.append(run_attack(selected, target, inputs.batch(order), true_labels[part], order, seed, count))
    return Attacked.concatenate(parts)


def _build_attack(attack: str | Attack, params: dict[str, Any]) -> Attack:
    if isinstance(attack, str):
        return ATTACKS.create(attack, **params)
    if not isinstance(attack, Attack):
        raise TypeError(f"expected the name of an attack or an Attack, got {attack!r:.80}; farout list attacks")
    if params:
        raise TypeError(
            f"got settings {', '.join(params)} together with an attack object; give them to its constructor instead"
        )
    return attack


def _build_target(attack: Attack, network: Network | None, detector: PostHoc | Detector | None) -> Target:
    """Return the target; a member of a panel on `network` becomes its post-hoc detector, to share the forward pass."""
    if network is not None and not isinstance(network, Network):
        raise TypeError(f"expected a farout.Network, got {type(network).__name__}: wrap it first")
    if network is None and (attack.against != "detector" or isinstance(detector, PostHoc)):
        raise ValueError(f"{attack.name} on {getattr(detector, 'name', 'a classifier')} needs the network, got None")
    if attack.against != "classifier" and not isinstance(detector, PostHoc | Detector):
        got = "got none" if detector is None else f"got {type(detector).__name__}"
        raise ValueError(f"{attack.name} attacks a detector, {got}: attack(…, detector=panel['knn'])")
    if attack.against == "classifier" and detector is not None:
        raise ValueError(f"{attack.name} attacks the classifier alone: leave out detector=, or select adaptive_pgd")
    if isinstance(detector, Member) and detector.panel.network is network:
        return Target(network, detector.panel.detectors[detector.name])
    return Target(network, detector)


def _parse_labels(labels: Any, total: int, classes: int, attack: Attack) -> Tensor:
    """Return the true classes, int64 [N]; zeros for an attack on a detector alone."""
    if not total:
        raise ValueError("there are no images to attack")
    if attack.against == "detector":
        return torch.zeros(total, dtype=torch.int64)
    if labels is None:
        raise ValueError(f"{attack.name} attacks a classifier and needs the images' true labels: attack(…, labels=…)")
    try:
        parsed = labels.detach().cpu() if isinstance(labels, Tensor) else torch.as_tensor(np.asarray(labels))
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected {total} labels, one whole number per image, got {labels!r:.80}") from error
    if parsed.shape != (total,) or parsed.is_floating_point():
        raise ValueError(f"expected {total} labels, one per image, got {parsed.dtype} of shape {tuple(parsed.shape)}")
    if parsed.min() < 0 or parsed.max() >= classes:
        raise ValueError(
            f"labels run from {parsed.min()} to {parsed.max()}, the network has {classes} classes (0 to {classes - 1})"
        )
    return parsed.long()
