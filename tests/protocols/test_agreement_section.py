"""The report's section on agreement: tests that the same detectors took, the chosen three, refusals with a reason."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from farout.metrics import representatives
from farout.protocols.agreement import agreement
from farout.report.content import Measured, Overview, Stress, Subject, Summary, overview

RNG = np.random.default_rng(0)
ORDER = np.linspace(0.6, 0.9, 10)
FIGURES = {name: ORDER + RNG.normal(0, noise, 10) for name, noise in
           (("clean", 0.02), ("fog", 0.05), ("snow", 0.05), ("hue", 0.2))}  # fmt: skip


def board(detectors: int = 10, few: int = 4) -> Overview:
    """Four stresses of as many detectors, and a fifth that only `few` took."""
    sets = {**{name: values[:detectors] for name, values in FIGURES.items()}, "attack": ORDER[:few]}
    stresses = [
        Stress(name, "", [Measured(Subject("net", f"d{k}"), "set", v, v, v, 9, 9) for k, v in enumerate(values)])
        for name, values in sets.items()
    ]
    return overview({"p": stresses}, {"p": "P"})


def section(found: Overview) -> Summary:
    summary = agreement(found)
    assert summary
    return summary


def test_values_and_sentences() -> None:
    summary = section(board())
    pairs, few = (table.frame for table in summary.tables)
    assert len(pairs) == 6
    for line in pairs.itertuples():
        assert line.tau == pytest.approx(kendalltau(FIGURES[line.test], FIGURES[line.other_test]).statistic)
        assert line.tau_low <= line.tau <= line.tau_high
    assert pairs["tau"].is_monotonic_decreasing
    chosen = representatives(list(FIGURES.values()), 3)
    assert few["mean_tau"].tolist() == [one.mean for one in chosen]
    names = [list(FIGURES)[place] for place in chosen[-1].chosen]
    assert f"represent the others best are {names[0]}, {names[1]} and {names[2]}." in summary.sentences[0]
    assert summary.sentences[-1].startswith("1 other test")
    (figure,) = summary.figures
    (panel,) = figure.panels.values()  # type: ignore[union-attr]
    assert panel.to_numpy() == pytest.approx(panel.to_numpy().T)


def test_too_few_detectors_are_refused_with_a_reason() -> None:
    summary = section(board(detectors=7))
    assert not summary.tables
    assert not summary.figures
    assert "at least 3 tests that the same 8 detectors took" in summary.sentences[0]
    assert "5 tests have at most 7 detectors" in summary.sentences[0]


def test_a_single_stress_has_no_agreement() -> None:
    assert agreement(Overview(board().conditions[:1])) is None
