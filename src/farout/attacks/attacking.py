"""An attack run, and its images judged: clipped, rounded and shown to the classifier again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout import rng
from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.estimates import without_gradient
from farout.attacks.victim import Victim
from farout.core import Detector, PostHoc, as_images, chunks
from farout.data import as_image_set
from farout.detectors.panel import Member
from farout.detectors.passes import with_gradients
from farout.networks.network import Network
from farout.watch import watching

Progress = Callable[[int], None]
"""Called with the number of passes since the last call."""


@dataclass(frozen=True)
class Attacked:
    """Attacked images and what became of each; everything on the CPU.

    An attack on the classifier succeeds where the prediction is wrong; on a detector alone, where its score goes down.
    """

    images: Tensor
    """float32 [N, C, H, W] in [0, 1]."""
    clean_correct: Tensor
    """Was the image classified right as it was? bool [N]; never where images have no labels."""
    success: Tensor
    """bool [N]; in the public convention also where the image was classified wrong before."""
    success_8bit: Tensor
    """The same after rounding to 8 bits, as a file would hold the image."""
    l2: Tensor
    """Length of the change, [N]."""
    linf: Tensor
    """Its largest pixel, [N]."""
    estimated: Tensor
    """Has the detector's score no gradient, so that attacks must estimate one? bool [N], the same for all."""

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        rates = f"success {self.asr:.1%} of all"
        rates += f", {self.asr_of_correct:.1%} of those classified right" if self.clean_correct.any() else ""
        return f"<Attacked: {len(self)} images, {rates}, median L2 {self.l2.median().item():.3g}>"

    @property
    def asr(self) -> float:
        """Attack success rate in the public convention: wrong afterwards, whatever it was before."""
        return self.success.double().mean().item()

    @property
    def asr_of_correct(self) -> float:
        """Attack success rate among the images that were classified right; NaN where there are none."""
        return self.success[self.clean_correct].double().mean().item()

    @staticmethod
    def joined(parts: Sequence[Attacked]) -> Attacked:
        """Several, one after the other."""
        return Attacked(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Attacked)))


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
    with watching() as bar:
        bar.total(len(given) * chosen.passes(victim.classes))
        for part in chunks(len(given)):
            order = range(part.start, part.stop)
            follow = partial(bar.advance, title=chosen.label)
            parts.append(attacked(chosen, victim, given.batch(order), targets[part], order, seed, follow))
    return Attacked.joined(parts)


def attacked(
    attack: Attack,
    victim: Victim,
    images: Tensor,
    labels: Tensor,
    indices: Sequence[int],
    seed: int,
    progress: Progress = lambda passes: None,
) -> Attacked:
    """One chunk of images, attacked and judged. indices: which images these are, for what is random.

    It happens where the network is; without one, where the images are. progress: told of passes, `attack.passes` of
    every image in all.
    """
    images = as_images(images, victim.network.device if victim.network else images.device).clamp(0, 1)
    labels = labels.to(images.device)
    rngs = [rng.generator(seed, attack.name, index) for index in indices]
    passes = _Passes(len(images) * attack.passes(victim.classes), progress)
    with victim.network.evaluating() if victim.network else nullcontext():
        with with_gradients():
            found = attack.run(replace(victim, passed=passes.count), images.clone(), labels, rngs).detach()
        passes.count(passes.left)
        found = _sound(found, images, attack).clamp(0, 1)
        estimated = attack.against != "classifier" and without_gradient(victim, images)
        with torch.inference_mode():
            return _judged(attack, victim, images, found, labels, estimated)


@dataclass
class _Passes:
    """Tells of passes, as many as there were to be: not all are needed, or estimates take more."""

    left: int
    progress: Progress

    def count(self, passes: int) -> None:
        told = min(passes, self.left)
        self.left -= told
        self.progress(told)


def _judged(attack: Attack, victim: Victim, images: Tensor, found: Tensor, labels: Tensor, estimated: bool) -> Attacked:
    rounded = found.mul(255).round_().div_(255)
    change = (found - images).flatten(1)
    if attack.against == "detector":
        before = victim.score(images)
        correct = torch.zeros_like(labels, dtype=torch.bool)
        success, success_8bit = (victim.score(some) < before for some in (found, rounded))
    else:
        correct = victim.logits(images).argmax(1) == labels
        success, success_8bit = (victim.logits(some).argmax(1) != labels for some in (found, rounded))
    norms = change.norm(dim=1), change.abs().amax(1)
    blind = torch.full_like(success, estimated)
    return Attacked(*(values.cpu() for values in (found, correct, success, success_8bit, *norms, blind)))


def _sound(found: Tensor, images: Tensor, attack: Attack) -> Tensor:
    if found.shape != images.shape or not found.isfinite().all():
        got = f"shape {tuple(found.shape)}" if found.shape != images.shape else "NaN or infinite pixels"
        raise ValueError(f"{attack.name} returned {got}, expected finite images of shape {tuple(images.shape)}")
    return found.to(images.dtype)


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
