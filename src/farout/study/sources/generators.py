"""Generator sources: small descriptions from which any process builds the same trained generator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from farout.generators import Generator
from farout.generators.objective import VERSION, Objective
from farout.generators.pairing import Pairing
from farout.generators.perceptual import Form
from farout.networks import Ensemble, Network
from farout.study.sources.networks import NetworkSource
from farout.study.spec import GeneratorSpec

if TYPE_CHECKING:
    from farout.study.cells.cell import Cell
    from farout.study.store import Store


class GeneratorSource(ABC):
    """Description of a generator that any process can build."""

    label: str
    portable: bool = True

    @abstractmethod
    def identity(self) -> Any:
        """Return everything that the generated images depend on, apart from seeds and inputs, as JSON."""

    @abstractmethod
    def preview(self) -> Generator:
        """Return the generator before the run; untrained if the run trains it."""

    @abstractmethod
    def build(self, store: Store) -> Generator:
        """Return the generator with its weights."""

    @property
    def requires(self) -> tuple[Cell, ...]:
        """Cells that must be present before the generator can be built."""
        return ()


@dataclass(frozen=True)
class StoredGenerator(GeneratorSource):
    """Generator whose weights come from a file that `Generator.save` wrote."""

    spec: GeneratorSpec
    label: str
    shape: tuple[int, int, int]

    @cached_property
    def _digest(self) -> str:
        return self.preview().digest

    def identity(self) -> Any:
        return {"generator": self.spec.untrained(self.shape).identity(), "weights": self._digest}

    def preview(self) -> Generator:
        assert self.spec.weights is not None
        return self.spec.untrained(self.shape).load(self.spec.weights)

    def build(self, store: Store) -> Generator:
        generator = self.preview()
        if generator.digest != self._digest:
            raise RuntimeError(f"the weights of {self.label} have changed since the run was planned; run again")
        return generator


@dataclass(frozen=True)
class LiveGenerator(GeneratorSource):
    """Trained generator in the memory of this process; it is sent to others as it is."""

    generator: Generator
    label: str

    def identity(self) -> Any:
        return {"generator": self.generator.identity(), "weights": self.generator.digest}

    def preview(self) -> Generator:
        return self.generator

    def build(self, store: Store) -> Generator:
        return self.generator


@dataclass(frozen=True)
class ObjectiveSource:
    """Objective of a generator's training, with the networks that it reads as sources."""

    name: Literal["plain", "near", "shifted"] = "plain"
    lambda_p: float = 1.0
    lambda_s: float = 1.0
    ensemble: NetworkSource | None = None
    """Ensemble whose mutual information is the semantic loss; so is `features` of the perceptual loss."""
    features: NetworkSource | None = None
    pairing: Pairing = "random"
    form: Form = "unit"
    lambda_c: float = 0.0

    @property
    def networks(self) -> tuple[NetworkSource, ...]:
        """Networks that it reads; none if the objective is plain."""
        return tuple(network for network in (self.ensemble, self.features) if network is not None)

    def identity(self) -> Any:
        """Return everything that the loss depends on, as JSON."""
        if self.name == "plain":
            return self.name
        return {
            "name": self.name,
            "version": VERSION,
            "lambda_p": self.lambda_p,
            "lambda_s": self.lambda_s,
            "ensemble": self.ensemble and self.ensemble.identity(),
            "features": self.features and self.features.identity(),
            "pairing": self.pairing,
            "form": self.form,
            **({"lambda_c": self.lambda_c} if self.lambda_c else {}),
        }

    def preview(self) -> Objective:
        """Return the objective before the run, with untrained networks where the run trains them."""
        return self._with(lambda network: network.preview())

    def build(self, store: Store) -> Objective:
        """Return the objective with its networks."""
        return self._with(lambda network: network.build(store))

    def _with(self, opened: Callable[[NetworkSource], Network]) -> Objective:
        if self.name == "plain":
            return Objective()
        return Objective(
            name=self.name,
            lambda_p=self.lambda_p,
            lambda_s=self.lambda_s,
            ensemble=None if self.ensemble is None else _ensemble(opened(self.ensemble)),
            features=None if self.features is None else opened(self.features),
            pairing=self.pairing,
            form=self.form,
            lambda_c=self.lambda_c,
        )


def _ensemble(network: Network) -> Ensemble:
    assert isinstance(network, Ensemble)
    return network
