"""The setups of `rood`: which shifts of the inliers count as inliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from farout.core import Shift
from farout.protocols.shared.named import Named, parted
from farout.registry import unknown
from farout.shifts.catalog import catalog, shift
from farout.shifts.choosing import PUBLISHED
from farout.shifts.corruption import SEVERITIES, Corruption

Setups = Sequence[str] | Mapping[str, Sequence[Named] | None]


def setups_from(given: Setups, frost_dir: str | Path | None) -> dict[str, list[Shift]]:
    """The shifts of every setup: [A, C] are the paper's, {weather: [fog, snow]} are one's own."""
    if isinstance(given, str) or not given or not isinstance(given, Sequence | Mapping):
        raise ValueError(f"setups must list A, C or both, or map names to shifts ({{weather: [fog]}}), got {given!r}")
    items = given if isinstance(given, Mapping) else {str(name): None for name in given}
    setups = {str(name): _shifts(str(name), shifts, frost_dir) for name, shifts in items.items()}
    names = dict.fromkeys(made.name for shifts in setups.values() for made in shifts)
    if frost_dir is not None and "frost" not in names:
        raise ValueError(f"frost_dir={frost_dir} is for frost, which is not among {', '.join(names)}")
    return setups


def _shifts(setup: str, given: Sequence[Named] | None, frost_dir: str | Path | None) -> list[Shift]:
    if not setup:
        raise ValueError("a setup needs a name, got an empty one")
    if setup == "U":
        raise ValueError("the setup U, without shifts, is always there: leave it out")
    if given is None:
        if setup not in PUBLISHED:
            raise unknown("setup (give one of your own with its shifts, {weather: [fog, snow]}):", setup, PUBLISHED)
        given = PUBLISHED[setup]
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ValueError(f"setup {setup}: expected a list of shifts, such as [rot90, fog], got {given!r}")
    shifts = [made for item in given for made in _made(setup, item, frost_dir)]
    labels = [made.label for made in shifts]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"setup {setup}: {label} stands there twice")
    return shifts


def _made(setup: str, item: Named, frost_dir: str | Path | None) -> list[Shift]:
    """One shift, or all severities of one whose severity is not given."""
    name, settings = parted(f"setup {setup}", item)
    if name == "frost" and frost_dir is not None:
        settings.setdefault("frost_dir", frost_dir)
    maker = catalog[name]
    severities = isinstance(maker, type) and issubclass(maker, Corruption) and "severity" not in settings
    every = [{"severity": severity} for severity in SEVERITIES] if severities else [{}]
    return [shift(name, **settings, **one) for one in every]
