"""What `evasion` has attacked and scored so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farout import rng
from farout.protocols.shared.pairs import Array
from farout.study.results import Results, Row


class Who(NamedTuple):
    """A detector on a network of one seed."""

    network: str
    seed: str
    detector: str

    @staticmethod
    def of(row: Row) -> Who:
        """The detector of a row."""
        return Who(*(row.tags[name] for name in Who._fields))

    @staticmethod
    def in_line(line: Mapping[str, Any]) -> Who:
        """The detector of a table's line."""
        return Who(*(line[name] for name in Who._fields))


@dataclass(frozen=True)
class Test:
    """Attacked images that one detector has scored, and the inliers they are told from."""

    results: Results
    inlier_row: Row
    row: Row

    @property
    def who(self) -> Who:
        """The detector."""
        return Who.of(self.row)

    @property
    def attack(self) -> str:
        """What the study calls the attack."""
        return self.row.tags["attack"]

    @property
    def made_on(self) -> str:
        """The network that was attacked."""
        return self.row.tags["made_on"]

    @property
    def outlier_set(self) -> str:
        """The outliers that were changed; empty where test images were."""
        return self.row.tags["outliers"]

    @property
    def level(self) -> int:
        """How far up the roadmap the attack is."""
        return int(self.row.tags["level"])

    @property
    def whole(self) -> bool:
        """Were as many images attacked, in as many steps, as a level of the roadmap asks for?"""
        tags = self.row.tags
        pairs = ((tags[name], tags[f"of_{name}"]) for name in ("images", "steps"))
        return all(int(done) >= int(asked) for done, asked in pairs if asked)

    @property
    def at_home(self) -> bool:
        """Does the detector read the network that was attacked, or none that is known?"""
        return self.row.tags["network"] in ("", self.made_on)

    @cached_property
    def inliers(self) -> Array:
        """Scores of the inliers as they are."""
        return self.results.scores(self.inlier_row)

    @cached_property
    def outliers(self) -> Array:
        """Scores of the attacked images."""
        return self.results.scores(self.row)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Which inliers were attacked."""
        pool = int(self.row.tags["pool"] or len(self.outliers))
        return rng.subset_indices(len(self.inliers), pool)[self.within(pool)]

    def within(self, pool: int) -> NDArray[np.int64]:
        """The places of the attacked images among so many that were attacked on the classifier."""
        return rng.subset_indices(pool, len(self.outliers))

    @cached_property
    def successful(self) -> NDArray[np.bool_]:
        """Which images were classified right and no longer are."""
        correct, success = (self.results.attribute(self.row, name) for name in ("clean_correct", "success"))
        return np.asarray(correct & success)


class Evaded:
    """The rows of a run by what they are."""

    def __init__(self, results: Results, protocol: str) -> None:
        self.results = results
        self._rows = results.done(protocol)
        self._inliers = {Who.of(row): row for row in self.rows("inliers")}

    @cached_property
    def attacked(self) -> set[str]:
        """The networks that were attacked by themselves."""
        return {row.tags["made_on"] for row in self.rows("attack")}

    @property
    def rounded(self) -> bool:
        """Do detectors see attacked images in 8 bits?"""
        return any(row.tags["rounded"] for row in self._rows)

    @cached_property
    def _attacks(self) -> dict[tuple[str, ...], Row]:
        rows = [*self.rows("attack"), *self.rows("own_attack")]
        return {tuple(row.tags[key] for key in ("seed", "attack", "made_on", "detector")): row for row in rows}

    def settings(self, test: Test) -> dict[str, Any]:
        """Name and parameters of the attack behind a test."""
        own = test.row.tags["role"] == "own_attacked"
        row = self._attacks[test.who.seed, test.attack, test.made_on, test.who.detector if own else ""]
        attack: dict[str, Any] = self.results.store.facts(row.cell)["identity"]["attack"]
        return attack

    def rows(self, role: str) -> list[Row]:
        """The rows of one role, in the plan's order."""
        return [row for row in self._rows if row.tags["role"] == role]

    def tests(self, *roles: str) -> Iterator[Test]:
        """What detectors say of attacked images: "attacked" on the classifier, or "own_attacked"; all by default."""
        for role in roles or ("attacked", "own_attacked"):
            for row in self.rows(role):
                if inliers := self._inliers.get(Who.of(row)):
                    yield Test(self.results, inliers, row)

    def outliers(self, test: Test) -> Array | None:
        """The scores of outliers that were attacked on their detector, as they were; None where they are missing."""
        for row in self.rows("outliers"):
            if Who.of(row) == test.who and row.tags["outliers"] == test.outlier_set:
                return self.results.scores(row)
        return None

    def column(self, row: Row, name: str) -> NDArray[Any]:
        """What is known of every image of a row."""
        return self.results.store.column(row.cell, name)
