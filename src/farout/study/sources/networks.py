"""Network sources: small descriptions from which any process builds the same network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from farout.networks import Ensemble, Network, own_identity, restrict
from farout.networks.mode import PLAIN, Mode
from farout.study.spec import NetworkSpec

if TYPE_CHECKING:
    from farout.study.cells.cell import Cell
    from farout.study.store import Store
from farout.study.sources.images import load_cached
from farout.study.sources.opening import current_opener


def forget_loaded() -> None:
    """Clear the caches of images and networks, whose files may have changed. Called at the start of a study."""
    load_cached.cache_clear()
    _load_network.cache_clear()


class AboutNetwork(NamedTuple):
    """Facts of a network that plans need, apart from its weights."""

    classes: int
    """Number of logits; 0 without a head."""
    block_names: tuple[str, ...]
    has_maps: bool
    """True if the layer that shows its attention is known."""

    @classmethod
    def of(cls, network: Network) -> AboutNetwork:
        """Return the facts of a network."""
        known = bool(network.block_names or hasattr(network.module, "feature_info"))
        return cls(network.classes, network.block_names, known and not isinstance(network, Ensemble))


class NetworkSource(ABC):
    """Description of a network that any process can build."""

    label: str
    portable: bool = True
    mode: Mode = PLAIN
    """Precision and compilation of its forward passes."""

    @property
    def compiled(self) -> bool:
        """True if passes use torch.compile."""
        return self.mode.compile

    @cached_property
    def about(self) -> AboutNetwork:
        """Facts of the network; computed once and sent along to other processes."""
        return AboutNetwork.of(self.preview())

    @abstractmethod
    def identity(self) -> Any:
        """Return everything that the network's activations depend on, as JSON."""

    @abstractmethod
    def preview(self) -> Network:
        """Return the network before the run; untrained if the run trains it."""

    @abstractmethod
    def build(self, store: Store) -> Network:
        """Return the network with its weights."""

    @property
    def requires(self) -> tuple[Cell, ...]:
        """Cells that must be present before the network can be built."""
        return ()


@dataclass(frozen=True)
class StoredNetwork(NetworkSource):
    """Network by architecture whose weights come from a file or from timm."""

    spec: NetworkSpec
    label: str
    classes: int
    side: int
    channels: int
    kept: tuple[int, ...] = ()
    """Classes whose logits are kept; all if empty."""
    mode: Mode = PLAIN

    @cached_property
    def _digest(self) -> str:
        return current_opener().digest(self)

    @cached_property
    def _identity(self) -> Any:
        own = own_identity(self.spec.name, self.spec.params)
        return self.mode.identify({"weights": self._digest, **own} if own else self._digest)

    def identity(self) -> Any:
        return self._identity

    def preview(self) -> Network:
        return _load_network(self.spec.model_dump_json(), self.classes, self.side, self.channels, self.kept)

    def build(self, store: Store) -> Network:
        network = self.preview()
        if network.digest != self._digest:
            raise RuntimeError(f"the weights of {self.label} have changed since the run was planned; run again")
        return network.running(self.mode)


@dataclass(frozen=True)
class LiveNetwork(NetworkSource):
    """Network in the memory of this process."""

    network: Network
    weights: str
    """Digest of the weights."""
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
    """Ensemble of networks."""

    label: str
    members: tuple[NetworkSource, ...]

    @property
    def compiled(self) -> bool:
        return any(member.compiled for member in self.members)

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return all(member.portable for member in self.members)

    @property
    def requires(self) -> tuple[Cell, ...]:
        return tuple(cell for member in self.members for cell in member.requires)

    @cached_property
    def about(self) -> AboutNetwork:
        members = [member.about for member in self.members]
        if len({member.classes for member in members}) > 1:
            return AboutNetwork.of(self.preview())  # raises an error that says so
        blocks = tuple(f"{index}.{name}" for index, member in enumerate(members) for name in member.block_names)
        return AboutNetwork(members[0].classes, blocks, has_maps=False)

    def identity(self) -> Any:
        return {"members": [member.identity() for member in self.members]}

    def preview(self) -> Network:
        return Ensemble([member.preview() for member in self.members])

    def build(self, store: Store) -> Network:
        return Ensemble([member.build(store) for member in self.members])


@dataclass(frozen=True)
class RestrictedNetwork(NetworkSource):
    """Network of another source with the logits of some of its classes only."""

    source: NetworkSource
    classes: tuple[int, ...]
    """Indices of the logits that are kept, in their new order."""

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.source.label

    @property
    def compiled(self) -> bool:
        return self.source.compiled

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return self.source.portable

    @property
    def requires(self) -> tuple[Cell, ...]:
        return self.source.requires

    def identity(self) -> Any:
        return {"network": self.source.identity(), "classes": list(self.classes)}

    def preview(self) -> Network:
        return restrict(self.source.preview(), self.classes)

    def build(self, store: Store) -> Network:
        return restrict(self.source.build(store), self.classes)


@lru_cache(maxsize=8)
def _load_network(spec_json: str, classes: int, side: int, channels: int, kept: tuple[int, ...]) -> Network:
    spec = NetworkSpec.model_validate_json(spec_json)
    return current_opener().network(StoredNetwork(spec, spec.title, classes, side, channels, kept))
