"""Networks with the logits of some of their classes only, such as the 200 classes of ImageNet-A."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn

from farout.networks.ensemble import Ensemble
from farout.networks.network import Network


def restrict(network: Network, classes: Sequence[int]) -> Network:
    """Return a copy of the network whose last layer has the outputs of these classes alone, in this order.

    It is an ordinary network of as many classes: its softmax is over these, and detectors read its smaller head.
    """
    if isinstance(network, Ensemble):
        return Ensemble([restrict(member, classes) for member in network.members])
    if not network.head_name:
        raise ValueError("the network has no head, so there are no logits to choose from")
    if len(classes) < 2 or len(set(classes)) < len(classes) or not all(0 <= c < network.classes for c in classes):
        raise ValueError(
            f"expected at least 2 different classes from 0 to {network.classes - 1}, got {len(classes)} such as "
            f"{list(classes[:5])}"
        )
    module = copy.deepcopy(network.plain_module)
    parent, _, name = network.head_name.rpartition(".")
    setattr(module.get_submodule(parent), name, _rows(module.get_submodule(network.head_name), classes))
    return Network(
        module,
        mean=network.mean.flatten().tolist(),
        std=network.std.flatten().tolist(),
        head=network.head_name,
        blocks=network.block_names,
        side=network.side,
    ).running(network.mode)


def _rows(head: nn.Module, classes: Sequence[int]) -> nn.Linear:
    """Return the linear layer with these of its outputs."""
    assert isinstance(head, nn.Linear)
    selected = torch.tensor(classes, device=head.weight.device)
    part = nn.Linear(head.in_features, len(classes), head.bias is not None, device="meta")
    part.weight = nn.Parameter(head.weight.detach()[selected])
    if head.bias is not None:
        part.bias = nn.Parameter(head.bias.detach()[selected])
    return part
