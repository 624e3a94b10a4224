"""Sampling of configurations from a seed: the same table on every machine.

Every column has its own random generator, which depends on seed, family, split and column only: within a split, the
values of one column do not depend on the others. Splits are independent: images of "test/ood_hue" are not those of
"test" in other hues. Values are rounded to four decimals, so that the last bits of a machine's sine do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.data.scenes import worlds
from farout.data.scenes.configurations import RADII, Configurations
from farout.data.scenes.renderer import extent
from farout.data.scenes.scene import SOLID
from farout.data.scenes.worlds import World
from farout.rng import numpy_generator, seed_of

Floats = NDArray[np.float64]

ONE_ASPECT = ("ellipse", "rectangle", "is_triangle", "ellipsoid_3d", "cuboid_3d")
TWO_ASPECTS = ("ellipsoid_3d", "cuboid_3d")
INDEX_BITS = 24
"""Number of lowest bits of `noise` that count the images of a split; the higher bits identify the split."""


def sample(
    world: World,
    split: str,
    total: int,
    seed: int,
    shift: frozenset[str] = frozenset(),
    corrupted: float = 0,
    font: Path | None = None,
) -> Configurations:
    """Sample `total` configurations; the attributes of `shift` take values that inliers never have.

    A fraction `corrupted` of the images carries a corruption. Letters are positioned by their extent in `font`.
    """
    return _Sampler(world, split, total, seed, shift, font).sample(corrupted)


class _Sampler:
    def __init__(
        self, world: World, split: str, total: int, seed: int, shift: frozenset[str], font: Path | None
    ) -> None:
        self.world, self.total, self.shift, self.font = world, total, shift, font
        self.path = (seed, world.name, split)

    def sample(self, corrupted: float) -> Configurations:
        columns: dict[str, Any] = {"class": self._choose("class", self._classes())}
        solid = np.isin(columns["class"], SOLID)
        columns["hue"] = self._choose("hue", worlds.OUTLIER_HUES if "hue" in self.shift else worlds.INLIER_HUES)
        columns["size"] = self._between("size", self._size())
        columns |= self._rotation(solid) | self._light() | self._form(columns["class"])
        columns |= self._corruption(corrupted) | {"x": np.zeros(self.total), "y": np.zeros(self.total)}
        return Configurations(columns | self._position(Configurations(columns)))

    def _rng(self, column: str) -> np.random.Generator:
        return numpy_generator(*self.path, column)

    def _choose(self, column: str, values: Sequence[Any]) -> NDArray[Any]:
        return np.asarray(values)[self._rng(column).integers(len(values), size=self.total)]

    def _between(self, column: str, bounds: worlds.Range) -> Floats:
        low, high = bounds
        return (low + (high - low) * self._rng(column).random(self.total)).round(4)

    def _classes(self) -> tuple[str, ...]:
        return self.world.outliers if "class" in self.shift else self.world.inliers

    def _size(self) -> worlds.Range:
        return self.world.shifted_size if "size" in self.shift else self.world.size

    def _rotation(self, solid: NDArray[np.bool_]) -> dict[str, Floats]:
        """Sample rotations: about z for flat figures, about all axes for solids."""
        shifted = "rotation" in self.shift
        flat = _turns(self.world.turn, self.world.step, shifted)
        turns = _turns(worlds.SOLID_TURN, worlds.SOLID_STEP, shifted)
        columns = {axis: np.where(solid, self._choose(f"rotation_{axis}", turns), 0.0) for axis in "xyz"}
        columns["z"] = np.where(solid, columns["z"], self._choose("rotation", flat))
        return {f"rotation_{axis}": values for axis, values in columns.items()}

    def _light(self) -> dict[str, Floats]:
        light = worlds.OUTLIER_LIGHT if "lighting" in self.shift else worlds.INLIER_LIGHT
        columns = {name: self._between(name, bounds) for name, bounds in light._asdict().items()}
        return columns | {"light_angle": self._between("light_angle", (0, 360))}

    def _form(self, classes: NDArray[Any]) -> dict[str, Any]:
        """Sample the parameters that only some kinds have; other kinds get neutral values."""
        first, second = (self._between(name, worlds.ASPECT) for name in ("aspect", "aspect_2"))
        low, high = worlds.POINTS
        random = classes == "random"
        columns = {
            "aspect": np.where(np.isin(classes, ONE_ASPECT), first, 1.0),
            "aspect_2": np.where(np.isin(classes, TWO_ASPECTS), second, 1.0),
            "points": np.where(random, self._rng("points").integers(low, high + 1, self.total), low),
            "smoothness": np.where(random, self._between("smoothness", worlds.SMOOTHNESS), 0.0),
        }
        return columns | {name: np.where(random, self._between(name, worlds.RADII), 1.0) for name in RADII}

    def _corruption(self, share: float) -> dict[str, NDArray[Any]]:
        """Sample corruption and severity for a fraction of the images; `noise` numbers their randomness."""
        selected = self._rng("corrupted").permutation(self.total) < round(share * self.total)
        first = seed_of(*self.path, "noise") >> INDEX_BITS << INDEX_BITS
        return {
            "corruption": np.where(selected, self._choose("corruption", worlds.CORRUPTIONS), ""),
            "severity": np.where(selected, self._choose("severity", worlds.SEVERITIES), 0),
            "noise": first + np.arange(self.total),
        }

    def _position(self, centered: Configurations) -> dict[str, Floats]:
        """Sample positions: figures lie inside the image or, if position is shifted, across one of the four borders."""
        reach = extent(centered.scenes, self.font).numpy()  # [total, 2]
        margin = np.maximum(0.5 - reach, 0)
        place = np.stack([margin[:, axis] * self._rng("xy"[axis]).uniform(-1, 1, self.total) for axis in (0, 1)], 1)
        if "position" in self.shift:
            border = self._rng("border").integers(4, size=self.total)
            axis, sign, rows = border % 2, 2.0 * (border // 2) - 1, np.arange(self.total)
            outside = 2 * reach[rows, axis] * self._rng("outside").uniform(*worlds.OUTSIDE, self.total)
            place[rows, axis] = sign * (0.5 - reach[rows, axis] + outside)
        place = np.trunc(place * 1e4) / 1e4
        return {"x": place[:, 0], "y": place[:, 1]}


def _turns(most: int, step: int, shifted: bool) -> list[float]:
    """Return the angles of inliers or, if shifted, those beyond; halfway between steps if inliers use all angles."""
    if not shifted:
        return [float(angle) for angle in range(-most, most + 1, step)]
    if most < 180:
        beyond = range(most + step, 181, step)
        return [float(sign * angle) for angle in beyond for sign in (-1, 1)]
    return [angle + step / 2 for angle in range(-most, most, step)]
