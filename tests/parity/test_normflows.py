"""Glow's flow beside normflows, which has the same layers except the split prior and the scaled zero convolution."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from farout.detectors.trained.glow.flow import Flow
from farout.detectors.trained.glow.layers import ActNorm, Coupling, Mixing

nf = pytest.importorskip("normflows")


@pytest.fixture
def flow() -> Flow:
    """Return a flow whose splits have standard normal priors, as normflows' have."""
    torch.manual_seed(0)
    flow = Flow(3, 8, 2, depth=2, width=8).double()
    flow.initialize(torch.rand(32, 3, 8, 8, dtype=torch.float64))
    for module in flow.modules():
        if isinstance(module, Coupling):
            torch.nn.init.normal_(module.net[2].convolution.weight, std=0.05)
    return flow


def test_the_likelihood_and_its_inverse_equal_those_of_normflows(flow: Flow):
    peer, images = same_flow(flow), torch.rand(5, 3, 8, 8, dtype=torch.float64)
    continuous = flow.log_likelihood(images) + images[0].numel() * torch.tensor(256.0).log().double()
    torch.testing.assert_close(continuous, peer.log_prob(images, None), rtol=1e-6, atol=1e-4)
    latents, log_det = flow(images)
    theirs, their_log_det = peer.inverse_and_log_det(images)
    for ours, other in zip(latents, reversed(theirs), strict=True):
        torch.testing.assert_close(ours, other)
    torch.testing.assert_close(log_det, their_log_det)


def same_flow(flow: Flow) -> Any:
    """Return the flow of normflows with these weights."""
    levels, bases = [], []
    for level, shape in zip(flow.levels, flow.latent_shapes, strict=True):
        layers = list(level)
        blocks = [same_block(*layers[start : start + 3]) for start in range(0, len(layers), 3)]
        levels.append([*reversed(blocks), nf.flows.Squeeze()])
        bases.append(nf.distributions.DiagGaussian(shape, trainable=False))
    merges = [nf.flows.Merge() for _ in levels[1:]]
    transform = nf.transforms.Logit(flow.logit.alpha)
    return nf.MultiscaleFlow(bases[::-1], levels[::-1], merges, transform, class_cond=False).double()


def same_block(norm: ActNorm, mixing: Mixing, coupling: Coupling) -> Any:
    first, second, last = coupling.net
    block = nf.flows.GlowBlock(len(mixing.weight), len(first.norm.shift), use_lu=False, net_actnorm=True)
    peer_coupling, peer_mixing, peer_norm = block.flows
    peer_mixing.W.data = mixing.weight.data
    set_norm(peer_norm, -norm.log_scale, -norm.shift)
    net = peer_coupling.flows[1].param_map.net
    for start, ours in ((0, first), (3, second)):
        net[start].weight.data = ours.convolution.weight.data
        set_norm(net[start + 1].actNorm, ours.norm.log_scale, ours.norm.shift * ours.norm.log_scale.exp())
    net[6].weight.data = last.convolution.weight.data.clone()
    net[6].weight.data[::2] *= -1  # the shift has the opposite sign
    return block


def set_norm(peer: Any, s: torch.Tensor, t: torch.Tensor) -> None:
    peer.s.data, peer.t.data = s.data[None], t.data[None]
    peer.data_dep_init_done = torch.tensor(1.0)
