"""Shared parts of the networks: the registry, He initialization, and temporary seeding of the global generators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from farout import aliases
from farout.registry import Registry

NETWORKS: Registry[nn.Module] = Registry("network", nn.Module, aliases.NETWORKS)
"""Builders `(classes, side, channels) -> nn.Module` by name; the module maps normalized images to logits.

A network states the side of its images by `side: int` and its stages by `block_names`.
"""


def he_initialize(network: nn.Module) -> None:
    """Draw convolution weights as He et al. 2015 (eq. 14, by outputs); batch norms start as identities."""
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def convolution(inputs: int, width: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    """Build a convolution without bias, padded so that stride 1 keeps the side."""
    return nn.Conv2d(inputs, width, kernel, stride, kernel // 2, bias=False)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's global generators within the block and restore their state afterwards."""
    cuda = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if cuda else []):
        torch.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
