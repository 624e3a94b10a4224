"""AUROC of every detector under every stress of a run, as estimates that those of another run can be compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from farout.identity import digest, digest_arrays
from farout.metrics.setups import Counts, Estimate, copied_auroc
from farout.protocols.attributes.results import CONDITIONS, uncorrupted
from farout.protocols.attributes.tables import CORRUPTED
from farout.protocols.evasion.figures import MADE_ON, stress_name
from farout.protocols.evasion.results import EvasionResults
from farout.protocols.evg.overview import worst_case_name
from farout.protocols.evg.results import SearchKey, titled
from farout.protocols.evg.results import read as read_evg
from farout.protocols.raised_bar.detection import GENERATED, generated_name, kinds
from farout.protocols.raised_bar.entries import CONVENTIONAL
from farout.protocols.raised_bar.results import BarResults
from farout.protocols.rood.measures import setup_estimates
from farout.protocols.rood.results import UNSHIFTED, Scores
from farout.protocols.rood.results import read as read_rood
from farout.protocols.rood.tables import setup_name
from farout.protocols.shared.columns import ATTACK, OUTLIERS, SubjectKey
from farout.protocols.shared.pairs import Pair, pairs
from farout.protocols.shared.stresses import CLEAN
from farout.study.results import Results, Row

Images = tuple[tuple[str, int], ...]
"""Hash and number of the images of each part of an estimate's influence."""


class Judged(NamedTuple):
    """AUROC of one detector under one stress, with the influence of every image."""

    subject: SubjectKey
    stress: str
    estimate: Estimate
    images: Images
    """Images that were scored, in order; detectors with the same images can be compared image by image."""
    condition: str = ""
    """Name of the stress in the report's overview; empty if it is not shown there."""
    outliers: str = ""
    """Name of the outlier set in the overview."""


def judged(results: Results) -> list[Judged]:
    """Return the AUROC of all detectors of a run, under all stresses of the protocols that test detectors."""
    return [one for spec in results.protocols for one in judged_of(results, spec.name)]


