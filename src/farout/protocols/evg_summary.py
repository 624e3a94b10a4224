"""What `evg` shows."""

from __future__ import annotations

from farout.protocols.summary import Summary
from farout.study.results import Results


def summarise(results: Results, protocol: str) -> Summary:
    """Tables and figures of what was found so far."""
    return Summary("Worst case")
