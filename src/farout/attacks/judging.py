"""Run an attack on a chunk of images and judge the result: clipped, rounded, and classified again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from farout import rng
from farout.attacks.attack import Attack
from farout.attacks.estimates import needs_gradient_estimate
from farout.attacks.target import Target
from farout.networks.passes import with_gradients
from farout.progress import Progress
from farout.tensors import as_images


@dataclass(frozen=True)
class Attacked:
    """Result of an attack: the perturbed images and the outcome for each; all tensors on the CPU.

    An attack on a classifier succeeds where the prediction is wrong; one on a detector alone where the score is lower.
    """

    images: Tensor
    """float32 [N, C, H, W] in [0, 1]."""
    clean_correct: Tensor
    """True where the unperturbed image was classified correctly, bool [N]; all False for images without labels."""
    success: Tensor
    """Success, bool [N]; by the common convention, images that were misclassified before the attack count too."""
    success_8bit: Tensor
    """Success after rounding to 8 bits, as an image file would."""
    l2: Tensor
    """L2 norm of the perturbation, [N]."""
    linf: Tensor
    """L∞ norm of the perturbation, [N]."""
    estimated: Tensor
    """True where the detector's score has no gradient and it was estimated, bool [N]; the same for all images."""

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        rates = f"success {self.asr:.1%} of all"
        rates += f", {self.asr_of_correct:.1%} of those classified correctly" if self.clean_correct.any() else ""
        return f"<Attacked: {len(self)} images, {rates}, median L2 {self.l2.median().item():.3g}>"

    @property
    def asr(self) -> float:
        """Attack success rate by the common convention: images that were misclassified before the attack count too."""
        return self.success.double().mean().item()

    @property
    def asr_of_correct(self) -> float:
        """Attack success rate among the images that were classified correctly; NaN if there are none."""
        return self.success[self.clean_correct].double().mean().item()

    @staticmethod
    def concatenate(parts: Sequence[Attacked]) -> Attacked:
        """Return the concatenation of several results."""
        return Attacked(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Attacked)))


def run_attack(
    attack: Attack,
    target: Target,
    images: Tensor,
    labels: Tensor,
    indices: Sequence[int],
    seed: int,
    progress: Progress = lambda passes: None,
) -> Attacked:
    """Attack and judge one chunk of images; `indices` are the images' indices, which seed the randomness.

    Runs on the network's device; without a network, on the images'. progress: called with numbers of forward passes,
    `attack.passes` per image in total.
    """
    images = as_images(images, target.network.device if target.network else images.device).clamp(0, 1)
    labels = labels.to(images.device)
    rngs = [rng.generator(seed, attack.name, index) for index in indices]
    passes = _PassCounter(len(images) * attack.passes(target.classes), progress)
    with target.network.evaluating() if target.network else nullcontext():
        with with_gradients():
            adversarial = attack.run(replace(target, on_pass=passes.count), images.clone(), labels, rngs).detach()
        passes.count(passes.left)
        adversarial = _check_result(adversarial, images, attack).clamp(0, 1)
        estimated = attack.against != "classifier" and needs_gradient_estimate(target, images)
        with torch.inference_mode():
            return _judge(attack, target, images, adversarial, labels, estimated)


@dataclass
class _PassCounter:
    """Progress of forward passes, always as many as announced: attacks may need fewer, gradient estimates more."""

    left: int
    progress: Progress

    def count(self, passes: int) -> None:
        reported = min(passes, self.left)
        self.left -= reported
        self.progress(reported)


def _judge(
    attack: Attack, target: Target, images: Tensor, adversarial: Tensor, labels: Tensor, estimated: bool
) -> Attacked:
    """Return the outcome of an attack for every image, before and after rounding to 8 bits."""
    rounded = adversarial.mul(255).round_().div_(255)
    change = (adversarial - images).flatten(1)
    if attack.against == "detector":
        before = target.score(images)
        correct = torch.zeros_like(labels, dtype=torch.bool)
        success, success_8bit = (target.score(batch) < before for batch in (adversarial, rounded))
    else:
        correct = target.logits(images).argmax(1) == labels
        success, success_8bit = (target.logits(batch).argmax(1) != labels for batch in (adversarial, rounded))
    norms = change.norm(dim=1), change.abs().amax(1)
    estimates = torch.full_like(success, estimated)
    return Attacked(*(values.cpu() for values in (adversarial, correct, success, success_8bit, *norms, estimates)))


def _check_result(adversarial: Tensor, images: Tensor, attack: Attack) -> Tensor:
    """Return the images of an attack in the input's dtype; raise if their shape is wrong or they are not finite."""
    if adversarial.shape != images.shape or not adversarial.isfinite().all():
        got = f"shape {tuple(adversarial.shape)}" if adversarial.shape != images.shape else "NaN or infinite pixels"
        raise ValueError(f"{attack.name} returned {got}, expected finite images of shape {tuple(images.shape)}")
    return adversarial.to(images.dtype)
