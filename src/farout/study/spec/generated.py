"""Specs of generated image sets: Near-OoD and Shifted sets of the raised bar, and plain samples of a generator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from farout.generators import GENERATORS, Generator, create
from farout.generators.mi_interval import AUTO, MIInterval, parse_interval
from farout.generators.pairing import Pairing
from farout.generators.perceptual import Form
from farout.study.spec.data import Data
from farout.study.spec.networks import AnyNetwork
from farout.study.spec.parts import Label, NamedSpec, Spec, resolve_path
from farout.training.files import header

LAMBDAS = tuple(0.5 + 0.25 * number for number in range(11))
"""Values of λs of the paper: 0.5, 0.75, …, 3."""
MOST_LAMBDAS = 100


class GeneratorSpec(NamedSpec):
    """Generator by name with its parameters: {name: dcgan, width: 32, train: {epochs: 20}}.

    `train` holds changes of the generator's own recipe. A path alone names a file that `Generator.save` wrote.
    """

    kinds = ("generator",)
    label: Label | None = None
    """Name that tables use."""
    weights: str | None = None
    """File with the weights; None if the study trains it."""
    train: dict[str, Any] = Field(default_factory=dict)
    """Changes of the generator's own recipe."""

    def with_params(self, params: Mapping[str, Any]) -> GeneratorSpec:
        """Return the same generator with other values of some parameters."""
        return self.model_copy(update={"params": {**self.params, **params}})

    def without(self, names: Collection[str]) -> GeneratorSpec:
        """Return the same generator with the default values of some parameters."""
        kept = {name: value for name, value in self.params.items() if name not in names}
        return self.model_copy(update={"params": kept})

    def untrained(self, shape: tuple[int, int, int]) -> Generator:
        """Return the generator for images of this shape, before training; see `farout.generators.create`."""
        channels, height, width = shape
        if height != width:
            raise ValueError(
                f"{self.name} generates square images, and these are {height}×{width} px; give them a side:"
            )
        return create(self.name, height, channels, **self.params)


def _generator(value: Any, info: ValidationInfo) -> Any:
    """Expand a name to {name: …}, and the path of a file to the name and parameters in its header."""
    if not isinstance(value, str):
        return value
    if value in GENERATORS or not Path(value).suffix:
        return {"name": value}
    path = resolve_path(value, info)
    found = header(Path(path), "generator")
    params = {key: item for key, item in found.params.items() if key not in ("side", "channels")}
    return {"name": found.name, "params": params, "weights": path}


AnyGenerator = Annotated[GeneratorSpec, BeforeValidator(_generator)]


def _ensemble(value: Any) -> Any:
    """Expand a list of networks to {ensemble: list}."""
    return {"ensemble": value} if isinstance(value, list | tuple) else value


class GeneratedSpec(Spec):
    """Base of the specs of generated sets, each made once for all seeds of the study."""

    name: str
    """Kind of the set."""
    label: Label | None = None
    """Name that tables use."""
    generator: AnyGenerator
    """Generator by name with its parameters, or the path of a file that `Generator.save` wrote."""
    seed: NonNegativeInt = 0
    """Seed of the set: of its generators, of networks trained for it, and of its samples."""
    count: PositiveInt | None = None
    """Number of images; None = as many as the budget allows."""

    @property
    def title(self) -> str:
        """Name that tables use."""
        return self.label or self.name


class SampledSpec(GeneratedSpec):
    """Samples of a generator that is trained on the inliers, or read from a file."""

    name: Literal["generated"]


class BarSpec(GeneratedSpec):
    """Base of the sets of the raised bar."""

    ensemble: Annotated[AnyNetwork, BeforeValidator(_ensemble)] | None = None
    """Networks of different architectures whose mutual information is the semantic loss; None = `DEFAULT_ENSEMBLE`."""
    features: AnyNetwork | None = None
    """Network of the perceptual loss; None = a VGG of the ensemble, or its first network."""
    form: Form = "unit"
    """Form of the perceptual loss."""


class NearSpec(BarSpec):
    """Near-OoD set: generators trained with several λs, whose pooled samples are filtered by mutual information."""

    name: Literal["near_ood"]
    generator: AnyGenerator = GeneratorSpec(name="dcgan")
    lambda_s: Annotated[tuple[PositiveFloat, ...], Field(min_length=1, max_length=MOST_LAMBDAS)] = LAMBDAS
    """Weights of the semantic loss, a generator each."""
    lambda_p: PositiveFloat = 1.0
    """Weight of the perceptual loss."""
    pairing: Pairing = "random"
    """Real image that a generated one is compared with: any, one of the same class, or the nearest of the batch."""
    interval: str | tuple[float, float] = AUTO
    """"auto" (the paper's rule), the name of a published interval, or two bounds in nats."""

    @field_validator("interval")
    @classmethod
    def _check_interval(cls, value: Any) -> Any:
        parse_interval(value)
        return value

    @field_validator("lambda_s", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return value if isinstance(value, list | tuple) else [value]

    @field_validator("lambda_s")
    @classmethod
    def _distinct(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(values)) < len(values):
            raise ValueError(f"every lambda_s must be listed once, got {list(values)}")
        return values

    @property
    def bounds(self) -> MIInterval | None:
        """The interval; None if the rule selects it."""
        return parse_interval(self.interval)


class ShiftedSpec(BarSpec):
    """Shifted set: images that a generator has changed, far from the original and of its class."""

    name: Literal["shifted"]
    generator: AnyGenerator = GeneratorSpec(name="pix2pix")
    lambda_s: PositiveFloat = 1.0
    """Weight of the semantic loss."""
    lambda_p: PositiveFloat = 2.0
    """Weight of the perceptual loss."""
    lambda_c: NonNegativeFloat = 0.0
    """Weight of the cross entropy to the original's class; the paper has no such term."""
    images: Data | None = None
    """Images to change; None = the inliers' test split."""
