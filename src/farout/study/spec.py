"""What a study file may say: pydantic models that refuse unknown keys, read with a safe YAML loader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from farout import networks
from farout.data.arrays import MOST_CLASSES, list_npz_arrays
from farout.data.catalog import DATASETS, split_folders
from farout.files import opened
from farout.registry import UnknownName, unknown
from farout.study.yaml_files import LARGEST, load

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


def _check_keys(cls: type[Spec], keys: Iterable[Any], known: Iterable[str]) -> None:
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


_PATHS = ("font", "root")
"""Options of image sets that name a file or folder."""


def _data(value: Any, info: ValidationInfo) -> Any:
    """ "toy:test/ood_cls" is short for {name: toy, split: test/ood_cls}; paths start from the study's folder."""
    if isinstance(value, str) and value.find(":") > 1 and not _path(value, info).exists():  # nor a drive letter
        name, _, split = value.rpartition(":")
        value = {"name": name, "split": split}
    value = _named(value)
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value = {**value, "name": _rooted(value["name"], info)}
        options = value.get("options")
        for key in _PATHS if isinstance(options, dict) else ():
            if isinstance(options.get(key), str):
                options = value["options"] = {**options, key: str(_path(options[key], info).resolve())}
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
    return Path((info.context or {}).get("folder", ".")) / Path(name).expanduser()


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


class TrainSpec(Spec):
    """How a network is trained before the study; every field goes into the network's identity."""

    epochs: PositiveInt = 100
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    batch: Annotated[int, Field(ge=2)] = 128
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5e-4
    schedule: Literal["cosine", "step"] = "cosine"
    augment: Literal["crop_flip", "none"] = "crop_flip"


WeightsFile = Annotated[str, AfterValidator(_rooted)]


class NetworkSpec(Spec):
    """A classifier by architecture, with weights from a file, from timm (`pretrained`) or trained here.

    Several files of weights, or `members` to be trained, make an ensemble; a budget counts it as one network.
    """

    name: str = Field(min_length=1)
    label: Label | None = None
    weights: WeightsFile | Annotated[tuple[WeightsFile, ...], Field(min_length=2, max_length=MOST_MEMBERS)] | None = (
        None
    )
    members: Annotated[int, Field(ge=2, le=MOST_MEMBERS)] | None = None
    pretrained: bool = False
    train: TrainSpec | None = None
    mean: FiniteFloat | tuple[FiniteFloat, ...] | None = None
    """Normalizer, a number per channel or one for all; None = 0.5, or what timm's weights saw of a network that timm
    builds."""
    std: FiniteFloat | tuple[FiniteFloat, ...] | None = None
    side: Annotated[PositiveInt, Field(le=MOST_PIXELS)] | None = None
    classes: Annotated[NonNegativeInt, Field(le=MOST_CLASSES)] | None = None
    """None = those of the inliers; 0 = none: a network of timm's gives its features alone."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Other parameters of a network of the user's, written beside the other keys: {name: mine, width: 16}."""

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "params" in value:
            return value
        params = {key: item for key, item in value.items() if key not in cls.model_fields}
        name = str(value.get("name"))
        known = networks.parameters(name)
        if known is not None and name in networks.NETWORKS:
            _check_keys(cls, params, [*(field for field in cls.model_fields if field != "params"), *known])
        return {key: item for key, item in value.items() if key not in params} | {"params": params}

    @model_validator(mode="after")
    def _one_origin(self) -> NetworkSpec:
        if sum([self.weights is not None, self.pretrained, self.train is not None]) != 1:
            raise ValueError(f"network {self.name!r}: give exactly one of weights, pretrained or train")
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


class NamedSpec(Spec):
    """A thing by name with its parameters beside it: {name: knn, k: 10}."""

    name: str
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "params" in value:
            return value
        params = {key: item for key, item in value.items() if key not in cls.model_fields}
        return {key: item for key, item in value.items() if key not in params} | {"params": params}


class DetectorSpec(NamedSpec):
    """A detector or an adapter by name with its parameters: {name: knn, k: 10}, {name: onnx, path: mine.onnx}."""

    label: Label | None = None

    @field_validator("params")
    @classmethod
    def _adapted(cls, params: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Files that adapters read start from the study's folder; a header's secret has no place in a study."""
        key = {"onnx": "path", "function": "of"}.get(info.data.get("name", ""), "")
        if isinstance(params.get(key), str) and (key == "path" or ":" in params[key]):
            file, colon, name = params[key].rpartition(":") if key == "of" else (params[key], "", "")
            params = {**params, key: f"{_path(file, info).resolve()}{colon}{name}"}
        headers = params.get("headers")
        for header, value in headers.items() if info.data.get("name") == "http" and isinstance(headers, dict) else ():
            if not isinstance(value, str) or not Template(value).get_identifiers():
                raise ValueError(
                    f"header {header}: a study is stored with its results, so give the name of an environment variable "
                    'instead of the value: "$FAROUT_TOKEN"'
                )
        return params


class ProtocolSpec(NamedSpec):
    """A protocol by name with its parameters: {name: attributes, shift: [hue, size]}."""

    @field_validator("params")
    @classmethod
    def _rooted(cls, params: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Folders start from the study's folder."""
        folder = params.get("frost_dir")
        return {**params, "frost_dir": str(_path(folder, info).resolve())} if isinstance(folder, str) else params


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
