"""A report of every kind of content, made by hand: two protocols, three detectors with known figures, all figures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from farout.report.content import (
    INTERVAL,
    LABEL,
    Bars,
    Calibrations,
    Column,
    Curve,
    Curves,
    Densities,
    DensityMap,
    Document,
    Gallery,
    HeatMap,
    Histograms,
    Landscapes,
    Measured,
    Radar,
    Scatter,
    Scores,
    Sheet,
    Shown,
    Stress,
    Strip,
    Subject,
    Summary,
    Surface,
    Table,
)

AUROC = {"alpha": (0.9, 0.4), "beta": (0.8, 0.1), "gamma": (0.7, 0.65)}
"""AUROC of every detector on clean images and under fog."""


def stresses(names: dict[str, str]) -> list[Stress]:
    """The stresses of the first protocol; `names` gives other names to detectors."""
    clean, fog = (
        [Measured(Subject("net", names.get(who, who)), "set", v[place], v[place] - 0.02, v[place] + 0.02, 100, 50)
         for who, v in AUROC.items()]
        for place in range(2)
    )  # fmt: skip
    return [Stress("clean", "of outliers", clean, clean=True), Stress("fog", "of foggy outliers", fog)]


def figures(name: str) -> list[Shown]:
    """A figure of every kind that is drawn, with this name wherever a user's name can stand."""
    line, unit = np.linspace(0, 1, 5), np.random.default_rng(0).random((20, 2))
    curve = Curve(line + 1, line, line - 0.1, line + 0.1)
    bars = pd.DataFrame({"bar": [name, "b"], "group": [name, "b"], "value": [0.5, 0.7], "low": 0.4, "high": 0.8})
    square = pd.DataFrame([[0.25, 0.5], [np.nan, 1.0]], [name, "b"], [name, "b"])
    return [
        Densities("densities", "Densities", "Caption.", {name: Scores(line, {name: line})}),
        HeatMap("heat", "Heat map", "Caption. Higher is better.", {name: square}),
        Histograms("histograms", "Histograms", "Caption.", {name: {name: line}}, (0, 1)),
        Curves("curves", "Curves", "Caption.", {name: {name: curve}}, (name, name)),
        Bars("bars", "Bars", "Caption.", {name: bars}, name),
        Radar("radar", "Radar", "Caption.", {name: pd.DataFrame([[0.2, 0.5, 0.9]], [name], [name, "b", "c"])}),
        Calibrations("calibrations", "Calibrations", "Caption.", {name: {name: curve}}),
        Scatter("scatter", "Scatter", "Caption.", {name: {name: unit}}, (name, name)),
        DensityMap("map", "Density map", "Caption.", {name: unit}, (name, name), ((0, 1), (0, 1))),
        Landscapes("land", "Landscapes", "Caption.", {name: Surface(unit, unit[:, 0], unit[:2])}, (name, name)),
    ]


def pictures(name: str) -> list[Shown]:
    """Pictures of two detectors under two stresses."""
    images = np.random.default_rng(0).integers(0, 255, (2, 8, 8, 3), np.uint8)
    strips = [Strip(f"{who} under {how}", images, ["rank 1", "rank 2"], who, how) for who, how in
              ((name, "fog"), ("beta", "fog"), ("beta", "snow"))]  # fmt: skip
    return [Gallery("gallery", "Failures", "Caption.", strips), Sheet("sheet", "Examples", "Caption.", strips[:1])]


def report(name: str = "alpha") -> Document:
    """The document; the first detector, sets and figures have this name."""
    detector, value = Column("detector", LABEL), Column("auroc", INTERVAL, better="higher")
    lines = [
        {detector: who.replace("alpha", name), value: (v[0], v[0] - 0.02, v[0] + 0.02)} for who, v in AUROC.items()
    ]
    many = [{detector: f"{name} {place}", value: (place / 20, 0.0, 1.0)} for place in range(20)]
    tables = [Table("few", "Few", "Caption.", lines), Table("many", "Many", "Caption.", many)]
    snow = Measured(Subject("net", "beta"), name, 0.3, 0.2, 0.4, 9, 9)
    shown = [*figures(name), *pictures(name)]
    summaries = {
        "first": Summary(f"First: {name}", tables, shown, stresses({"alpha": name})),
        "second": Summary("Second", [], [], [Stress("snow", "of snow", [snow])]),
    }
    return Document(name, "quick", summaries, total=5, cuts=[name], notes=[name], spec={"name": name})
