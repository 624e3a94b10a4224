"""The shift of attention between benign and attacked images."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import farout
from farout.attention import attention_shift, grad_cam
from farout.metrics import ssim
from farout.networks.network import Network


def draw(count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


class Spots(nn.Module):
    """Class 0 looks at red, class 1 at green."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 3, 1, bias=False), nn.Linear(3, 2, bias=False)
        with torch.no_grad():
            self.conv.weight.copy_(torch.eye(3)[:, :, None, None])
            self.linear.weight.copy_(torch.eye(3)[:2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x).mean((2, 3)))


def test_each_map_is_for_the_class_predicted_on_its_image() -> None:
    """A red spot of 6×6 px and a green one of 8×8 elsewhere: the maps are the spots."""
    benign, attacked = torch.zeros(1, 3, 16, 16), torch.zeros(1, 3, 16, 16)
    benign[:, 0, :6, :6] = 0.8
    attacked[:, 0, :6, :6] = 0.8
    attacked[:, 1, 8:, 8:] = 0.9
    network = Network(Spots(), mean=[0.0, 0.0, 0.0], std=[1.0, 1.0, 1.0], blocks=["conv"])
    shift = attention_shift(network, benign, attacked)
    assert torch.equal(shift.before, (benign[:, 0] > 0).float())
    assert torch.equal(shift.after, (attacked[:, 1] > 0).float())
    assert shift.l2.item() == pytest.approx((36 + 64) / 256, abs=1e-12)
    assert shift.ssim.item() == ssim(shift.before, shift.after).item() < 0.5


def test_figures_of_a_network_image_by_image() -> None:
    network = farout.networks.create("resnet20", classes=7, side=16)
    benign, attacked = draw(4), draw(4, seed=1)
    attacked[2] = benign[2]
    shift = attention_shift(network, benign, attacked, layer="layer2")
    first, second = (grad_cam(network, images, layer="layer2") for images in (benign, attacked))
    for index in range(4):
        differences = [(p - q) ** 2 for p, q in zip(first[index].flatten(), second[index].flatten(), strict=True)]
        assert shift.l2[index].item() == pytest.approx(float(sum(differences)) / 256, rel=1e-5, abs=1e-9)
    torch.testing.assert_close(shift.ssim, ssim(first, second))
    assert shift.l2[2] < 1e-7 < 1e-3 < shift.l2[[0, 1, 3]].min()
    assert shift.ssim[2] > 1 - 1e-4 > 0.99 > shift.ssim[[0, 1, 3]].max()


def test_the_two_batches_must_match() -> None:
    network = Network(Spots(), mean=0.0, std=1.0, blocks=["conv"])
    with pytest.raises(ValueError, match="same number and size of benign and attacked images"):
        attention_shift(network, draw(2), draw(3))


def test_differences_of_rounding_are_no_attention() -> None:
    """One pixel of a flat image is the next larger float32; of another, it stands out by a thousandth."""
    network = Network(Spots(), mean=0.0, std=1.0, blocks=["conv"])
    images = torch.zeros(2, 3, 16, 16)
    images[:, 0] = 0.5
    images[:, 0, 3, 4] += torch.tensor([2**-24, 2**-10])
    assert images[0, 0, 3, 4] > 0.5
    expected = torch.zeros(2, 16, 16)
    expected[1, 3, 4] = 1
    assert torch.equal(grad_cam(network, images), expected)
