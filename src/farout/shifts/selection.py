"""Selection of shifts by kind, as in the realistic benchmark (rood, section 3.2): corruptions and augmentations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from farout.core import Shift
from farout.shifts.catalog import catalog
from farout.shifts.corruption import SEVERITIES, Corruption

PUBLISHED: dict[str, tuple[str, ...]] = {
    "A": ("rot90", "rot270", "flip", "random_crop", "color_jitter"),
    "C": (
        "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
        "snow", "frost", "fog", "brightness", "contrast", "elastic", "pixelate", "jpeg",
        "speckle_noise", "gaussian_blur", "spatter", "saturate",
    ),
}  # fmt: skip
"""Sets of the paper: augmentations (A), and common corruptions at five severities each (C)."""


def select_shifts(
    kind: str | None = None,
    names: Iterable[str] = (),
    severities: Iterable[int] = SEVERITIES,
    frost_dir: str | Path | None = None,
) -> list[Shift]:
    """Return the shifts of a kind and those with these names, corruptions at each of `severities`.

    Kind "C": the common corruptions; "A": the augmentations; "all": both. `frost_dir` is passed to frost.
    """
    wanted = list(dict.fromkeys([*_names_of_kind(kind), *names]))
    settings = {name: {"frost_dir": str(frost_dir)} if name == "frost" and frost_dir else {} for name in wanted}
    if frost_dir and "frost" not in settings:
        raise ValueError(
            f"frost_dir={frost_dir} needs the shift frost, which is not among {', '.join(wanted) or 'no shifts'}"
        )
    strengths = sorted(set(severities))
    if strengths != list(SEVERITIES) and not any(map(_is_corruption, wanted)):
        raise ValueError(f"severities {strengths} need a corruption, there is none among {', '.join(wanted)}")
    selected = []
    for name in wanted:
        steps: list[dict[str, Any]] = [{"severity": step} for step in strengths] if _is_corruption(name) else [{}]
        selected += [catalog.create(name, **step, **settings[name]) for step in steps]
    return selected


def _names_of_kind(kind: str | None) -> tuple[str, ...]:
    if kind is None:
        return ()
    sets = {**PUBLISHED, "all": PUBLISHED["C"] + PUBLISHED["A"]}
    if kind not in sets:
        raise ValueError(f"kind must be 'C' (corruptions), 'A' (augmentations) or 'all', got {kind!r}")
    return sets[kind]


def _is_corruption(name: str) -> bool:
    builder = catalog[name]
    return isinstance(builder, type) and issubclass(builder, Corruption)
