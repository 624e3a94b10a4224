"""Attacks on a detector, alone and with the classifier: exact answers, and a small trained network."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import linprog
from torch import Tensor, nn

from farout import Detector, ImageSet, Network, Panel
from farout.attacks.adaptive import AdaptivePGD
from farout.attacks.pgd import PGD
from farout.attacks.score_descent import ScorePGD
from farout.attacks.target import Target
from farout.detectors import KNN
from farout.metrics import auroc

EPSILON = 8 / 255


def generators(total: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(100 + index) for index in range(total)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Scored(Detector):
    """A score by a function of the images."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def score(self, images: Tensor) -> Any:
        return self.function(images)


def linear(weight: Tensor) -> Detector:
    return Scored(lambda images: (images.double() * weight).flatten(1).sum(1))


def linear_classifier(weight: Tensor, bias: Tensor) -> Network:
    module = nn.Sequential(nn.Flatten(), nn.Linear(weight.shape[1], len(weight)))
    with torch.no_grad():
        module[1].weight.copy_(weight)  # type: ignore[operator]
        module[1].bias.copy_(bias)  # type: ignore[operator]
    return Network(module, mean=[0.0, 0.0, 0.0], std=[1.0, 1.0, 1.0], side=4)


@pytest.mark.parametrize("random_start", [True, False])
def test_a_linear_score_leads_to_the_corner(random_start: bool) -> None:
    images, weight = draw(5, 3, 8, 8), normal(3, 8, 8)
    corner = (images - EPSILON * weight.sign()).clamp(0, 1)
    found = ScorePGD(random_start=random_start).run(
        Target(None, linear(weight)), images, torch.zeros(5).long(), generators(5)
    )
    assert torch.allclose(found, corner, atol=1e-7)


def test_a_gaussian_distance_leads_to_the_nearest_point_of_the_box() -> None:
    images, center, widths = draw(4, 3, 8, 8), draw(3, 8, 8, seed=1), 0.1 + draw(3, 8, 8, seed=2)
    center = (images[0] + center.sub(0.5) / 5).clamp(0, 1)
    detector = Scored(lambda batch: ((batch.double() - center) / widths).square().flatten(1).sum(1))
    nearest = center.clamp((images - EPSILON).clamp(min=0), (images + EPSILON).clamp(max=1))
    found = ScorePGD().run(Target(None, detector), images, torch.zeros(4).long(), generators(4))
    assert ((nearest[0] - center).abs() < 1e-6).float().mean() > 0.2  # some of it lies within the box
    assert (found - nearest).abs().max() < EPSILON / 20
    assert (found - nearest).abs().mean() < EPSILON / 200


def test_the_lowest_state_is_kept_and_not_the_last() -> None:
    images, seen = draw(3, 3, 8, 8), []
    weight = normal(3, 8, 8)

    def wavy(batch: Tensor) -> Tensor:
        found = (40 * (batch.double() * weight).flatten(1).sum(1)).sin()
        seen.append((batch.detach().clone(), found.detach().clone()))
        return found

    attack = ScorePGD(steps=12)
    found = attack.run(Target(None, Scored(wavy)), images, torch.zeros(3).long(), generators(3))
    states = [one for one in seen if len(one[0]) == 3]
    assert len(states) == 13
    scores = torch.stack([score for _, score in states])
    lowest = scores.argmin(0)
    assert (lowest < 12).any()
    assert torch.equal(found, torch.stack([states[int(at)][0][row] for row, at in enumerate(lowest)]))


def test_misclassified_at_the_least_score_where_the_two_share_no_pixels() -> None:
    """The classifier reads the left half and the score the right one, which can so go to its corner."""
    left = torch.zeros(3, 4, 4)
    left[..., :2] = 1
    images, score, contrast = 0.3 + 0.4 * draw(4, 3, 4, 4), normal(3, 4, 4) * (1 - left), normal(3, 4, 4, seed=1) * left
    network = linear_classifier(torch.stack([contrast.flatten(), -contrast.flatten()]), torch.zeros(2))
    labels = network(images).logits.argmax(1)
    epsilon = 0.25
    found = AdaptivePGD(epsilon=epsilon).run(Target(network, linear(score)), images, labels, generators(4))
    reachable = (contrast * images).flatten(1).sum(1).abs() < epsilon * contrast.abs().sum()
    assert reachable.all()
    assert (network(found).logits.argmax(1) != labels).all()
    corner = images - epsilon * score.sign()
    assert torch.allclose(found * (1 - left), corner * (1 - left), atol=1e-6)


def test_misclassified_near_the_optimum_of_the_linear_program() -> None:
    """Where the score pulls back to the true class: least score in the box on the wrong side, by scipy."""
    images, contrast = 0.3 + 0.4 * draw(6, 3, 4, 4), normal(3, 4, 4, seed=1)
    toward = contrast * (images[0] * contrast).sum().sign()
    score = -0.6 * toward + normal(3, 4, 4, seed=2)
    network = linear_classifier(torch.stack([contrast.flatten(), -contrast.flatten()]), torch.zeros(2))
    labels = network(images).logits.argmax(1)
    target, epsilon = Target(network, linear(score)), 0.1
    found = AdaptivePGD(epsilon=epsilon).run(target, images, labels, generators(6))
    for image, label, changed in zip(images.flatten(1), labels, found, strict=True):
        side = contrast.flatten().numpy() * (1 if label == 0 else -1)
        bounds = [(value - epsilon, value + epsilon) for value in image.tolist()]
        optimum = linprog(score.flatten().numpy(), A_ub=side[None], b_ub=[0.0], bounds=bounds)
        assert optimum.status in (0, 2)
        wrong = network(changed[None]).logits.argmax(1) != label
        assert wrong == (optimum.status == 0)
        if optimum.status == 0:
            before, after = (float((score.flatten() * one.flatten()).sum()) for one in (image, changed))
            free = float((score.flatten() * image).sum() - epsilon * score.abs().sum())
            assert after >= optimum.fun - 1e-5
            assert after - optimum.fun <= 0.1 * (before - free)


