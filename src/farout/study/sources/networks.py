"""Network sources: small descriptions from which any process builds the same network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from farout.networks import Ensemble, Network, create, load_weights, own_identity
from farout.study.spec import NetworkSpec

if TYPE_CHECKING:
    from farout.study.cells.cell import Cell
    from farout.study.store import Store
from farout.study.sources.images import load_cached


def forget_loaded() -> None:
    """Forget images and networks read before: files may have changed since. Called at the start of a study."""
    load_cached.cache_clear()
    _stored.cache_clear()


class NetworkSource(ABC):
    """A network to be had anywhere."""

    label: str
    portable: bool = True

    @abstractmethod
    def identity(self) -> Any:
        """What decides the network's activations, as JSON."""

    @abstractmethod
    def preview(self) -> Network:
        """The network as far as it is there before the run: of one to be trained, its untrained form."""

    @abstractmethod
    def build(self, store: Store) -> Network:
        """The network."""

    @property
    def requires(self) -> tuple[Cell, ...]:
        """The cells that must be there before the network can be built."""
        return ()


@dataclass(frozen=True)
class StoredNetwork(NetworkSource):
    """A network by architecture whose weights come from a file or from timm."""

    spec: NetworkSpec
    label: str
    classes: int
    side: int
    channels: int

    @cached_property
    def _digest(self) -> str:
        return self.preview().digest

    @cached_property
    def _identity(self) -> Any:
        own = own_identity(self.spec.name, self.spec.params)
        return {"weights": self._digest, **own} if own else self._digest

    def identity(self) -> Any:
        return self._identity

    def preview(self) -> Network:
        return _stored(self.spec.model_dump_json(), self.classes, self.side, self.channels)

    def build(self, store: Store) -> Network:
        network = self.preview()
        if network.digest != self._digest:
            raise RuntimeError(f"the weights of {self.label} have changed since the run was planned; run again")
        return network


@dataclass(frozen=True)
class LiveNetwork(NetworkSource):
    """A network held by this process."""

    network: Network
    weights: str
    """Its digest."""
    label: str
    portable = False

    def identity(self) -> Any:
        return self.weights

    def preview(self) -> Network:
        return self.network

    def build(self, store: Store) -> Network:
        return self.network


@dataclass(frozen=True)
class JoinedNetworks(NetworkSource):
    """An ensemble of networks."""

    label: str
    members: tuple[NetworkSource, ...]

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return all(member.portable for member in self.members)

    @property
    def requires(self) -> tuple[Cell, ...]:
        return tuple(cell for member in self.members for cell in member.requires)

    def identity(self) -> Any:
        return {"members": [member.identity() for member in self.members]}

    def preview(self) -> Network:
        return Ensemble([member.preview() for member in self.members])

    def build(self, store: Store) -> Network:
        return Ensemble([member.build(store) for member in self.members])


@lru_cache(maxsize=8)
def _stored(described: str, classes: int, side: int, channels: int) -> Network:
    spec = NetworkSpec.model_validate_json(described)
    network = create(
        spec.name, classes, side, channels, pretrained=spec.pretrained, mean=spec.mean, std=spec.std, **spec.params
    )
    if spec.weights is not None:
        assert isinstance(spec.weights, str)
        load_weights(network, spec.weights)
    return network
