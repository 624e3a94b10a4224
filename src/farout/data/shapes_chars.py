"""SHAPES and CHARS: images rendered from a table of configurations when a batch is read; none is held in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout import shifts
from farout.core import ImageSet
from farout.data.arrays import as_floats
from farout.data.lazy import Lazy
from farout.data.procedural import check_at_least
from farout.data.scenes import glyphs, renderer, worlds
from farout.data.scenes.configurations import Configurations
from farout.data.scenes.sampling import sample
from farout.data.scenes.scene import KINDS
from farout.data.scenes.worlds import ATTRIBUTES, CHARS, World
from farout.identity import digest
from farout.registry import unknown
from farout.tensors import as_indices

SIDE = 32
OUTLIER_SPLITS = ("test/ood_hue", "test/ood_cls", "test/ood_both")
"""Outlier splits of the paper; other attributes, or several joined by "+", work as well: "test/ood_size+position"."""
STORED = (
    "class", "hue", "size", "rotation_x", "rotation_y", "rotation_z", "x", "y",
    "intensity", "ambient", "specular", "light_angle", "corruption", "severity",
)  # fmt: skip
"""Attributes that are stored with an image's scores."""
_ALIASES = {"cls": "class", "both": "hue+class"}


class Drawn(ImageSet):
    """Image set rendered from configurations, with the corruptions these name.

    Labels are indices of the family's inlier classes; a table with any other class has no labels.
    """

    def __init__(
        self, configurations: Configurations, name: str, *, side: int = SIDE, font: str | Path | None = None
    ) -> None:
        self.configurations, self.name, self.side = configurations, name, check_at_least(side, 8, f"{name}: side")
        self.font = None if font is None else Path(font)
        self.shape = (3, self.side, self.side)
        self.world = configurations.world
        self.letters = glyphs.digest(self.font) if self.world is CHARS else None
        self.attributes = Lazy(STORED, configurations.column)
        self.classes, self.labels = _labels(self.world, configurations)

    def __len__(self) -> int:
        return len(self.configurations)

    def batch(self, indices: ArrayLike) -> Tensor:
        selected = as_indices(indices, len(self))
        if self.letters is not None and self.letters != glyphs.digest(self.font):
            raise RuntimeError(f"{self.name}: its font has changed since the set was loaded; load it again")
        images = as_floats(renderer.render(self.configurations.scenes_at(selected), self.side, self.font).numpy())
        columns = {key: self.configurations.column(key, selected) for key in ("corruption", "severity", "noise")}
        return _corrupt(images, **columns)

    def _fingerprint(self) -> str:
        used = [(name, severity) for name, severity in self.configurations.corruptions if name]
        corruptions = [shifts.create(name, severity=severity).identity() for name, severity in used]
        return digest([renderer.VERSION, self.configurations.digest, self.side, self.letters, corruptions])


def _labels(world: World, table: Configurations) -> tuple[tuple[str, ...], NDArray[np.int64] | None]:
    numbers = {name: number for number, name in enumerate(world.inliers)}
    labels = np.array([numbers.get(kind, -1) for kind in KINDS], np.int64)[table.kinds]
    return ((), None) if labels.min() < 0 else (world.inliers, labels)


def _corrupt(images: Tensor, corruption: NDArray[Any], severity: NDArray[np.int64], noise: NDArray[np.int64]) -> Tensor:
    """Apply to every image the corruption of its row; the column `noise` numbers the randomness."""
    touched = np.flatnonzero(corruption != "")
    for name, strength in sorted({(str(corruption[i]), int(severity[i])) for i in touched}):
        rows = np.flatnonzero((corruption == name) & (severity == strength))
        images[rows] = shifts.create(name, severity=strength)(images[rows], indices=noise[rows])
    return images


def shifted_attributes(split: str) -> frozenset[str]:
    """Return the attributes that a split shifts: "test/ood_hue+size" -> hue and size; empty for inlier splits."""
    _, mark, names = split.partition("test/ood_")
    if not mark:
        return frozenset()
    selected = "+".join(_ALIASES.get(name, name) for name in names.split("+")).split("+")
    for name in selected:
        if name not in ATTRIBUTES:
            raise unknown("attribute", name, [*ATTRIBUTES, *_ALIASES])
    return frozenset(selected)


def split_name(shift: frozenset[str]) -> str:
    """Return the canonical name of the split that shifts these attributes."""
    names = "+".join(name for name in ATTRIBUTES if name in shift)
    short = {long: alias for alias, long in _ALIASES.items()}
    return f"test/ood_{short.get(names, names)}"


def shapes(split: str = "test", *, seed: int = 1, side: int = SIDE) -> Drawn:
    """SHAPES: 2-D and 3-D figures of controlled color, size, rotation, position and light; rendered, no download.

    Splits: "train" (100,000), "val", "test" or "test/id", "test/ood_hue", "test/ood_cls", "test/ood_both" (5,000
    each), and "test/ood_" with any of hue, class, size, rotation, position, lighting, joined by "+". In test splits
    30 % of the images carry a mild corruption. `seed` selects the table of configurations; the paper uses 1, 2 and 3.
    """
    return load_drawn("shapes", split, seed=seed, side=side)


def chars(split: str = "test", *, seed: int = 1, side: int = SIDE, font: str | Path | None = None) -> Drawn:
    """CHARS: letters and digits of controlled color, size, rotation, position and light; rendered, no download.

    Splits and options as for SHAPES; `font` is a TrueType file of your own (default: DejaVu Sans Mono).
    """
    return load_drawn("chars", split, seed=seed, side=side, font=font)


def load_drawn(
    world: str, split: str, *, seed: int, side: int, font: str | Path | None = None, limit: int | None = None
) -> Drawn:
    """Return a split of SHAPES or CHARS, or its first `limit` images."""
    if font is not None and world != "chars":
        raise ValueError(f"only chars takes a font, got {font} for {world}; leave it out")
    check_at_least(side, 8, f"{world}: side")
    if limit is not None:
        check_at_least(limit, 1, f"{world}: limit")
    font = None if font is None else Path(font)
    table = sample_configurations(world, split, check_at_least(seed, 0, f"{world}: seed"), font)
    shift = shifted_attributes(split)
    name = f"{world}/{split_name(shift).removeprefix('test/')}" if shift else world
    return Drawn(table if limit is None else table[np.arange(min(limit, len(table)))], name, side=side, font=font)


def sample_configurations(name: str, split: str, seed: int, font: Path | None = None) -> Configurations:
    """Return the configurations of a split of SHAPES or CHARS."""
    world, split = worlds.WORLDS[name], "test" if split == "test/id" else split
    if split in worlds.SPLITS:
        corrupted = worlds.CORRUPTED if split == "test" else 0
        return sample(world, split, worlds.SPLITS[split], seed, corrupted=corrupted, font=font)
    if not split.startswith("test/ood_"):
        known = {"train", "val", "test/id", *OUTLIER_SPLITS, *(split_name(frozenset({a})) for a in ATTRIBUTES)}
        raise unknown(f"split of {name!r}:", split, known)
    shift = shifted_attributes(split)
    return sample(world, split_name(shift), worlds.SPLITS["test"], seed, shift, worlds.CORRUPTED, font)


def load_table(path: Path, *, side: int = SIDE, font: str | Path | None = None) -> Drawn:
    """Return the set of a stored table of configurations."""
    return Drawn(Configurations.read(path), path.stem, side=side, font=font)
