"""Networks restricted to some classes: the logits are the same numbers, everything else follows from them."""

from __future__ import annotations

import pytest
import torch

from farout.networks import Ensemble, create, restrict

IMAGES = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["lenet", "vit_tiny"])
def test_logits_of_the_classes_in_their_order(name: str) -> None:
    network = create(name, 7, 16, seed=1)
    part = restrict(network, [5, 0, 3])
    with torch.no_grad():
        whole, found = network(IMAGES), part(IMAGES)
    torch.testing.assert_close(found.logits, whole.logits[:, [5, 0, 3]])
    torch.testing.assert_close(found.features, whole.features)
    assert list(found.blocks) == list(whole.blocks)
    assert part.head is not None
    assert part.head.weight.shape == (3, whole.features.shape[1])
    assert (part.classes, network.classes) == (3, 7)
    assert part.digest != restrict(network, [0, 5, 3]).digest
    assert restrict(network, range(7)).digest == network.digest


def test_every_member_of_an_ensemble_is_restricted() -> None:
    ensemble = Ensemble([create("lenet", 7, 16, seed=seed) for seed in (1, 2)])
    part = restrict(ensemble, [2, 4])
    with torch.no_grad():
        expected = torch.stack([member(IMAGES).logits[:, [2, 4]].softmax(1) for member in ensemble.members]).mean(0)
        torch.testing.assert_close(part(IMAGES).logits.exp(), expected)


@pytest.mark.parametrize("classes", [[], [1], [1, 1], [0, 7], [-1, 2]])
def test_wrong_classes_are_refused(classes: list[int]) -> None:
    with pytest.raises(ValueError, match="expected at least 2 different classes from 0 to 6, got"):
        restrict(create("lenet", 7, 16), classes)
