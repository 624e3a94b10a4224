"""Forward passes computed a second time, from the weights and the papers' equations, and known weights on real data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from farout import networks
from farout.data import read_npz

DATA = Path(__file__).parents[3] / "shared" / "data"
State = dict[str, Tensor]


def trained_looking(name: str, side: int = 32) -> tuple[networks.Network, State]:
    """A network whose batch norms do something, and its weights in float64."""
    network = networks.create(name, 10, side).double()
    generator = torch.Generator().manual_seed(1)
    state = network.state_dict()
    for value in state.values():
        if value.ndim == 1:
            value.copy_(0.5 + torch.rand(value.shape, generator=generator))
    return network, dict(state)


def images(side: int = 32) -> Tensor:
    return torch.rand(3, 3, side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def conv(state: State, name: str, x: Tensor, stride: int = 1) -> Tensor:
    weight = state[f"{name}.weight"]
    return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)


def norm(state: State, name: str, x: Tensor) -> Tensor:
    mean, var, weight, bias = (
        state[f"{name}.{key}"].view(1, -1, 1, 1) for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / (var + 1e-5).sqrt() * weight + bias


def head(state: State, name: str, x: Tensor) -> Tensor:
    return x.flatten(2).mean(2) @ state[f"{name}.weight"].T + state[f"{name}.bias"]


@torch.no_grad()
def test_resnet20_follows_he_2016_section_4_2() -> None:
    network, state = trained_looking("resnet20")
    x = norm(state, "bn1", conv(state, "conv1", (images() - 0.5) / 0.5)).relu()
    for stage in (1, 2, 3):
        for index in range(3):
            name, stride = f"layer{stage}.{index}", 2 if stage > 1 and index == 0 else 1
            out = norm(state, f"{name}.bn1", conv(state, f"{name}.conv1", x, stride)).relu()
            out = norm(state, f"{name}.bn2", conv(state, f"{name}.conv2", out))
            shortcut = torch.zeros_like(out)
            first = (out.shape[1] - x.shape[1]) // 2
            shortcut[:, first : first + x.shape[1]] = x[:, :, ::stride, ::stride]
            x = (out + shortcut).relu()
    torch.testing.assert_close(network(images()).logits, head(state, "linear", x))


@torch.no_grad()
def test_wrn40_2_activates_before_it_convolves() -> None:
    network, state = trained_looking("wrn40_2")
    x = conv(state, "conv1", (images() - 0.5) / 0.5)
    for stage in (1, 2, 3):
        for index in range(6):
            name, stride = f"layer{stage}.{index}", 2 if stage > 1 and index == 0 else 1
            active = norm(state, f"{name}.bn1", x).relu()
            out = norm(state, f"{name}.bn2", conv(state, f"{name}.conv1", active, stride)).relu()
            shortcut = conv(state, f"{name}.shortcut", active, stride) if index == 0 else x
            x = shortcut + conv(state, f"{name}.conv2", out)
    x = norm(state, "bn1", x).relu()
    torch.testing.assert_close(network(images()).logits, head(state, "linear", x))


@torch.no_grad()
def test_resnet50_strides_in_its_3x3_convolutions_and_projects() -> None:
    network, state = trained_looking("resnet50", side=16)
    x = norm(state, "bn1", conv(state, "conv1", (images(16) - 0.5) / 0.5)).relu()
    for stage, depth in enumerate((3, 4, 6, 3), start=1):
        for index in range(depth):
            name, stride = f"layer{stage}.{index}", 2 if stage > 1 and index == 0 else 1
            out = norm(state, f"{name}.bn1", conv(state, f"{name}.conv1", x)).relu()
            out = norm(state, f"{name}.bn2", conv(state, f"{name}.conv2", out, stride)).relu()
            out = norm(state, f"{name}.bn3", conv(state, f"{name}.conv3", out))
            if index == 0:
                x = norm(state, f"{name}.shortcut.1", conv(state, f"{name}.shortcut.0", x, stride))
            x = (out + x).relu()
    torch.testing.assert_close(network(images(16)).logits, head(state, "linear", x))


@torch.no_grad()
def test_densenet_puts_every_layer_beside_all_before_it() -> None:
    network, state = trained_looking("densenet121", side=16)
    x = conv(state, "conv1", (images(16) - 0.5) / 0.5)
    for stage, depth in enumerate((6, 12, 24, 16), start=1):
        maps = [x]
        for index in range(depth):
            name, seen = f"dense{stage}.{index}", torch.cat(maps, 1)
            out = conv(state, f"{name}.conv1", norm(state, f"{name}.bn1", seen).relu())
            maps.append(conv(state, f"{name}.conv2", norm(state, f"{name}.bn2", out).relu()))
        x = torch.cat(maps, 1)
        if stage < 4:
            x = conv(state, f"transition{stage}.2", norm(state, f"transition{stage}.0", x).relu())
            x = x.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).mean((3, 5))
    x = norm(state, "bn1", x).relu()
    torch.testing.assert_close(network(images(16)).logits, head(state, "linear", x))


@torch.no_grad()
def test_allconv_averages_the_first_8_by_8_positions() -> None:
    """The layers of OE's network in their order, with average pooling over windows of 8×8 positions."""
    network, state = trained_looking("allconv")
    x, paddings = (images() - 0.5) / 0.5, {"stage3.0": 0}
    for stage in (1, 2, 3):
        for index in (0, 3, 6):
            name = f"stage{stage}.{index}"
            weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
            x = norm(state, f"stage{stage}.{index + 1}", F.conv2d(x, weight, bias, padding=paddings.get(name, 1)))
            x = x * (1.702 * x).sigmoid()
        x = F.max_pool2d(x, 2) if stage < 3 else x
    assert x.shape == (3, 192, 10, 10)
    torch.testing.assert_close(network(images()).logits, head(state, "linear", F.avg_pool2d(x, 8)))


@pytest.mark.skipif(not (DATA / "cifar10_resnet20.safetensors").exists(), reason="the shared data are not here")
def test_resnet20_reaches_its_known_accuracy_on_cifar10() -> None:
    network = networks.create("resnet20", 10, 32, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    networks.load_weights(network, DATA / "cifar10_resnet20.safetensors")
    assert networks.accuracy(network, read_npz(DATA / "cifar10_test.npz")) == pytest.approx(0.9173, abs=1e-9)
