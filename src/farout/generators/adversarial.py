"""Adversarial losses by name: losses of the discriminator and of the generator, from the discriminator's logits.

"The Raised Bar" prints the generator's losses (eqs. 3 and 4) in the saturating form E log(1 − D(G(z))), and refers to
the public repositories for all settings; these use the non-saturating form (DCGAN, Pix2Pix) and the hinge (BigGAN),
which are the defaults here. The signs of its discriminator losses (eqs. 5 and 6) are a slip: minimized as printed, they
would reward mistakes. The discriminator here minimizes −log D(x) − log(1 − D(G(z))).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from farout.registry import unknown


class AdversarialLoss(NamedTuple):
    """Losses of the two players; logits may have any shape, and are averaged."""

    discriminator: Callable[[Tensor, Tensor], Tensor]
    """Loss of the logits of real and of generated images."""
    generator: Callable[[Tensor], Tensor]
    """Loss of the logits of generated images."""


def cross_entropy(real: Tensor, generated: Tensor) -> Tensor:
    """Return −log D(x) − log(1 − D(G(z))), with D the sigmoid of the logit (Goodfellow et al. 2014)."""
    return F.softplus(-real).mean() + F.softplus(generated).mean()


def non_saturating(generated: Tensor) -> Tensor:
    """Return −log D(G(z)) (Goodfellow et al. 2014, section 3)."""
    return F.softplus(-generated).mean()


def saturating(generated: Tensor) -> Tensor:
    """Return log(1 − D(G(z))) (Goodfellow et al. 2014, eq. 1); its gradient vanishes where D is sure."""
    return -F.softplus(generated).mean()


def hinge(real: Tensor, generated: Tensor) -> Tensor:
    """Return max(0, 1 − D(x)) + max(0, 1 + D(G(z))), with D the logit (Lim & Ye 2017)."""
    return F.relu(1 - real).mean() + F.relu(1 + generated).mean()


def negative_logit(generated: Tensor) -> Tensor:
    """Return −D(G(z)), with D the logit."""
    return -generated.mean()


ADVERSARIAL = {
    "non_saturating": AdversarialLoss(cross_entropy, non_saturating),
    "saturating": AdversarialLoss(cross_entropy, saturating),
    "hinge": AdversarialLoss(hinge, negative_logit),
}


def adversarial_loss(name: str) -> AdversarialLoss:
    """Return the adversarial loss of this name."""
    if name not in ADVERSARIAL:
        raise unknown("adversarial loss", name, ADVERSARIAL)
    return ADVERSARIAL[name]
