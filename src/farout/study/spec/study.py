"""Spec of a study: the content of its file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    NonNegativeInt,
    Tag,
    ValidationError,
)
from pydantic_core import ErrorDetails

from farout.files import open_file
from farout.registry import unknown
from farout.study.spec.data import Data, InlierSplits
from farout.study.spec.generated import GeneratedSpec, NearSpec, SampledSpec, ShiftedSpec
from farout.study.spec.networks import AnyNetwork
from farout.study.spec.parts import Budget, Label, NamedSpec, Spec, named
from farout.study.yaml_files import LARGEST, load

T = TypeVar("T")
MOST = 1000
"""Largest number of outlier sets, networks, detectors or seeds of a study; more are probably a mistake."""
GENERATED = {"near_ood": NearSpec, "shifted": ShiftedSpec, "generated": SampledSpec}
"""Specs of generated sets by name."""


def _images_kind(value: Any) -> str:
    """Return the tag of the model of an image set's entry; tags in brackets do not occur in the paths of errors."""
    name = value.get("name") if isinstance(value, dict) else value.name if isinstance(value, GeneratedSpec) else value
    return f"[{name}]" if isinstance(name, str) and name in GENERATED else "[data]"


AnyImages = Annotated[
    Annotated[Data, Tag("[data]")]
    | Annotated[NearSpec, BeforeValidator(named), Tag("[near_ood]")]
    | Annotated[ShiftedSpec, BeforeValidator(named), Tag("[shifted]")]
    | Annotated[SampledSpec, BeforeValidator(named), Tag("[generated]")],
    Discriminator(_images_kind),
]


class DetectorSpec(NamedSpec):
    """Detector or adapter by name with its parameters: {name: knn, k: 10}, {name: onnx, path: mine.onnx}."""

    kinds = ("detector", "adapter")
    label: Label | None = None
    """Name that tables use."""


class ProtocolSpec(NamedSpec):
    """Protocol by name with its parameters: {name: attributes, shift: [hue, size]}."""

    kinds = ("protocol",)


def _several(value: Any) -> Any:
    """Expand a single entry to a list."""
    return value if isinstance(value, list | tuple) else [value]


def _check_name(name: str) -> str:
    """Raise if a study's name cannot be the name of its results folder."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(
            f"a study's name must start with a letter or digit and hold only letters, digits, '_', '.' and '-', got "
            f"{name!r}; set it with name: (by default it is the file's name)"
        )
    return name


def _check_distinct(items: list[T]) -> list[T]:
    repeated = [item for item, times in Counter(items).items() if times > 1]
    if repeated:
        raise ValueError(f"{', '.join(map(str, repeated))} is listed more than once; list each only once")
    return items


def _check_distinct_names(protocols: list[ProtocolSpec]) -> list[ProtocolSpec]:
    _check_distinct([protocol.name for protocol in protocols])
    return protocols


class StudySpec(Spec):
    """Content of a study file: the detectors, networks, images, protocols, seeds and budget."""

    name: Annotated[str, AfterValidator(_check_name)]
    """Name of the results folder below runs/; by default the file's name."""
    inliers: InlierSplits
    """Inliers: the name of a set, which stands for its splits train, val and test, or the splits one by one."""
    outliers: list[AnyImages] = Field(default_factory=list, max_length=MOST)
    """Outlier sets that detectors are tested on; without any, those that the inliers' set brings along."""
    networks: list[AnyNetwork] = Field(default_factory=list, max_length=MOST)
    """Classifiers that post-hoc detectors read; every such detector is tested on every network."""
    detectors: list[Annotated[DetectorSpec, BeforeValidator(named)]] = Field(min_length=1, max_length=MOST)
    """Detectors to test."""
    protocols: Annotated[
        list[Annotated[ProtocolSpec, BeforeValidator(named)]], AfterValidator(_check_distinct_names)
    ] = Field(default=[ProtocolSpec(name="clean")], min_length=1)
    """Evaluation protocols to run."""
    seeds: Annotated[list[NonNegativeInt], AfterValidator(_check_distinct)] = Field(
        default=[0], min_length=1, max_length=MOST
    )
    """Seeds, each with networks, rendered images and fits of its own."""
    budget: Budget = "standard"
    """Limits of the run; `--budget` replaces it."""
    validation_outliers: AnyImages | None = None
    """Outliers that supervised detectors (mds_layers) are fitted on, at most as many as the budget has validation
    images; never among the outliers tested."""
    auxiliary_outliers: Annotated[list[AnyImages], BeforeValidator(_several)] = Field(
        default_factory=list, max_length=MOST
    )
    """Outliers that trained detectors (oe, good, …) learn from: one set or several, at most as many images of each as
    the budget has training images; never among the outliers tested."""

    @classmethod
    def read(cls, path: str | Path) -> StudySpec:
        """Read a study from a YAML file; paths in it are relative to the file."""
        path = Path(path)
        try:
            with open_file(path.resolve()) as file:
                value = load(file.read(4 * LARGEST).decode("utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot read the study {path}: {error}") from error
        if not isinstance(value, dict):
            raise ValueError(f"the study {path} must be a mapping (name:, inliers:, …), got {type(value).__name__}")
        try:
            return cls.model_validate({"name": path.stem, **value}, context={"folder": path.resolve().parent})
        except ValidationError as error:
            raise ValueError(f"the study {path} is not valid:\n{format_problems(error)}") from None

    def without(self, names: Iterable[str]) -> StudySpec:
        """Return the study without the detectors of these names or labels."""
        remaining = list(self.detectors)
        for name in names:
            kept = [item for item in remaining if name not in (item.name, item.label)]
            if len(kept) == len(remaining):
                raise unknown("detector of the study:", name, {item.label or item.name for item in remaining})
            remaining = kept
        if not remaining:
            raise ValueError("without these detectors the study has none left; keep at least one")
        return self.model_copy(update={"detectors": remaining})


def format_problems(error: ValidationError) -> str:
    """Return a line per problem, with the keys that lead to it."""
    return "\n".join(f"  {_key_path(e) or 'study'}: {_message(e)}" for e in error.errors())


def _key_path(error: ErrorDetails) -> str:
    """Return the keys that lead to the problem, joined by dots, without pydantic's names of types."""
    return ".".join(part for part in map(str, error["loc"]) if "[" not in part)


def _message(error: ErrorDetails) -> str:
    if error["type"] == "model_type":
        return f"expected a name or a mapping, got {error['input']!r}"
    return error["msg"].removeprefix("Value error, ")
