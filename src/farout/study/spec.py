"""What a study file may say: pydantic models that refuse unknown keys, read with a safe YAML loader."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from farout.registry import unknown

Budget = Literal["quick", "standard", "full"]
BUDGETS: tuple[Budget, ...] = ("quick", "standard", "full")


class Spec(BaseModel):
    """Base of all specs: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        for key in value if isinstance(value, dict) else ():
            if key not in cls.model_fields:
                raise ValueError(
                    str(unknown(f"key in {cls.__name__.removesuffix('Spec').lower()}:", key, cls.model_fields))
                )
        return value


def _named(value: Any) -> Any:
    """A bare string is short for {name: string}."""
    return {"name": value} if isinstance(value, str) else value


class DataSpec(Spec):
    """One image set: a named set, an .npz file or a folder."""

    name: str
    split: str = "test"
    limit: PositiveInt | None = None
    label: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


def _data(value: Any, info: ValidationInfo) -> Any:
    """ "toy:test/ood_cls" is short for {name: toy, split: test/ood_cls}; paths start from the study's folder."""
    if isinstance(value, str) and value.find(":") > 1:  # not a drive letter
        name, _, split = value.rpartition(":")
        value = {"name": name, "split": split}
    value = _named(value)
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value = {**value, "name": _rooted(value["name"], info)}
    return value


def _rooted(name: str, info: ValidationInfo) -> str:
    """A path, taken from the study's folder, where there is one; else the name as it is."""
    path = Path((info.context or {}).get("folder", ".")) / Path(name).expanduser()
    return str(path.resolve()) if path.exists() or Path(name).suffix else name


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
    if path.exists():
        splits = [split for split in splits if (path / split).is_dir()] or ["test"]
    return {split: {**value, "split": split} for split in splits}


InlierSplits = Annotated[InliersSpec, BeforeValidator(_inliers)]


class TrainSpec(Spec):
    """How a network is trained before the study; every field goes into the network's identity."""

    epochs: PositiveInt = 100
    lr: float = 0.1
    batch: PositiveInt = 128
    weight_decay: float = 5e-4
    schedule: Literal["cosine", "step"] = "cosine"
    augment: Literal["crop_flip", "none"] = "crop_flip"


class NetworkSpec(Spec):
    """A classifier by architecture, with weights from a file, from timm (`pretrained`) or trained here."""

    name: str
    label: str | None = None
    weights: Annotated[str, AfterValidator(_rooted)] | None = None
    pretrained: bool = False
    train: TrainSpec | None = None
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.25,)
    side: PositiveInt | None = None
    classes: PositiveInt | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> NetworkSpec:
        if sum([self.weights is not None, self.pretrained, self.train is not None]) != 1:
            raise ValueError(f"network {self.name!r}: give exactly one of weights, pretrained or train")
        return self


class DetectorSpec(Spec):
    """A detector by name with its parameters: {name: knn, k: 10}."""

    name: str
    label: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "params" in value:
            return value
        params = {key: item for key, item in value.items() if key not in ("name", "label")}
        return {key: item for key, item in value.items() if key not in params} | {"params": params}


class StudySpec(Spec):
    """A study: which detectors, on which networks, against which images, by which protocols."""

    name: str = Field(pattern=r"^[\w.-]+$")
    inliers: InlierSplits
    outliers: list[Data] = Field(default_factory=list)
    networks: list[Annotated[NetworkSpec, BeforeValidator(_named)]] = Field(default_factory=list)
    detectors: list[Annotated[DetectorSpec, BeforeValidator(_named)]] = Field(min_length=1)
    protocols: list[str] = ["clean"]
    seeds: list[int] = Field(default=[0], min_length=1)
    budget: Budget = "standard"

    @classmethod
    def read(cls, path: str | Path) -> StudySpec:
        """A study from a YAML file; paths in it are relative to the file."""
        path = Path(path)
        try:
            value = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ValueError(f"cannot read the study {path}: {error}") from error
        if not isinstance(value, dict):
            raise ValueError(f"the study {path} must be a mapping (name:, inliers:, …), got {type(value).__name__}")
        try:
            return cls.model_validate({"name": path.stem, **value}, context={"folder": path.resolve().parent})
        except ValidationError as error:
            raise ValueError(f"the study {path} is not right:\n{_problems(error)}") from None


def _problems(error: ValidationError) -> str:
    lines = (
        f"  {'.'.join(map(str, e['loc'])) or 'study'}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
    )
    return "\n".join(lines)
