"""PixelCNN++: the whole network against functions that are written from the paper, with the same weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.detectors.trained.pixelcnn.mixture import LEAST_LOG_SCALE, Mixture
from farout.detectors.trained.pixelcnn.network import PixelNetwork
from farout.rng import generator

PADS = {"u": (1, 1, 1, 0), "ul": (1, 0, 1, 0)}
"""Zeros to the left, right, above and below a 2×3 and a 2×2 kernel."""


def parts(layer: nn.Module) -> tuple[Tensor, Tensor]:
    """Return weights g · v / ‖v‖, with a norm per output channel, and bias of a weight-normalized layer."""
    scale, direction = layer.parametrizations.weight.original0, layer.parametrizations.weight.original1  # type: ignore[union-attr]
    outputs = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
    norms = direction.transpose(0, outputs).flatten(1).norm(dim=1)
    shape = [-1 if axis == outputs else 1 for axis in range(4)]
    return scale.reshape(shape) * direction / norms.reshape(shape), layer.bias  # type: ignore[return-value]


def convolved(layer: nn.Module, x: Tensor, pads: tuple[int, ...] = (0, 0, 0, 0), stride: int = 1) -> Tensor:
    return F.conv2d(F.pad(x, pads), *parts(layer), stride)


def both(x: Tensor) -> Tensor:
    return torch.cat([F.elu(x), F.elu(-x)], 1)


def gated(block: nn.Module, stream: str, x: Tensor, aside: Tensor | None = None) -> Tensor:
    hidden = convolved(block.first.convolution, both(x), PADS[stream])  # type: ignore[union-attr, arg-type]
    if aside is not None:
        hidden = hidden + convolved(block.aside, both(aside))  # type: ignore[arg-type]
    values, gates = convolved(block.second.convolution, both(hidden), PADS[stream]).chunk(2, 1)  # type: ignore[union-attr, arg-type]
    return x + values * torch.sigmoid(gates)


def down_one(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(x[:, :, :1]), x[:, :, :-1]], 2)


def right_one(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(x[..., :1]), x[..., :-1]], 3)


def doubled(layer: nn.Module, stream: str, x: Tensor) -> Tensor:
    """Write every input, times the kernel, below and to the right of twice its place, the columns moved by the pad."""
    weight, bias = parts(layer.convolution)  # type: ignore[arg-type]
    rows, columns = 2 * x.shape[2], 2 * x.shape[3]
    out = torch.zeros(len(x), weight.shape[1], rows + 2, columns + 4, dtype=x.dtype)
    shift = 1 if stream == "u" else 0
    for i in range(weight.shape[2]):
        for j in range(weight.shape[3]):
            added = torch.einsum("bchw,co->bohw", x, weight[:, :, i, j])
            out[:, :, i : i + rows : 2, j - shift + 1 : j - shift + 1 + columns : 2] += added
    return out[:, :, :rows, 1 : 1 + columns] + bias[:, None, None]


def reference(network: PixelNetwork, pixels: Tensor) -> Tensor:
    """Return the outputs of the network before they are read as a mixture."""
    x = torch.cat([pixels, torch.ones_like(pixels[:, :1])], 1)
    u = down_one(convolved(network.u_input.convolution, x, PADS["u"]))
    ul = down_one(convolved(network.above_input.convolution, x, (1, 1, 0, 0)))
    ul = ul + right_one(convolved(network.left_input.convolution, x, (0, 0, 1, 0)))
    us, uls = [u], [ul]
    for stage, up in enumerate(network.up):
        for block, left_block in zip(up.u, up.ul, strict=True):  # type: ignore[arg-type]
            us.append(gated(block, "u", us[-1]))
            uls.append(gated(left_block, "ul", uls[-1], us[-1]))
        if stage < 2:
            us.append(convolved(network.halve_u[stage].convolution, us[-1], PADS["u"], 2))  # type: ignore[arg-type]
            uls.append(convolved(network.halve_ul[stage].convolution, uls[-1], PADS["ul"], 2))  # type: ignore[arg-type]
    u, ul = us.pop(), uls.pop()
    for stage, down in enumerate(network.down):
        for block, left_block in zip(down.u, down.ul, strict=True):  # type: ignore[arg-type]
            u = gated(block, "u", u, us.pop())
            ul = gated(left_block, "ul", ul, torch.cat([u, uls.pop()], 1))
        if stage < 2:
            u, ul = doubled(network.double_u[stage], "u", u), doubled(network.double_ul[stage], "ul", ul)
    assert not us
    assert not uls
    return convolved(network.output, F.elu(ul))


@torch.no_grad()
def test_the_network_is_that_of_the_paper() -> None:
    torch.manual_seed(0)
    network = PixelNetwork(3, blocks=2, width=3, mixtures=2).double().eval()
    for parameter in network.parameters():
        parameter += 0.2 * torch.randn_like(parameter)
    pixels = 2 * torch.rand(2, 3, 8, 8, generator=generator(0), dtype=torch.float64) - 1
    expected = Mixture.split(reference(network, pixels), 3)
    for ours, theirs in zip(network(pixels), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_half_of_the_channels_are_dropped_in_training() -> None:
    network = PixelNetwork(1, blocks=1, width=200, mixtures=1)
    dropped = [one for one in network.modules() if isinstance(one, nn.Dropout2d)]
    assert len(dropped) == 2 * (3 + 5)
    kept = dropped[0].train()(torch.ones(1, 2000, 2, 2)).amax((2, 3))
    assert 0.45 < (kept > 0).double().mean() < 0.55
    assert kept.max() == 2


def test_scales_have_a_lower_bound() -> None:
    outputs = torch.full((1, 3, 1, 1), -30.0)
    assert Mixture.split(outputs, 1).log_scales.item() == -7 == LEAST_LOG_SCALE
