"""Evaluation protocols by name; check, plan and budget cuts of the protocols of a study."""

from __future__ import annotations

from farout.protocols.attributes.plan import Attributes
from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.clean.plan import Clean
from farout.protocols.cost.plan import Cost
from farout.protocols.evasion.plan import Evasion
from farout.protocols.evg.plan import Evg
from farout.protocols.raised_bar.plan import RaisedBar
from farout.protocols.rood.plan import Rood
from farout.study.cells.cell import Entry
from farout.study.fit_sizes import fit_cuts
from farout.study.study import Study

__all__ = [
    "PROTOCOLS",
    "Attributes",
    "Clean",
    "Cost",
    "Evasion",
    "Evg",
    "Protocol",
    "RaisedBar",
    "Rood",
    "check",
    "cuts",
    "names",
    "plan",
    "unchecked_plan",
]

names = PROTOCOLS.names


def check(study: Study) -> None:
    """Raise if a protocol cannot be run on the study's images."""
    for spec in study.protocols:
        if reason := PROTOCOLS.create(spec.name, **spec.params).unsuited(study):
            raise ValueError(f"protocol {spec.name}: {reason}")


def cuts(study: Study) -> list[str]:
    """Return what the budget leaves out: of the images to fit on, and of what the study asks its protocols for."""
    asked = (cut for spec in study.protocols for cut in PROTOCOLS.create(spec.name, **spec.params).cuts(study))
    return [*fit_cuts(study.trials), *asked]


def plan(study: Study) -> list[Entry]:
    """Return the cells that a study's protocols need."""
    check(study)
    return unchecked_plan(study)


def unchecked_plan(study: Study) -> list[Entry]:
    """Return the cells that a study's protocols need, without the checks that look at images."""
    return [entry for spec in study.protocols for entry in PROTOCOLS.create(spec.name, **spec.params).plan(study)]
