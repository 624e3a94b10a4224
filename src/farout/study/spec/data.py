"""Specs of image sets, and of the inliers' splits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt, ValidationInfo

from farout.data.catalog import DATASETS, builders
from farout.data.paths import splits_of
from farout.data.patterns import is_pattern
from farout.study.paths import resolve_paths
from farout.study.spec.parts import Label, Spec, find_path, folder_of, named, suggest_plugin


class DataSpec(Spec):
    """Image set: a named set, a file, a folder or a pattern of shards."""

    name: str = Field(min_length=1)
    """Name of a data set, or path of a file, a folder or shards ("photos-{0000..0009}.tar"), relative to the study."""
    split: str = "test"
    """Split of the set; "name:split" is the short form of both."""
    limit: PositiveInt | None = None
    """Largest number of images; of a set sorted by class about as many of each class."""
    label: Label | None = None
    """Name that tables use."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the set, as `farout list datasets NAME` shows them."""


def _data(value: Any, info: ValidationInfo) -> Any:
    """Expand "toy:test/ood_cls" to {name: toy, split: test/ood_cls}, and resolve paths against the study's folder."""
    if isinstance(value, str) and value.find(":") > 1 and not find_path(value, info).exists():  # C: is a drive letter
        name, _, split = value.rpartition(":")
        value = {"name": name, "split": split}
    value = named(value)
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value = {**value, "name": resolve_name(value["name"], info)}
        if isinstance(value.get("options"), dict):
            value["options"] = resolve_paths(value["options"], list(builders(value["name"])), folder_of(info))
    return value


def resolve_name(name: str, info: ValidationInfo) -> str:
    """Return the name of a registered set unchanged, and a path as absolute, resolved against the study's folder."""
    path = find_path(name, info)
    if not name or name in DATASETS:
        return name
    if path.exists() or Path(name).suffix or "/" in name:
        return str(path.resolve())
    if info.context:  # in a study file, every other name must be registered
        with suggest_plugin():
            DATASETS[name]
    return name


Data = Annotated[DataSpec, BeforeValidator(_data)]


class InliersSpec(Spec):
    """Inlier distribution in three splits; without `val`, a tenth of `train` serves as validation split."""

    train: Data | None = None
    """Images that networks are trained on and detectors fitted on."""
    val: Data | None = None
    """Images for thresholds, calibration and the choice of settings; None = a tenth of `train`."""
    test: Data
    """Images that outliers are compared with."""


def _inliers(value: Any, info: ValidationInfo) -> Any:
    """Expand a single name to its train, val and test splits, and a file or folder to the splits that it has."""
    if isinstance(value, dict) and "name" not in value:
        return value
    value = _data(value, info)
    if not isinstance(value, dict) or "split" in value:
        return {"test": value}
    name, splits = str(value["name"]), ["train", "val", "test"]
    if Path(name).is_absolute() and (Path(name).exists() or is_pattern(name)):
        splits = [split for split in splits if split in splits_of(name)] or ["test"]
    return {split: {**value, "split": split} for split in splits}


InlierSplits = Annotated[InliersSpec, BeforeValidator(_inliers)]
