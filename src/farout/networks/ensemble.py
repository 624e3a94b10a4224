"""Ensemble of networks."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from farout.core import PER_BLOCK, Activations
from farout.identity import digest
from farout.networks.mode import Mode
from farout.networks.network import Network


class Ensemble(Network):
    """Ensemble of networks whose softmax is averaged (Lakshminarayanan et al. 2017).

    Logits are the logarithm of the mean softmax, features are concatenated, block names are prefixed by the member's
    number, and `Activations.members` holds the logits of every member. There is no single last layer, so detectors that
    need one do not support ensembles.
    """

    def __init__(self, members: Iterable[Network]) -> None:
        nn.Module.__init__(self)
        members = list(members)
        others = [type(member).__name__ for member in members if not isinstance(member, Network)]
        if others:
            raise TypeError(f"expected farout.Network members, got {', '.join(others)}; wrap each in a Network first")
        if len(members) < 2:
            raise ValueError(f"an ensemble needs at least 2 networks, got {len(members)}")
        if len(set(map(id, members))) < len(members):
            raise ValueError(
                "the same network occurs twice in the ensemble; pass different ones, for example by copy.deepcopy"
            )
        classes = [member.classes for member in members]
        if len(set(classes)) > 1:
            raise ValueError(f"the members of an ensemble must have the same number of classes, got {classes}")
        self.module = nn.ModuleList(members)
        self.name = " + ".join(member.name for member in members)
        self.block_names = tuple(f"{i}.{name}" for i, member in enumerate(members) for name in member.block_names)
        self.eval()

    @property
    def members(self) -> list[Network]:
        """Networks of the ensemble."""
        return [member for member in self.module.children() if isinstance(member, Network)]

    @property
    def channels(self) -> int:
        return max(member.channels for member in self.members)

    @property
    def statistics_names(self) -> tuple[str, ...]:
        return tuple(f"{i}.{name}" for i, member in enumerate(self.members) for name in member.statistics_names)

    def forward(self, images: Tensor, *, needs: Collection[str] = ("blocks",)) -> Activations:
        """Return the combined activations of all members."""
        outputs: list[Activations] = [member(images, needs=needs) for member in self.members]
        members = torch.stack([activations.logits for activations in outputs], 1)
        logits = members.double().log_softmax(2).logsumexp(1) - math.log(len(outputs))
        tables: dict[str, Any] = {
            kind: {f"{i}.{name}": rows for i, a in enumerate(outputs) for name, rows in getattr(a, kind).items()}
            for kind in PER_BLOCK
        }
        features = torch.cat([activations.features for activations in outputs], 1)
        return Activations(logits.to(features.dtype), features, members=members, **tables)

    def running(self, mode: Mode) -> Network:
        return Ensemble([member.running(mode) for member in self.members])

    def normalize(self, images: Tensor) -> Tensor:
        raise TypeError("every member of an ensemble has its own normalizer; call normalize of a member")

    @property
    def head(self) -> None:
        """None, since the mean softmax does not come from one linear layer."""
        return None

    @property
    def classes(self) -> int:
        return self.members[0].classes

    @property
    def device(self) -> torch.device:
        return self.members[0].device

    @property
    def digest(self) -> str:
        return digest([member.digest for member in self.members])
