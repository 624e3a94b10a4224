"""The plan of a study worked out again, from descriptions of its images and networks instead of these themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from farout.identity import is_users
from farout.leaderboard.declared import Declarer
from farout.protocols import cuts, unchecked_plan
from farout.registry import REGISTRIES, Kind, Registry, UnknownName, registry_of
from farout.study.cells.cell import Cell, Entry, closure
from farout.study.cuts import cut_to_budget
from farout.study.paths import path_parameters
from farout.study.results import plan_facts
from farout.study.sources.opening import opened_by
from farout.study.spec import EnsembleSpec, GeneratedSpec, NetworkSpec, StudySpec
from farout.study.spec.parts import NamedSpec
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
        cells = {cell.id: cell for cell in closure([entry.cell for entry in entries])}
        return Derived(plan_facts(study, entries), cells, entries, left_out)


def _derivable(spec: StudySpec) -> tuple[StudySpec, list[str]]:
    """Return the study without the parts whose identity depends on files or on code that is not farout's."""
    cut, _ = cut_to_budget(spec)  # the budget counts networks before any is left out
    problems: dict[str, list[str]] = {
        "detectors": [_component_problem("detector", one) for one in cut.detectors],
        "networks": [_network_problem(one) for one in cut.networks],
        "protocols": [_component_problem("protocol", one) for one in cut.protocols],
    }
    outliers = [*cut.outliers, *cut.auxiliary_outliers, cut.validation_outliers]
    for one in outliers:
        if isinstance(one, GeneratedSpec) and (problem := next(_foreign(one.model_dump(mode="json")), None)):
            raise ValueError(f"the generated set {one.title}: {problem}")
    left_out = [problem for found in problems.values() for problem in found if problem]
    if not left_out:
        return spec, []
    kept = {
        kind: [one for one, problem in zip(getattr(cut, kind), found, strict=True) if not problem]
        for kind, found in problems.items()
    }
    if not all(kept[kind] or not found for kind, found in problems.items()):
        raise ValueError("; ".join(left_out))
    return cut.model_copy(update=kept), left_out


def _network_problem(item: NetworkSpec | EnsembleSpec) -> str:
    """Return why the identity of a network cannot be worked out; else ""."""
    for part in item.parts:
        if part.train is not None and (part.weights is not None or part.pretrained):
            return f"network {part.title}: it is fine-tuned from weights that are not here"
        if part.classes_from:
            return f"network {part.title}: the names of its classes are in a file"
        if not part.name.startswith("timm:") and (problem := _component_problem("network", part)):
            return problem
    return ""


def _component_problem(kind: Kind, item: NamedSpec) -> str:
    """Return why a component cannot be made here: it is the user's own, or reads files or addresses; else ""."""
    makers = _makers(item.name, registry_of(kind))
    if not makers or any(map(is_users, makers)):
        return f"{kind} {item.name}: it is not a part of farout, or reads what is outside of it"
    files = [text for maker in makers for text in _files(maker, item.params)]
    problem = f"it reads the file {files[0]}" if files else next(_foreign(item.params), "")
    return f"{kind} {item.name}: {problem}" if problem else ""


def _makers(name: str, registry: Registry[Any]) -> list[Callable[..., Any]]:
    try:
        return [registry[name]]
    except UnknownName:
        return []


def _files(maker: Callable[..., Any], params: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files among the parameters of a component."""
    values = (params.get(name) for name in sorted(path_parameters(maker)))
    return (value for value in values if isinstance(value, str))


def _foreign(value: Any) -> Iterator[str]:
    """Yield why a component nested inside parameters cannot be made here."""
    if isinstance(value, Mapping):
        name = value.get("name")
        registries = REGISTRIES.values() if isinstance(name, str) else ()
        for maker in (maker for registry in registries for maker in _makers(str(name), registry)):
            if is_users(maker):
                yield f"{name} is not a part of farout"
            yield from (f"{name} reads the file {text}" for text in _files(maker, value))
    if isinstance(value, str) and "/" in value:
        yield f"it names the file {value}"
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _foreign(item)
