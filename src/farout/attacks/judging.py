"""Run an attack on a chunk of images and judge the result: clipped, rounded, and classified again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from farout import rng
from farout.attacks.attack import Attack
from farout.attacks.estimates import without_gradient
from farout.attacks.victim import Victim
from farout.networks.passes import with_gradients
from farout.progress import Progress
from farout.tensors import as_images


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
