"""AUROC of every detector under every stress of a run, as estimates that those of another run can be compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from farout.identity import digest, digest_arrays
from farout.metrics.setups import Counts, Estimate, copied_auroc
from farout.protocols.attributes.results import CONDITIONS, uncorrupted
from farout.protocols.evasion.results import EvasionResults
from farout.protocols.evg.results import SearchKey, titled
from farout.protocols.evg.results import read as read_evg
from farout.protocols.rood.measures import auroc_estimates
from farout.protocols.rood.results import UNSHIFTED
from farout.protocols.rood.results import read as read_rood
from farout.protocols.shared.columns import SubjectKey
from farout.protocols.shared.pairs import pairs
from farout.study.results import Results, Row


class Judged(NamedTuple):
    """AUROC of one detector under one stress, with the influence of every image."""

    subject: SubjectKey
    stress: str
    estimate: Estimate
    images: str
    """Hash of the images that were scored, in order; detectors with the same hash can be compared image by image."""


def judged(results: Results) -> list[Judged]:
    """Return the AUROC of all detectors of a run, under all stresses of the protocols that test detectors."""
    return [one for spec in results.protocols if spec.name in READ for one in READ[spec.name](results, spec.name)]


def _paired(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on every outlier set, as they are."""
    for pair in pairs(results, protocol):
        scores = results.scores(pair.inlier_row), results.scores(pair.outlier_row)
        if all(map(len, scores)):
            subject = SubjectKey(pair.network, pair.seed, pair.detector)
            images = _images(results, pair.inlier_row, pair.outlier_row)
            yield Judged(subject, f"{pair.outliers} ({protocol})", Counts.of(*scores).auroc(), images)


def _attributes(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on every outlier set, of uncorrupted and of corrupted images."""
    for pair in pairs(results, protocol):
        rows = pair.inlier_row, pair.outlier_row
        for condition in CONDITIONS:
            wanted = condition == CONDITIONS[0]
            x, y = (results.scores(row)[uncorrupted(results, row) == wanted] for row in rows)
            if len(x) and len(y):
                subject = SubjectKey(pair.network, pair.seed, pair.detector)
                stress = f"{pair.outliers} ({protocol}, {condition})"
                yield Judged(subject, stress, Counts.of(x, y).auroc(), _images(results, *rows))


def _evg(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on unchanged outliers and on their worst cases."""
    reading = read_evg(results, protocol)
    clean = [(SearchKey(outliers, "unchanged", ""), one) for (_, outliers), one in reading.clean.items()]
    for key, one in [*clean, *((one.search, one) for one in reading.found)]:
        how = ", ".join(filter(None, (titled(key.variation), key.method)))
        estimate = Counts.of(one.inliers, one.scores).auroc()
        yield Judged(
            one.subject, f"{key.outliers} ({protocol}, {how})", estimate, _images(results, one.inlier_row, one.row)
        )


def _rood(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC in every setup: against inliers and their shifted copies; of a class, if one-class."""
    for line in read_rood(results, protocol):
        for test in line.tests:
            rows = [test.clean, *([test.others] if test.others else []), *test.copies.values()]
            of = f"{test.outliers}, inlier {test.of}" if test.of else test.outliers
            for key, estimate in auroc_estimates(line, test):
                if not key.shift:
                    setup = "unshifted" if key.setup == UNSHIFTED else f"setup {key.setup}"
                    yield Judged(line.subject, f"{of} ({protocol}, {setup})", estimate, _images(results, *rows))


def _evasion(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on attacked test images; an image and its attacked copy are one cluster."""
    for test in EvasionResults(results, protocol).tests():
        if not test.outlier_set:
            estimate = copied_auroc(test.inliers, test.outliers, test.originals)
            stress = f"{test.attack} on {test.made_on} ({protocol})"
            yield Judged(test.subject, stress, estimate, _images(results, test.inlier_row, test.row))


def _images(results: Results, *rows: Row) -> str:
    """Return the hash of the images of some rows; a search has images of its own, named by its cell."""
    identities = [results.store.facts(row.cell).get("identity") for row in rows]
    sets = [
        identity.get("images", row.cell) if isinstance(identity, dict) else row.cell
        for identity, row in zip(identities, rows, strict=True)
    ]
    indices = digest_arrays((str(number), np.asarray(results.index(row))) for number, row in enumerate(rows))
    return digest([sets, indices])


READ: dict[str, Callable[[Results, str], Iterator[Judged]]] = {
    "clean": _paired, "attributes": _attributes, "raised_bar": _paired, "evg": _evg, "rood": _rood, "evasion": _evasion,
}  # fmt: skip
"""Functions that read the estimates of every protocol that tests detectors."""
