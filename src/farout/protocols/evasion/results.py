"""Stored results of `evasion`: attacks, and detectors' scores of attacked images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.protocols.shared.columns import SubjectKey
from farout.protocols.shared.pairs import Array
from farout.study.results import Results, Row, positions


@dataclass(frozen=True)
class Test:
    """One detector's scores of attacked images, and of the inliers that they are compared with."""

    results: Results
    inlier_row: Row
    row: Row

    @property
    def subject(self) -> SubjectKey:
        """Key of the tested detector."""
        return SubjectKey.of(self.row)

    @property
    def attack(self) -> str:
        """Label of the attack."""
        return self.row.tags["attack"]

    @property
    def made_on(self) -> str:
        """Network that was attacked."""
        return self.row.tags["made_on"]

    @property
    def outlier_set(self) -> str:
        """Outlier set that was attacked; empty for test images."""
        return self.row.tags["outliers"]

    @property
    def level(self) -> int:
        """Level of the attack on the roadmap."""
        return int(self.row.tags["level"])

    @property
    def whole(self) -> bool:
        """True if as many images were attacked, with as many steps, as a level of the roadmap requires."""
        tags = self.row.tags
        pairs = ((tags[name], tags[f"of_{name}"]) for name in ("images", "steps"))
        return all(int(done) >= int(asked) for done, asked in pairs if asked)

    @property
    def at_home(self) -> bool:
        """True if the detector reads the network that was attacked, or no known one."""
        return self.row.tags["network"] in ("", self.made_on)

    @cached_property
    def inliers(self) -> Array:
        """Scores of the unchanged inliers."""
        return self.results.scores(self.inlier_row)

    @cached_property
    def outliers(self) -> Array:
        """Scores of the attacked images."""
        return self.results.scores(self.row)

    @cached_property
    def originals(self) -> NDArray[np.int64]:
        """Positions of the attacked images' originals among the inliers."""
        return positions(self.index, self.results.index(self.inlier_row))

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """Index of every attacked image in its own set."""
        return self.results.index(self.row)

    @cached_property
    def successful(self) -> NDArray[np.bool_]:
        """Mask of the images that were classified correctly and no longer are."""
        correct, success = (self.results.attribute(self.row, name) for name in ("clean_correct", "success"))
        return np.asarray(correct & success)


class EvasionResults:
    """Rows of a run, grouped by role."""

    def __init__(self, results: Results, protocol: str) -> None:
        self.results = results
        self._rows = results.done(protocol)
        self._inliers = {SubjectKey.of(row): row for row in self.rows("inliers")}

    @cached_property
    def attacked(self) -> set[str]:
        """Networks that were attacked without a detector."""
        return {row.tags["made_on"] for row in self.rows("attack")}

    @property
    def rounded(self) -> bool:
        """True if detectors score attacked images rounded to 8 bits."""
        return any(row.tags["rounded"] for row in self._rows)

    @cached_property
    def _attacks(self) -> dict[tuple[str, ...], Row]:
        rows = [*self.rows("attack"), *self.rows("own_attack")]
        return {tuple(row.tags[key] for key in ("seed", "attack", "made_on", "detector")): row for row in rows}

    def settings(self, test: Test) -> dict[str, Any]:
        """Return the name and the parameters of a test's attack."""
        own = test.row.tags["role"] == "own_attacked"
        row = self._attacks[test.subject.seed, test.attack, test.made_on, test.subject.detector if own else ""]
        attack: dict[str, Any] = self.results.store.facts(row.cell)["identity"]["attack"]
        return attack

    def rows(self, role: str) -> list[Row]:
        """Return the rows of one role, in the plan's order."""
        return [row for row in self._rows if row.tags["role"] == role]

    def tests(self, *roles: str) -> Iterator[Test]:
        """Yield the tests of these roles: "attacked" (on a classifier), "own_attacked" (on the detector); else both."""
        for role in roles or ("attacked", "own_attacked"):
            for row in self.rows(role):
                if inliers := self._inliers.get(SubjectKey.of(row)):
                    yield Test(self.results, inliers, row)

    def outliers(self, test: Test) -> Array | None:
        """Return the scores of a test's outliers before the attack; None if they are missing."""
        for row in self.rows("outliers"):
            if SubjectKey.of(row) == test.subject and row.tags["outliers"] == test.outlier_set:
                return self.results.scores(row)
        return None

    def plain(self, test: Test) -> bool:
        """Return True if the attacked network need not be named: the detector reads it, or it is the only one."""
        return test.at_home and bool(test.subject.network or len(self.attacked) < 2)

    def column(self, row: Row, name: str) -> NDArray[Any]:
        """Return a value per image of a row, by its name in the record."""
        return self.results.store.column(row.cell, name)
