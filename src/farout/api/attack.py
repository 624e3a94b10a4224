"""`farout.attack`: attack images from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.judging import Attacked, attacked
from farout.attacks.victim import Victim
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
    """Attack images and judge what comes of it: `farout.attack("pgd", network, images, labels, epsilon=4 / 255)`.

    network: None for an attack on a detector alone that reads images by itself.
    images: anything that `farout.data.as_image_set` takes; a set, its name or a data set bring their labels along.
    detector: a fitted one, for attacks that go against it (adaptive_pgd, score_pgd): `panel["knn"]`.
    What is random depends on the seed and on an image's index, so that attacks that differ in a setting can be paired.
    A terminal shows a bar.
    """
    chosen = _chosen(name, params)
    victim = _victim(chosen, network, detector)
    given = as_image_set(images, channels=network.channels if network else 3)
    if labels is None and chosen.against != "detector":
        labels = given.labels
    targets = _labels(labels, len(given), victim.classes, chosen)
    parts = []
    with task(chosen.label, len(given) * chosen.passes(victim.classes), unit="passes") as count:
        for part in chunks(len(given)):
            order = range(part.start, part.stop)
            parts.append(attacked(chosen, victim, given.batch(order), targets[part], order, seed, count))
    return Attacked.joined(parts)


def _chosen(attack: str | Attack, params: dict[str, Any]) -> Attack:
    if isinstance(attack, str):
        return ATTACKS.create(attack, **params)
    if params:
        raise TypeError(f"settings go with an attack's name, got {', '.join(params)} beside one that is made already")
    return attack


def _victim(attack: Attack, network: Network | None, detector: PostHoc | Detector | None) -> Victim:
    """What is attacked; a panel's member as what reads the network, so that one pass serves both."""
    if network is not None and not isinstance(network, Network):
        raise TypeError(f"expected a farout.Network, got {type(network).__name__}: wrap it first")
    if network is None and (attack.against != "detector" or isinstance(detector, PostHoc)):
        raise ValueError(f"{attack.name} on {getattr(detector, 'name', 'a classifier')} needs the network, got None")
    if attack.against != "classifier" and not isinstance(detector, PostHoc | Detector):
        got = "none was given" if detector is None else f"got {type(detector).__name__}"
        raise ValueError(f"{attack.name} goes against a detector, {got}: attack(…, detector=panel['knn'])")
    if attack.against == "classifier" and detector is not None:
        raise ValueError(
            f"{attack.name} goes against the classifier alone: leave out detector=, or choose adaptive_pgd"
        )
    if isinstance(detector, Member) and detector.panel.network is network:
        return Victim(network, detector.panel.detectors[detector.name])
    return Victim(network, detector)


def _labels(labels: Any, total: int, classes: int, attack: Attack) -> Tensor:
    """True classes, [N]."""
    if not total:
        raise ValueError("there are no images to attack")
    if attack.against == "detector":
        return torch.zeros(total, dtype=torch.int64)
    if labels is None:
        raise ValueError(f"{attack.name} makes a classifier err, and needs the images' true labels")
    found = labels.detach().cpu() if isinstance(labels, Tensor) else torch.as_tensor(np.asarray(labels))
    if found.shape != (total,) or found.is_floating_point():
        raise ValueError(f"expected {total} labels, one per image, got {found.dtype} of shape {tuple(found.shape)}")
    if found.min() < 0 or found.max() >= classes:
        raise ValueError(
            f"labels run from {found.min()} to {found.max()}, the network has {classes} classes (0 to {classes - 1})"
        )
    return found.long()
