"""Detectors make their tensors where the activations lie: seen by a default device that computes nothing."""

from __future__ import annotations

import pytest
import torch

from farout.core import Activations, Head, PostHoc
from farout.detectors import create, names


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator("cpu").manual_seed(seed), device="cpu")


def reading(total: int, seed: int) -> Activations:
    features, head = draw(total, 30, seed=seed).relu(), Head(draw(4, 30, seed=8), draw(4, seed=9))
    logits = head.logits(features).float()
    grams = features.double()[:, None].expand(-1, 5, -1).clone()
    members = torch.stack([logits, logits.roll(1, 0)], 1)
    return Activations(logits, features, {}, head, {"a": features.double()}, {"a": grams}, members)


def variants() -> list[PostHoc]:
    made = [create(name) for name in names()]
    other = [create(one.name, variant="openood") for one in made if "variant" in one.params]
    other.append(create("gram", variant="openood-1.5"))
    found = [*made, *(create("vim", variant="openood", dim=9) if one.name == "vim" else one for one in other)]
    return [one for one in found if isinstance(one, PostHoc)]


@pytest.mark.parametrize("detector", variants(), ids=repr)
def test_no_tensor_is_made_on_the_default_device(detector: PostHoc) -> None:
    train, test, labels = reading(200, 1), reading(20, 2), torch.arange(200) % 4
    expected = detector.fit(train, labels).score(test)
    with torch.device("meta"):
        scores = detector.fit(train, labels).score(test)
    assert scores.device.type == "cpu"
    assert {value.device.type for value in detector.state.values()} <= {"cpu"}
    assert torch.equal(scores, expected)
