"""Setups of `rood`: the shifts of inliers that still count as inliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from farout.core import Shift
from farout.registry import Named, split_settings, unknown
from farout.shifts.catalog import catalog, shift
from farout.shifts.corruption import SEVERITIES, Corruption
from farout.shifts.selection import PUBLISHED

Setups = Sequence[str] | Mapping[str, Sequence[Named] | None]


def parse_setups(setups: Setups, frost_dir: str | Path | None) -> dict[str, list[Shift]]:
    """Return the shifts of every setup: [A, C] are the paper's, {weather: [fog, snow]} is one of the user's."""
    if isinstance(setups, str) or not setups or not isinstance(setups, Sequence | Mapping):
        raise ValueError(f"setups must list A, C or both, or map names to shifts ({{weather: [fog]}}), got {setups!r}")
    items = setups if isinstance(setups, Mapping) else {str(name): None for name in setups}
    if len(items) < len(setups):
        raise ValueError(f"setups lists a setup more than once, got {setups!r}; list each only once")
    parsed = {str(name): _parse_shifts(str(name), shifts, frost_dir) for name, shifts in items.items()}
    names = dict.fromkeys(one.name for shifts in parsed.values() for one in shifts)
    if frost_dir is not None and "frost" not in names:
        raise ValueError(f"frost_dir={frost_dir} is for frost, which is not among {', '.join(names)}")
    return parsed


def _parse_shifts(setup: str, items: Sequence[Named] | None, frost_dir: str | Path | None) -> list[Shift]:
    if not setup:
        raise ValueError("a setup needs a name, got an empty one")
    if setup == "U":
        raise ValueError(
            "the name U is reserved for the setup without shifts, which is always there: leave it out, or rename yours"
        )
    if items is None:
        if setup not in PUBLISHED:
            raise unknown("setup (give one of your own with its shifts, {weather: [fog, snow]}):", setup, PUBLISHED)
        items = PUBLISHED[setup]
    if isinstance(items, str) or not isinstance(items, Sequence) or not items:
        raise ValueError(f"setup {setup}: expected a list of shifts, such as [rot90, fog], got {items!r}")
    shifts = [one for item in items for one in _create_shifts(setup, item, frost_dir)]
    labels = [one.label for one in shifts]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"setup {setup}: {label} is listed twice; leave one out")
    return shifts


def _create_shifts(setup: str, item: Named, frost_dir: str | Path | None) -> list[Shift]:
    """Return one shift, or all severities of a corruption without a severity."""
    name, settings = split_settings(f"setup {setup}", item)
    if name == "frost" and frost_dir is not None:
        settings.setdefault("frost_dir", frost_dir)
    maker = catalog[name]
    severities = isinstance(maker, type) and issubclass(maker, Corruption) and "severity" not in settings
    every = [{"severity": severity} for severity in SEVERITIES] if severities else [{}]
    return [shift(name, **settings, **one) for one in every]
