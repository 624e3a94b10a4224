"""Outputs of a target: the classifier in evaluation mode, the detector with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farout import Detector, Network
from farout.attacks.target import Target
from farout.detectors import EBO, MSP, ODIN


def draw(total: int, seed: int = 0) -> Tensor:
    return torch.rand(total, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


class Counting(nn.Module):
    """A classifier with parts that training mode changes; counts its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())
        self.head = nn.Linear(72, 4)

    def forward(self, images: Tensor) -> Tensor:
        self.passes += 1
        logits: Tensor = self.head(self.body(images))
        return logits


def counting() -> tuple[Network, Counting]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = Counting()
    network = Network(module, mean=0.5, std=0.25, side=8)
    module.passes = 0
    return network, module


class Answering(Detector):
    """Answers what it was told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def score(self, images: Tensor) -> Any:
        return self.answer(images)


def test_the_classifier_evaluates_whatever_mode_it_is_in() -> None:
    network, _ = counting()
    images = draw(5)
    with torch.no_grad():
        logits = network(images, needs=()).logits
        network.train()
        target = Target(network, MSP())
        assert torch.equal(target.logits(images), logits)
        assert torch.allclose(target.score(images), 1 - logits.double().softmax(1).amax(1), atol=1e-12)
        assert torch.equal(target.logits_and_scores(images)[0], logits)
    assert all(part.training for part in network.modules())


@pytest.mark.parametrize(("detector", "both", "score"), [(EBO(), 1, 1), (ODIN(), 3, 2)])
def test_passes(detector: Any, both: int, score: int) -> None:
    network, module = counting()
    target = Target(network, detector)
    target.logits_and_scores(draw(3))
    assert module.passes == both
    target.score(draw(3))
    assert module.passes == both + score


def test_both_are_logits_and_score() -> None:
    network, _ = counting()
    for detector in (EBO(), ODIN(), Answering(lambda images: images.flatten(1).sum(1))):
        target, images = Target(network, detector), draw(4)
        logits, scores = target.logits_and_scores(images)
        assert torch.equal(logits, target.logits(images))
        assert torch.equal(scores, target.score(images))
        assert scores.dtype == torch.float64


def test_images_and_answers_made_in_inference_mode_take_gradients() -> None:
    network, _ = counting()
    with torch.inference_mode():
        images, answer = draw(4), torch.arange(4.0, dtype=torch.float64)
    logits = Target(network).logits(images)
    logits.sum().backward()  # type: ignore[no-untyped-call]
    scores = Target(None, Answering(lambda _: answer)).score(draw(4))
    scores += 1  # in place, which tensors of inference_mode refuse
    assert scores.tolist() == [1, 2, 3, 4]


def test_sound_tensors_are_not_copied() -> None:
    network, _ = counting()
    detector = EBO()
    target = Target(network, detector)
    assert target.network is network
    assert target.detector is detector


def test_answers_of_numpy_are_taken() -> None:
    target = Target(None, Answering(lambda images: images.numpy().mean((1, 2, 3), dtype=np.float64)))
    assert torch.allclose(target.score(draw(3)), draw(3).double().mean((1, 2, 3)))


def test_errors_say_what_is_missing() -> None:
    network, _ = counting()
    with pytest.raises(ValueError, match="needs a detector"):
        Target(network).score(draw(1))
    with pytest.raises(ValueError, match=r"shape \(2, 1\) for 2 images, expected \(2,\)"):
        Target(network, Answering(lambda images: torch.zeros(len(images), 1))).score(draw(2))
    with pytest.raises(ValueError, match="needs a classifier"):
        Target(None, EBO()).logits_and_scores(draw(1))