def judged_of(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the AUROC of all detectors under the stresses of one protocol; nothing if it has no reader."""
    if protocol in READ:
        yield from READ[protocol](results, protocol)


def _clean(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on every outlier set, as they are."""
    for pair in pairs(results, protocol):
        yield from _paired(results, protocol, pair, CLEAN, pair.outliers)


def _raised_bar(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on conventional and on generated outlier sets."""
    of = kinds(BarResults(results, protocol))
    names = {CONVENTIONAL: lambda _: CLEAN, GENERATED: generated_name}
    for pair in pairs(results, protocol):
        condition = names.get(of.get(pair.outliers, CONVENTIONAL), lambda _: "")(pair.outliers)
        yield from _paired(results, protocol, pair, condition, pair.outliers)


def _paired(results: Results, protocol: str, pair: Pair, condition: str, outliers: str) -> Iterator[Judged]:
    scores = results.scores(pair.inlier_row), results.scores(pair.outlier_row)
    if all(map(len, scores)):
        images = _images(results, pair.inlier_row), _images(results, pair.outlier_row)
        estimate = Counts.of(*scores).auroc()
        yield Judged(_key(pair), f"{pair.outliers} ({protocol})", estimate, images, condition, outliers)


def _key(pair: Pair) -> SubjectKey:
    return SubjectKey(pair.network, pair.seed, pair.detector)


def _attributes(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on every outlier set, of uncorrupted and of corrupted images."""
    for pair in pairs(results, protocol):
        rows = pair.inlier_row, pair.outlier_row
        for condition, name in zip(CONDITIONS, (CLEAN, CORRUPTED), strict=True):
            masks = [uncorrupted(results, row) == (name == CLEAN) for row in rows]
            x, y = (results.scores(row)[mask] for row, mask in zip(rows, masks, strict=True))
            if len(x) and len(y):
                images = tuple(
                    (f"{_images(results, row)[0]} {condition}", int(mask.sum()))
                    for row, mask in zip(rows, masks, strict=True)
                )
                stress = f"{pair.outliers} ({protocol}, {condition})"
                yield Judged(_key(pair), stress, Counts.of(x, y).auroc(), images, name, pair.outliers)


def _evg(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on unchanged outliers and on their worst cases."""
    reading = read_evg(results, protocol)
    clean = [(SearchKey(outliers, "unchanged", ""), one) for (_, outliers), one in reading.clean.items()]
    lowest = {(one.subject, one.search[:2]): one for one in sorted(reading.found, key=lambda one: -one.auroc.value)}
    for key, one in [*clean, *((one.search, one) for one in reading.found)]:
        how = ", ".join(filter(None, (titled(key.variation), key.method)))
        shown = not key.method or lowest[one.subject, key[:2]] is one
        condition = worst_case_name(key.variation) if key.method else CLEAN
        found = (one.row.cell, len(one.scores)) if key.method else _images(results, one.row)  # images of its own
        images = _images(results, one.inlier_row), found
        estimate = Counts.of(one.inliers, one.scores).auroc()
        stress = f"{key.outliers} ({protocol}, {how})"
        yield Judged(one.subject, stress, estimate, images, condition if shown else "", key.outliers)


def _rood(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC in every setup: against inliers and their shifted copies; of a class, if one-class."""
    for line in read_rood(results, protocol):
        for test in line.tests:
            scores, own = Scores(test), _images(results, test.clean, *test.copies.values())[0]
            others = [_images(results, test.others)] if test.others else []
            images = ((own, scores.total - sum(count for _, count in others)), *others)
            of = f"{test.outliers}, inlier {test.of}" if test.of else test.outliers
            for name, estimate in setup_estimates(line, test, scores):
                plain = name == UNSHIFTED
                setup = "unshifted" if plain else f"setup {name}"
                whole = estimate.among(scores.positions, scores.total)
                condition = (CLEAN if plain else setup_name(name)) if line.whole else ""
                yield Judged(line.subject, f"{of} ({protocol}, {setup})", whole, images, condition, line.against)


def _evasion(results: Results, protocol: str) -> Iterator[Judged]:
    """Yield the detectors' AUROC on attacked images; a test image and its attacked copy are one cluster."""
    found = EvasionResults(results, protocol)
    for test in found.tests():
        made_on = "" if found.plain(test) else test.made_on
        name = stress_name({ATTACK: test.attack, OUTLIERS: test.outlier_set, MADE_ON: made_on})
        condition = "" if made_on and test.subject.network else name
        stress = " ".join(filter(None, (test.attack, "on", test.made_on, test.outlier_set, f"({protocol})")))
        if test.outlier_set:
            estimate = Counts.of(test.inliers, test.outliers).auroc()
            images: Images = (_images(results, test.inlier_row), (test.row.cell, len(test.outliers)))
        else:
            estimate = copied_auroc(test.inliers, test.outliers, test.originals)
            images = ((_images(results, test.inlier_row, test.row)[0], len(test.inliers)),)
        yield Judged(test.subject, stress, estimate, images, condition, test.outlier_set)


def _images(results: Results, *rows: Row) -> tuple[str, int]:
    """Return the hash and number of the images of some rows."""
    identities = [results.store.facts(row.cell).get("identity") for row in rows]
    sets = [
        identity.get("images", row.cell) if isinstance(identity, dict) else row.cell
        for identity, row in zip(identities, rows, strict=True)
    ]
    indices = [np.asarray(results.index(row)) for row in rows]
    hashed = digest([sets, digest_arrays((str(number), index) for number, index in enumerate(indices))])
    return hashed, sum(map(len, indices))


READ: dict[str, Callable[[Results, str], Iterator[Judged]]] = {
    "clean": _clean, "attributes": _attributes, "raised_bar": _raised_bar, "evg": _evg, "rood": _rood,
    "evasion": _evasion,
}  # fmt: skip
"""Functions that read the estimates of every protocol that tests detectors."""
