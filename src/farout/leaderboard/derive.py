"""The plan of a study worked out again, from descriptions of its images and networks instead of these themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from farout.identity import is_users
from farout.leaderboard.declared import Declarer
from farout.protocols import PROTOCOLS, cuts, unchecked_plan
from farout.registry import REGISTRIES, Registry, UnknownName, registry_of
from farout.study.cells.cell import Cell, Entry, closure
from farout.study.cuts import cut_to_budget
from farout.study.paths import path_parameters
from farout.study.results import plan_facts
from farout.study.sources.opening import opened_by
from farout.study.spec import DataSpec, DetectorSpec, EnsembleSpec, NetworkSpec, StudySpec
from farout.study.study import Study, build


def plan_study(spec: StudySpec) -> tuple[Study, list[Entry]]:
    """Return the study of a spec with its plan, as a run would write them."""
    study = build(spec)
    entries = unchecked_plan(study)
    study.cuts.extend(cut for cut in cuts(study) if cut not in study.cuts)
    return study, entries


@dataclass(frozen=True)
class Derived:
    """Plan that follows from the study of a submission."""

    facts: Mapping[str, Any]
    """Content of the plan file."""
    cells: Mapping[str, Cell]
    """All cells by identity, those included that others are computed from."""
    entries: list[Entry]
    left_out: list[str]
    """Reasons why parts of the study cannot be worked out here; empty if the plan is complete."""


def derive(spec: StudySpec, opener: Declarer) -> Derived:
    """Work out the plan of a study. No file is opened, and no code of the submitter's is imported.

    Detectors, networks and protocols for which this cannot be done are left out. Raise ValueError if nothing remains.
    """
    spec, left_out = _derivable(spec)
    with opened_by(opener):
        study, entries = plan_study(spec)
        facts = plan_facts(study, entries)
        cells = {cell.id: cell for cell in closure([entry.cell for entry in entries])}
        for entry in entries:  # their facts are computed once, and read after the descriptions are gone
            _ = getattr(entry.cell, "images", None) and entry.cell.images.about  # type: ignore[attr-defined]
    return Derived(facts, cells, entries, left_out)


def _derivable(spec: StudySpec) -> tuple[StudySpec, list[str]]:
    """Return the study without the parts whose identity depends on files or on code that is not farout's."""
    spec, _ = cut_to_budget(spec)
    reasons: dict[str, str] = {}
    kept = {
        "detectors": list(_kept(spec.detectors, _detector_problem, reasons)),
        "networks": list(_kept(spec.networks, _network_problem, reasons)),
        "protocols": list(_kept(spec.protocols, lambda one: _component_problem(one, ["protocol"]), reasons)),
    }
    generated = [
        *spec.outliers,
        *spec.auxiliary_outliers,
        *([spec.validation_outliers] if spec.validation_outliers else []),
    ]
    if not all(isinstance(one, DataSpec) for one in generated) and any(_names_file(one) for one in generated):
        raise ValueError("its generated sets use weights from files")
    for kind, items in kept.items():
        if not items and getattr(spec, kind):
            raise ValueError("; ".join(reasons.values()))
    return spec.model_copy(update=kept), list(reasons.values())


def _kept(items: Iterable[Any], problem: Callable[[Any], str], reasons: dict[str, str]) -> Iterator[Any]:
    for item in items:
        if reason := problem(item):
            reasons[item.name if hasattr(item, "name") else item.title] = reason
        else:
            yield item


def _detector_problem(item: DetectorSpec) -> str:
    return _component_problem(item, ["detector"])


def _network_problem(item: NetworkSpec | EnsembleSpec) -> str:
    for part in item.parts:
        if part.train is not None and (part.weights is not None or part.pretrained):
            return f"network {part.title}: it is fine-tuned from weights that are not here"
        if part.classes_from:
            return f"network {part.title}: the names of its classes are in a file"
        if reason := _component_problem(part, ["network"]) if not part.name.startswith("timm:") else "":
            return reason
    return ""


def _component_problem(item: Any, kinds: list[str]) -> str:
    """Return why a component cannot be made here: it is the user's own, or reads files or addresses; else ""."""
    what = f"{kinds[0]} {item.name}"
    makers = [maker for kind in kinds for maker in _makers(item.name, registry_of(kind))]
    if not makers or any(map(is_users, makers)):
        return f"{what}: it is not a part of farout, or reads what is outside of it"
    if foreign := next(_foreign(item.params), None):
        return f"{what}: {foreign}"
    files = set(item.params) & set().union(*map(path_parameters, makers)) - {"dtype"}
    return f"{what}: it reads the file {item.params[min(files)]}" if files else ""


def _makers(name: str, registry: Registry[Any]) -> list[Callable[..., Any]]:
    try:
        return [registry[name]]
    except UnknownName:
        return []


def _foreign(value: Any) -> Iterator[str]:
    """Yield why a component nested inside parameters cannot be made here."""
    if isinstance(value, Mapping):
        name = value.get("name")
        makers = [maker for registry in REGISTRIES.values() for maker in _makers(str(name), registry)] if name else []
        for maker in makers:
            if is_users(maker):
                yield f"{name} is not a part of farout"
            if files := path_parameters(maker) & value.keys():
                yield f"{name} reads the file {value[min(files)]}"
    if isinstance(value, str) and ("/" in value or value.endswith((".py", ".npz", ".safetensors"))):
        yield f"it names the file {value}"
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _foreign(item)


def _names_file(value: Any) -> bool:
    return next(_foreign(value.model_dump(mode="json")), None) is not None


def protocols_known(names: Iterable[str]) -> bool:
    """Return True if all protocols are farout's own, so that their tables can be computed here."""
    return all(_makers(name, PROTOCOLS) and not is_users(PROTOCOLS[name]) for name in names)