def test_where_a_score_has_no_gradient_steps_go_on_against_the_classifier() -> None:
    (images, labels), network, states = examples(8, 5), trained(), []

    def constant(batch: Tensor) -> Tensor:
        states.append(batch.detach().clone())
        return 0 * batch.double().sum((1, 2, 3))

    found = AdaptivePGD(steps=30, epsilon=0.1).run(Target(network, Scored(constant)), images, labels, generators(8))
    by_pgd = PGD(steps=30, step=0.02, epsilon=0.1).run(Target(network), images, labels, generators(8))
    margins = torch.stack([_margin(network, state, labels) for state in states if len(state) == 8])
    clean, other = _margin(network, images, labels), _margin(network, by_pgd, labels)
    assert (clean > 0).all()
    assert (margins[-1] - other <= 0.05 * (clean - other)).all()
    first = (margins < 0).int().argmax(0)
    assert torch.equal(_margin(network, found, labels), margins.gather(0, first[None])[0])


def _margin(network: Network, images: Tensor, labels: Tensor) -> Tensor:
    with torch.no_grad():
        logits = network(images).logits
    return logits.gather(1, labels[:, None])[:, 0] - logits.scatter(1, labels[:, None], -torch.inf).amax(1)


def examples(total: int, seed: int) -> tuple[Tensor, Tensor]:
    """Four classes: a faint pattern each, in noise."""
    labels = torch.arange(total) % 4
    patterns = draw(4, 3, 4, 4, seed=99).repeat_interleave(2, 2).repeat_interleave(2, 3)
    images = 0.3 + 0.4 * patterns[labels] + 0.12 * normal(total, 3, 8, 8, seed=seed)
    return images.clamp(0, 1), labels


@cache
def trained() -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(12, 16, 3, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(144, 4),
        )
    images, labels = examples(256, 1)
    optimizer = torch.optim.Adam(module.parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(module((images - 0.5) / 0.25), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return Network(module, mean=0.5, std=0.25, side=8)


@cache
def fitted() -> Panel:
    train, val = (ImageSet.from_arrays(*(part.numpy() for part in examples(n, s))) for n, s in ((256, 1), (80, 2)))
    return Panel(trained(), [*NAMES, KNN(k=10)]).fit(train, val)


NAMES = (
    "scale",
    "nnguide",
    "gen",
    "ash",
    "dice",
    "vim",
    "klm",
    "mls",
    "react",
    "rmds",
    "gram",
    "ebo",
    "odin",
    "mds",
    "msp",
)
"""The detectors of the paper, knn left out."""


@pytest.mark.parametrize("name", [*NAMES, "knn"])
def test_adaptive_images_look_more_normal_than_those_of_pgd(name: str) -> None:
    panel, (images, labels), (clean, _) = fitted(), examples(40, 3), examples(200, 4)
    network = panel.network
    right = network(images).logits.argmax(1) == labels
    images, labels = images[right], labels[right]
    assert len(images) > 30
    plain = PGD(epsilon=0.15).run(Target(network), images, labels, generators(len(images)))
    target = Target(network, panel.detectors[name])
    adaptive = AdaptivePGD(epsilon=0.15, steps=60).run(target, images, labels, generators(len(images)))
    for found in (plain, adaptive):
        assert (network(found).logits.argmax(1) != labels).float().mean() > 0.95
    assert ((adaptive - images).abs() <= 0.15 + 1e-6).all()
    assert adaptive.min() >= 0
    assert adaptive.max() <= 1
    inliers, before, after = (panel.score(some)[name] for some in (clean, plain, adaptive))
    assert auroc(inliers, after) < auroc(inliers, before) - 0.02 or auroc(inliers, after) < 0.01
    assert auroc(inliers, after) < 0.5
    assert np.mean(after) < np.mean(before)


@pytest.mark.parametrize("kind", [AdaptivePGD, ScorePGD], ids=lambda kind: str(kind.name))
@pytest.mark.parametrize("black", [False, True])
def test_what_becomes_of_an_image_does_not_depend_on_its_batch(kind: Any, black: bool) -> None:
    panel, (images, labels) = fitted(), examples(4, 7)
    detector = Scored(lambda batch: panel["mds"].score(batch).numpy()) if black else panel.detectors["mds"]
    target, attack = Target(panel.network, detector), kind(steps=5 if black else 15, queries=4)
    together = attack.run(target, images, labels, generators(4))
    alone = [attack.run(target, images[i : i + 1], labels[i : i + 1], [generators(4)[i]]) for i in (3, 1)]
    assert (together - images).abs().amax((1, 2, 3)).min() > 0
    assert torch.allclose(together[[3, 1]], torch.cat(alone), atol=1e-5)


def test_settings_that_make_no_sense_and_no_images_at_all() -> None:
    with pytest.raises(ValueError, match="even"):
        ScorePGD(queries=5)
    with pytest.raises(ValueError, match="epsilon must be a number from 0 to 1"):
        AdaptivePGD(epsilon=-0.1)
    with pytest.raises(ValueError, match="reach must be positive"):
        AdaptivePGD(reach=0)
    target, none = Target(fitted().network, fitted().detectors["msp"]), torch.zeros(0, 3, 8, 8)
    assert AdaptivePGD().run(target, none, torch.zeros(0).long(), []).shape == none.shape
    with pytest.raises(ValueError, match="needs a detector"):
        AdaptivePGD(steps=1).run(Target(fitted().network), *examples(2, 0), generators(2))
