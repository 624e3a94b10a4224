"""Settings of `raised_bar` in a study file: the generated sets, the sanity ensemble, corruptions and exposure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveFloat, TypeAdapter, ValidationError

from farout.core import Shift
from farout.registry import Named, split_settings
from farout.shifts.catalog import shift
from farout.shifts.selection import PUBLISHED
from farout.study.spec import AnyNetwork, BarSpec, Data, DataSpec, NearSpec, ShiftedSpec, format_problems
from farout.study.spec.parts import Label, Spec

SEVERITY = 5
"""Severity of the corruptions, unless the study sets another."""
CORRUPTIONS = PUBLISHED["C"][:15]
"""Corruption types of CIFAR-10-C and ImageNet-C, without the four extra ones."""
WEIGHT = 0.5
"""Weight of the loss on outliers in outlier exposure (Hendrycks et al. 2019, section 4)."""
SET_SEED = 1_000
"""Seed of generated sets unless the study sets another: not one that studies use for their networks, which would be
members of the generators' ensemble."""
SetOptions = Mapping[str, Any] | bool | None
"""Options of a generated set; True or None = the defaults, False = no such set."""


class ExposureSpec(Spec):
    """Outlier exposure: {networks: [resnet18], outliers: {svhn: "svhn:train"}, weight: 0.5}."""

    networks: tuple[Label, ...] | None = None
    """Labels of the study's networks to train with outliers; None = the first one that the study trains."""
    outliers: dict[Label, Data] = Field(default_factory=dict)
    """Outliers to train on beside the Near-OoD sets, by the label of the outlier set that is then not tested."""
    weight: PositiveFloat = WEIGHT


def _ensemble(value: Any) -> Any:
    return {"ensemble": value} if isinstance(value, list | tuple) else value


AnyEnsemble = Annotated[AnyNetwork, BeforeValidator(_ensemble)]
PARTS: Mapping[str, Any] = {
    "near": NearSpec,
    "shifted": ShiftedSpec,
    "sanity": AnyEnsemble,
    "exposure": ExposureSpec,
    "shifts": list[Data],
}
"""Models of the settings that name images, networks and generators, and so may hold paths."""
NAMES = {"near": "near_ood", "shifted": "shifted"}
"""Names of the generated sets in a study."""


def resolve_settings(params: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the settings with absolute paths; those in the settings are relative to the folder."""
    resolved = dict(params)
    for key, model in PARTS.items():
        value = params.get(key)
        if not isinstance(value, Mapping | list | tuple):
            continue  # true, false, or not set
        own = {"name": NAMES[key], **value} if key in NAMES and isinstance(value, Mapping) else value
        part = parse_part(key, model, own, folder)
        resolved[key] = TypeAdapter[Any](model).dump_python(part, mode="json", exclude_unset=True)
    return resolved


def parse_set(kind: Literal["near", "shifted"], options: SetOptions) -> BarSpec | None:
    """Return the spec of a generated set; None if there is to be none."""
    if options is False:
        return None
    name = NAMES[kind]
    if not (options is None or options is True or isinstance(options, Mapping)):
        raise ValueError(f"{kind}: expected the options of {name}, such as {{count: 1000}}, or false, got {options!r}")
    settings = dict(options) if isinstance(options, Mapping) else {}
    spec: BarSpec = parse_part(kind, PARTS[kind], {"name": name, "seed": SET_SEED, **settings})
    return spec


def parse_part(what: str, model: Any, value: Any, folder: Path | None = None) -> Any:
    """Return a validated part of the settings; errors name the key. folder: that of the study file, if known."""
    try:
        return TypeAdapter[Any](model).validate_python(value, context={"folder": folder} if folder else None)
    except ValidationError as error:
        raise ValueError(f"{what}: the settings are not valid:\n{format_problems(error)}") from None


def parse_shifts(items: Sequence[Any]) -> dict[str, DataSpec]:
    """Return labeled image sets by label."""
    specs: list[DataSpec] = parse_part("shifts", list[Data], list(items))
    named = {spec.label or spec.name: spec for spec in specs}
    if len(named) < len(specs):
        raise ValueError("shifts: two sets have the same name; give one a label: {name: …, label: another}")
    return named


def parse_corruptions(items: Sequence[Named] | bool) -> list[Shift]:
    """Return the corruptions, at severity 5 unless one sets another; none for False."""
    if items is False:
        return []
    if items is True:
        items = CORRUPTIONS
    if isinstance(items, str) or not isinstance(items, Sequence) or not items:
        raise ValueError(f"corruptions: expected a list such as [fog, contrast], or false, got {items!r}")
    made = []
    for item in items:
        name, settings = split_settings("corruptions", item)
        made.append(shift(name, **{"severity": SEVERITY, **settings}))
    names = [one.name for one in made]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"corruptions: {repeated[0]} is listed twice; leave one out")
    return made
