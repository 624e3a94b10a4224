"""What a study file may say: pydantic models that refuse unknown keys, read with a safe YAML loader."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    WrapSerializer,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from farout import networks
from farout.component import Named
from farout.data.arrays import MOST_CLASSES, list_npz_arrays
from farout.data.catalog import DATASETS, builders, split_folders
from farout.files import opened
from farout.registry import UnknownName, registry_of, unknown
from farout.study.paths import makers_of, resolved
from farout.study.yaml_files import LARGEST, load
from farout.training.recipe import Recipe

Budget = Literal["quick", "standard", "full"]
BUDGETS: tuple[Budget, ...] = ("quick", "standard", "full")

T = TypeVar("T")
MOST = 1000
"""Outlier sets, networks, detectors or seeds of a study: more would take years, or are a slip."""
MOST_MEMBERS = 100
"""Networks of an ensemble."""
MOST_PIXELS = 4096
"""Side of the images a network takes."""
Label = Annotated[str, Field(min_length=1)]
"""Name of a thing in tables."""
SPLIT = "give both splits: inliers: {train: …, test: …}, each a name, a file or a folder"
"""Advice for inliers that are one set."""


@contextmanager
def own_by_plugin() -> Iterator[None]:
    """Add to the error for an unknown name that one's own are made known with --plugin."""
    try:
        yield
    except UnknownName as error:
        raise UnknownName(f"{error} If it is one of your own, name its file with --plugin.") from None


class Spec(BaseModel):
    """Base of all specs: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if isinstance(value, dict):
            _check_keys(cls, value, cls.model_fields)
        return value


def _check_keys(cls: type[Any], keys: Iterable[Any], known: Iterable[str]) -> None:
    known = list(known)
    for key in keys:
        if key not in known:
            raise ValueError(str(unknown(f"key in {cls.__name__.removesuffix('Spec').lower()}:", key, known)))


def _named(value: Any) -> Any:
    """A bare string is short for {name: string}."""
    return {"name": value} if isinstance(value, str) else value


class DataSpec(Spec):
    """One image set: a named set, an .npz file or a folder."""

    name: str = Field(min_length=1)
    split: str = "test"
    limit: PositiveInt | None = None
    label: Label | None = None
    options: dict[str, Any] = Field(default_factory=dict)


def _data(value: Any, info: ValidationInfo) -> Any:
    """ "toy:test/ood_cls" is short for {name: toy, split: test/ood_cls}; paths start from the study's folder."""
    if isinstance(value, str) and value.find(":") > 1 and not _path(value, info).exists():  # nor a drive letter
        name, _, split = value.rpartition(":")
        value = {"name": name, "split": split}
    value = _named(value)
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value = {**value, "name": _rooted(value["name"], info)}
        if isinstance(value.get("options"), dict):
            value["options"] = resolved(value["options"], list(builders(value["name"])), _folder(info))
    return value


def _rooted(name: str, info: ValidationInfo) -> str:
    """A path, taken from the study's folder, where there is one and no set has that name; else the name as it is."""
    path = _path(name, info)
    if not name or name in DATASETS:
        return name
    if path.exists() or Path(name).suffix or "/" in name:
        return str(path.resolve())
    if info.context:  # a study's names are not looked up in the folder that the command happens to run in
        with own_by_plugin():
            DATASETS[name]
    return name


def _path(name: str, info: ValidationInfo) -> Path:
    return _folder(info) / Path(name).expanduser()


def _folder(info: ValidationInfo) -> Path:
    return Path((info.context or {}).get("folder", "."))


Data = Annotated[DataSpec, BeforeValidator(_data)]


class InliersSpec(Spec):
    """The inlier distribution in its three splits; `val` is cut from `train` where there is none."""

    train: Data | None = None
    val: Data | None = None
    test: Data


def _inliers(value: Any, info: ValidationInfo) -> Any:
    """A single name stands for its train, val and test splits; a file, or a folder without splits, for its images."""
    if isinstance(value, dict) and "name" not in value:
        return value
    value = _data(value, info)
    if not isinstance(value, dict) or "split" in value:
        return {"test": value}
    path, splits = Path(str(value["name"])), ["train", "val", "test"]
    if path.is_absolute() and path.exists():
        inside = (
            split_folders(path) if path.is_dir() else [name.removesuffix("_images") for name in list_npz_arrays(path)]
        )
        splits = [split for split in splits if split in inside] or ["test"]
    return {split: {**value, "split": split} for split in splits}


