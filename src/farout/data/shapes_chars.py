"""SHAPES and CHARS: images drawn from a table of configurations when they are asked for, none kept in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout import shifts
from farout.core import ImageSet
from farout.data.arrays import as_floats
from farout.data.procedural import at_least
from farout.data.scenes import glyphs, renderer, worlds
from farout.data.scenes.configurations import Configurations
from farout.data.scenes.sampling import sample
from farout.data.scenes.worlds import ATTRIBUTES, CHARS, World
from farout.identity import digest
from farout.registry import unknown
from farout.tensors import places

SIDE = 32
OUTLIER_SPLITS = ("test/ood_hue", "test/ood_cls", "test/ood_both")
"""The paper's scenarios; any other attribute, or several joined by "+", makes a split of its own: "test/ood_size"."""
STORED = (
    "class", "hue", "size", "rotation_x", "rotation_y", "rotation_z", "x", "y",
    "intensity", "ambient", "specular", "light_angle", "corruption", "severity",
)  # fmt: skip
"""Attributes that are kept beside an image's scores."""
_ALIASES = {"cls": "class", "both": "hue+class"}


class Drawn(ImageSet):
    """Images drawn from configurations, corrupted where those say so.

    Labels count the family's inlier classes; a table that holds any other class has none.
    """

    def __init__(
        self, configurations: Configurations, name: str, *, side: int = SIDE, font: str | Path | None = None
    ) -> None:
        self.configurations, self.name, self.side = configurations, name, at_least(side, 8, f"{name}: side")
        self.font = None if font is None else Path(font)
        self.shape = (3, self.side, self.side)
        self.world = configurations.world
        self.letters = glyphs.digest(self.font) if self.world is CHARS else None
        self.attributes = {key: configurations.columns[key] for key in STORED}
        self.classes, self.labels = _labels(self.world, configurations)

    def __len__(self) -> int:
        return len(self.configurations)

    def batch(self, indices: ArrayLike) -> Tensor:
        chosen = places(indices, len(self))
        if self.letters is not None and self.letters != glyphs.digest(self.font):
            raise RuntimeError(f"{self.name}: its font has changed since the set was loaded; load it again")
        images = as_floats(
            renderer.render(self.configurations.scenes[torch.from_numpy(chosen)], self.side, self.font).numpy()
        )
        columns = {key: self.configurations.columns[key][chosen] for key in ("corruption", "severity", "noise")}
        return _corrupted(images, **columns)

    def _fingerprint(self) -> str:
        used = {(c, int(s)) for c, s in zip(self.attributes["corruption"], self.attributes["severity"], strict=True)}
        corruptions = [shifts.create(name, severity=severity).identity() for name, severity in sorted(used) if name]
        return digest([renderer.VERSION, self.configurations.digest, self.side, self.letters, corruptions])


def _labels(world: World, table: Configurations) -> tuple[tuple[str, ...], NDArray[np.int64] | None]:
    numbers = {name: number for number, name in enumerate(world.inliers)}
    kinds, inverse = np.unique(table.columns["class"], return_inverse=True)
    if not set(kinds) <= numbers.keys():
        return (), None
    return world.inliers, np.array([numbers[kind] for kind in kinds], np.int64)[inverse]


def _corrupted(
    images: Tensor, corruption: NDArray[Any], severity: NDArray[np.int64], noise: NDArray[np.int64]
) -> Tensor:
    """The images, each under its own corruption; which one an image gets, and its noise, go with its row."""
    touched = np.flatnonzero(corruption != "")
    for name, strength in sorted({(str(corruption[i]), int(severity[i])) for i in touched}):
        mine = np.flatnonzero((corruption == name) & (severity == strength))
        images[mine] = shifts.create(name, severity=strength)(images[mine], indices=noise[mine])
    return images


def shift_of(split: str) -> frozenset[str]:
    """The attributes that a split shifts: "test/ood_hue+size" -> hue and size; none for the other splits."""
    _, mark, names = split.partition("test/ood_")
    if not mark:
        return frozenset()
    chosen = "+".join(_ALIASES.get(name, name) for name in names.split("+")).split("+")
    for name in chosen:
        if name not in ATTRIBUTES:
            raise unknown("attribute", name, [*ATTRIBUTES, *_ALIASES])
    return frozenset(chosen)


def split_of(shift: frozenset[str]) -> str:
    """The split that shifts these attributes, by the name it is known by."""
    names = "+".join(name for name in ATTRIBUTES if name in shift)
    short = {long: alias for alias, long in _ALIASES.items()}
    return f"test/ood_{short.get(names, names)}"


def shapes(split: str = "test", *, seed: int = 1, side: int = SIDE) -> Drawn:
    """SHAPES: 2-D and 3-D figures of controlled color, size, rotation, place and light; drawn here, no download.

    Splits: "train" (100,000), "val", "test" or "test/id", "test/ood_hue", "test/ood_cls", "test/ood_both" (5,000
    each), and "test/ood_" with any of hue, class, size, rotation, position, lighting, joined by "+". In test splits
    30 % of the images carry a light corruption. `seed` draws another table; the paper uses 1, 2 and 3.
    """
    return drawn("shapes", split, seed=seed, side=side)


def chars(split: str = "test", *, seed: int = 1, side: int = SIDE, font: str | Path | None = None) -> Drawn:
    """CHARS: letters and digits of controlled color, size, rotation, place and light; drawn here, no download.

    Splits and options as for SHAPES; `font` is a TrueType file of your own (default: DejaVu Sans Mono).
    """
    return drawn("chars", split, seed=seed, side=side, font=font)


def drawn(
    world: str, split: str, *, seed: int, side: int, font: str | Path | None = None, limit: int | None = None
) -> Drawn:
    """A split of SHAPES or CHARS, or its first `limit` images."""
    if font is not None and world != "chars":
        raise ValueError(f"a font is for chars only, got {font} for {world}")
    at_least(side, 8, f"{world}: side")
    if limit is not None:
        at_least(limit, 1, f"{world}: limit")
    font = None if font is None else Path(font)
    table = configurations(world, split, at_least(seed, 0, f"{world}: seed"), font)
    shift = shift_of(split)
    name = f"{world}/{split_of(shift).removeprefix('test/')}" if shift else world
    return Drawn(table if limit is None else table[np.arange(min(limit, len(table)))], name, side=side, font=font)


def configurations(name: str, split: str, seed: int, font: Path | None = None) -> Configurations:
    """The table of a split of SHAPES or CHARS."""
    world, split = worlds.WORLDS[name], "test" if split == "test/id" else split
    if split in worlds.SPLITS:
        corrupted = worlds.CORRUPTED if split == "test" else 0
        return sample(world, split, worlds.SPLITS[split], seed, corrupted=corrupted, font=font)
    if not split.startswith("test/ood_"):
        known = {"train", "val", "test/id", *OUTLIER_SPLITS, *(split_of(frozenset({a})) for a in ATTRIBUTES)}
        raise unknown(f"split of {name!r}:", split, known)
    shift = shift_of(split)
    return sample(world, split_of(shift), worlds.SPLITS["test"], seed, shift, worlds.CORRUPTED, font)


def from_table(path: Path, *, side: int = SIDE, font: str | Path | None = None) -> Drawn:
    """Images drawn from a stored table of configurations."""
    return Drawn(Configurations.read(path), path.stem, side=side, font=font)
