"""The evaluation protocols by name."""

from __future__ import annotations

from farout.protocols.clean import Clean
from farout.protocols.protocol import PROTOCOLS, Protocol
from farout.study.cell import Entry
from farout.study.study import Study

__all__ = ["PROTOCOLS", "Clean", "Protocol", "names", "plan"]

names = PROTOCOLS.names


def plan(study: Study) -> list[Entry]:
    """The cells that a study's protocols ask for."""
    return [entry for name in study.protocols for entry in PROTOCOLS.create(name).plan(study)]