InlierSplits = Annotated[InliersSpec, BeforeValidator(_inliers)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainSpec(Recipe):
    """How a network is trained before the study: a recipe, whose seed is the study's; all of it is in its identity."""

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)
    epochs: int | None = None
    """100 where the number of steps is not given either."""

    def __post_init__(self) -> None:
        if self.epochs is None and self.steps is None:
            object.__setattr__(self, "epochs", 100)
        super().__post_init__()


def _recipe(value: Any) -> Any:
    if isinstance(value, dict):
        known = [field.name for field in dataclasses.fields(TrainSpec) if field.name != "seed"]
        _check_keys(TrainSpec, value, known)
    return value


def _without_seed(recipe: Any, dump: SerializerFunctionWrapHandler) -> Any:
    return {key: value for key, value in dump(recipe).items() if key != "seed"}


Training = Annotated[TrainSpec, BeforeValidator(_recipe), WrapSerializer(_without_seed)]
WeightsFile = Annotated[str, AfterValidator(_rooted)]


class NamedSpec(Spec):
    """A thing by name with its parameters beside it: {name: knn, k: 10}."""

    kinds: ClassVar[tuple[str, ...]]
    """Kinds of things that the name may stand for."""
    name: str = Field(min_length=1)
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "params" in value:
            return value
        params = {key: item for key, item in value.items() if key not in cls.model_fields}
        cls._check_params(str(value.get("name")), params)
        return {key: item for key, item in value.items() if key not in params} | {"params": params}

    @classmethod
    def _check_params(cls, name: str, params: dict[str, Any]) -> None:
        """Raise an error for unknown parameters; by default they are found out when the thing is made."""

    @field_validator("params")
    @classmethod
    def _resolved(cls, params: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Resolve paths from the study's folder, and let the thing refuse what has no place in a study."""
        makers = makers_of(info.data.get("name", ""), map(registry_of, cls.kinds)) if params else []
        for maker in makers:
            if isinstance(maker, type) and issubclass(maker, Named):
                maker.check_study(params)
        return resolved(params, makers, _folder(info))


class NetworkSpec(NamedSpec):
    """A classifier by architecture, with weights from a file, from timm (`pretrained`) or trained here.

    `train` beside `weights` or `pretrained` fine-tunes these, with a new head where they know other classes. Several
    files of weights, or `members` to be trained, make an ensemble; a budget counts it as one network.
    """

    kinds = ("network",)
    label: Label | None = None
    weights: WeightsFile | Annotated[tuple[WeightsFile, ...], Field(min_length=2, max_length=MOST_MEMBERS)] | None = (
        None
    )
    members: Annotated[int, Field(ge=2, le=MOST_MEMBERS)] | None = None
    pretrained: bool = False
    train: Training | None = None
    mean: FiniteFloat | tuple[FiniteFloat, ...] | None = None
    """Normalizer, a number per channel or one for all; None = 0.5, or what timm's weights saw of a network that timm
    builds."""
    std: FiniteFloat | tuple[FiniteFloat, ...] | None = None
    side: Annotated[PositiveInt, Field(le=MOST_PIXELS)] | None = None
    classes: Annotated[NonNegativeInt, Field(le=MOST_CLASSES)] | None = None
    """None = those of the inliers; 0 = none: a network of timm's gives its features alone."""

    @classmethod
    def _check_params(cls, name: str, params: dict[str, Any]) -> None:
        known = networks.parameters(name)
        if known is not None and name in networks.NETWORKS:
            _check_keys(cls, params, [*(field for field in cls.model_fields if field != "params"), *known])

    @model_validator(mode="after")
    def _one_origin(self) -> NetworkSpec:
        if self.weights is None and not self.pretrained and self.train is None:
            raise ValueError(
                f"network {self.name!r}: give weights: file or pretrained: true, train: {{…}}, or train beside one of "
                "them to fine-tune it"
            )
        if self.weights is not None and self.pretrained:
            raise ValueError(f"network {self.name!r}: its weights come from a file or from timm: leave out pretrained")
        if self.train and isinstance(self.weights, tuple):
            raise ValueError(
                f"network {self.name!r}: training starts from one file, got {len(self.weights)}; for an ensemble give "
                "one file and members: 3"
            )
        if self.train and self.classes == 0:
            raise ValueError(f"network {self.name!r}: without classes (classes: 0) there is nothing to train")
        if isinstance(self.weights, tuple) and len(set(self.weights)) < len(self.weights):
            raise ValueError(f"network {self.name!r}: the members of an ensemble differ, and a file stands there twice")
        if self.members and not self.train:
            raise ValueError(
                f"network {self.name!r}: members: {self.members} are networks to be trained here; of networks that are "
                "there already name all files, weights: [a.safetensors, b.safetensors, …]"
            )
        return self


class DetectorSpec(NamedSpec):
    """A detector or an adapter by name with its parameters: {name: knn, k: 10}, {name: onnx, path: mine.onnx}."""

    kinds = ("detector", "adapter")
    label: Label | None = None


class ProtocolSpec(NamedSpec):
    """A protocol by name with its parameters: {name: attributes, shift: [hue, size]}."""

    kinds = ("protocol",)


def _folder_name(name: str) -> str:
    """A study's name is the name of its folder of results."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(
            f"a study's name starts with a letter or digit and holds letters, digits, '_', '.' and '-' only, got "
            f"{name!r}; give it one with name: (by default it is the file's name)"
        )
    return name


def _distinct(items: list[T]) -> list[T]:
    twice = [item for item, times in Counter(items).items() if times > 1]
    if twice:
        raise ValueError(f"{', '.join(map(str, twice))} stands there twice")
    return items


def _distinct_names(protocols: list[ProtocolSpec]) -> list[ProtocolSpec]:
    _distinct([protocol.name for protocol in protocols])
    return protocols


class StudySpec(Spec):
    """A study: which detectors, on which networks, against which images, by which protocols."""

    name: Annotated[str, AfterValidator(_folder_name)]
    inliers: InlierSplits
    outliers: list[Data] = Field(default_factory=list, max_length=MOST)
    networks: list[Annotated[NetworkSpec, BeforeValidator(_named)]] = Field(default_factory=list, max_length=MOST)
    detectors: list[Annotated[DetectorSpec, BeforeValidator(_named)]] = Field(min_length=1, max_length=MOST)
    protocols: Annotated[list[Annotated[ProtocolSpec, BeforeValidator(_named)]], AfterValidator(_distinct_names)] = (
        Field(default=[ProtocolSpec(name="clean")], min_length=1)
    )
    seeds: Annotated[list[NonNegativeInt], AfterValidator(_distinct)] = Field(
        default=[0], min_length=1, max_length=MOST
    )
    budget: Budget = "standard"
    validation_outliers: Data | None = None
    """What supervised detectors (mds_layers) learn from, at most as many as a budget has validation images; never among
    the outliers tested."""

    @classmethod
    def read(cls, path: str | Path) -> StudySpec:
        """A study from a YAML file; paths in it are relative to the file."""
        path = Path(path)
        try:
            with opened(path.resolve()) as file:
                value = load(file.read(4 * LARGEST).decode("utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot read the study {path}: {error}") from error
        if not isinstance(value, dict):
            raise ValueError(f"the study {path} must be a mapping (name:, inliers:, …), got {type(value).__name__}")
        try:
            return cls.model_validate({"name": path.stem, **value}, context={"folder": path.resolve().parent})
        except ValidationError as error:
            raise ValueError(f"the study {path} is not right:\n{_problems(error)}") from None

    def without(self, names: Iterable[str]) -> StudySpec:
        """The study less the detectors of these names or labels."""
        left = list(self.detectors)
        for name in names:
            kept = [item for item in left if name not in (item.name, item.label)]
            if len(kept) == len(left):
                raise unknown("detector of the study:", name, {item.label or item.name for item in left})
            left = kept
        if not left:
            raise ValueError("without these detectors the study has none left")
        return self.model_copy(update={"detectors": left})


def _problems(error: ValidationError) -> str:
    return "\n".join(f"  {_place(e) or 'study'}: {_problem(e)}" for e in error.errors())


def _place(error: ErrorDetails) -> str:
    """Return the place of the problem, without pydantic's names of the types that it tried."""
    return ".".join(part for part in map(str, error["loc"]) if "[" not in part)


def _problem(error: ErrorDetails) -> str:
    if error["type"] == "model_type":
        return f"expected a name or a mapping, got {error['input']!r}"
    return error["msg"].removeprefix("Value error, ")
