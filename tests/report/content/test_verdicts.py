"""Verdicts say what figures and intervals support, and nothing else; the answers are known by construction."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import pytest

from farout.report.content import Measured, Overview, Standing, Stress, Subject, overview
from farout.report.content.numbers import listed, ordinal
from farout.report.content.verdicts import ABOVE, AT, BELOW, UNKNOWN, headlines, level, verdicts

Figures = dict[str, tuple[float, float, float]]


def condition(name: str, figures: Figures, *, clean: bool = False, outliers: str = "set") -> Stress:
    """A stress with these figures by detector."""
    found = [Measured(Subject("net", who), outliers, *three, 100, 50) for who, three in figures.items()]
    return Stress(name, "of outliers", found, clean)


def board(*stresses: Stress, protocol: str = "p") -> Overview:
    return overview({protocol: stresses}, {protocol: "P"})


CLEAN = condition("clean", {"a": (0.9, 0.88, 0.92), "b": (0.8, 0.78, 0.82), "c": (0.89, 0.87, 0.91)}, clean=True)


TITLES = {"p": "P", "q": "Q"}


def sentences(found: Overview, detector: str) -> list[str]:
    (one,) = [verdict for verdict in verdicts(found) if verdict.label == detector]
    return list(one.sentences)


def test_ranks_and_ties_with_the_best() -> None:
    found = board(CLEAN)
    assert [one.label for one in verdicts(found)] == ["a", "c", "b"]
    assert sentences(found, "a") == ["Ranks 1st of 3 on clean images (AUROC 0.900 [0.880, 0.920])."]
    assert sentences(found, "c") == [
        "Ranks 2nd of 3 on clean images (AUROC 0.890 [0.870, 0.910]), not distinguishable from the best (a)."
    ]
    assert sentences(found, "b") == ["Ranks 3rd of 3 on clean images (AUROC 0.800 [0.780, 0.820])."]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.3, 0.49, BELOW), (0.3, 0.5, AT), (0.5, 0.6, AT), (0.51, 0.6, ABOVE), (0.4, 0.6, AT), (nan, nan, UNKNOWN)],
)
def test_only_a_whole_interval_counts(low: float, high: float, expected: str) -> None:
    found = board(condition("hard", {"a": (0.45, low, high)}))
    assert level(found.conditions[0].means[Subject("net", "a")]) == expected
    assert verdicts(found)[0].level == expected
    text = " ".join(sentences(found, "a"))
    assert ("below chance" in text) == (expected == BELOW)
    assert ("Not distinguishable from chance" in text) == (expected == AT)


def test_below_chance_names_the_stresses_lowest_first() -> None:
    hard = [condition(f"s{place}", {"a": (value, value - 0.02, value + 0.02)}) for place, value in
            enumerate((0.3, 0.1, 0.4, 0.2))]  # fmt: skip
    assert sentences(board(*hard), "a") == [
        "Falls below chance under s1 (0.100 [0.080, 0.120]), s3 (0.200 [0.180, 0.220]), s0 (0.300 [0.280, "
        "0.320]) and 1 more."
    ]


def test_a_drop_is_told_only_if_the_intervals_are_apart() -> None:
    apart = condition("fog", {"a": (0.7, 0.65, 0.75)})
    overlapping = condition("fog", {"a": (0.87, 0.85, 0.89)})
    told = "Largest drop that stays above chance: fog, from 0.900 [0.880, 0.920] to 0.700 [0.650, 0.750]."
    assert told in sentences(board(CLEAN, apart), "a")
    assert not [one for one in sentences(board(CLEAN, overlapping), "a") if "Largest drop" in one]


def test_a_drop_is_measured_within_one_protocol() -> None:
    found = overview({"p": [CLEAN], "q": [condition("fog", {"a": (0.7, 0.65, 0.75)})]}, TITLES)
    assert not [one for one in sentences(found, "a") if "Largest drop" in one]


def test_untested_stresses_are_told() -> None:
    found = board(CLEAN, condition("fog", {"a": (0.7, 0.65, 0.75)}), condition("snow", {"a": (nan, nan, nan)}),
                  condition("hail", {"c": (0.7, 0.65, 0.75)}))  # fmt: skip
    assert [one.name for one in found.conditions] == ["clean", "fog", "hail"]  # without results of snow
    assert "Tested under only 1 of the 2 stresses." in sentences(found, "a")
    assert "Not tested under any of the 2 stresses." in sentences(found, "b")


def test_means_over_sets_have_intervals_that_hold_for_any_correlation() -> None:
    sets = [condition("clean", {"a": three}, clean=True, outliers=name) for name, three in
            {"near": (0.5, 0.4, 0.6), "far": (1.0, 1.0, 1.0)}.items()]  # fmt: skip
    both = Stress("clean", "of outliers", [one for part in sets for one in part.measured], True)
    found = board(both)
    assert found.conditions[0].means[Subject("net", "a")].interval == pytest.approx((0.75, 0.7, 0.8))
    assert sentences(found, "a") == [
        "On clean images: AUROC, mean over 2 outlier sets: 0.750 [0.700, 0.800]; weakest on near: 0.500 [0.400, 0.600],"
        " not distinguishable from chance."
    ]


def test_the_reference_is_the_clean_condition_with_most_detectors() -> None:
    few = condition("few", {"b": (0.99, 0.98, 1.0)}, clean=True)
    found = overview({"p": [few], "q": [CLEAN]}, TITLES)
    assert found.reference is not None
    assert found.reference.name == "clean"
    assert [subject.detector for subject in found.subjects] == ["a", "c", "b"]


def test_headlines() -> None:
    found = board(CLEAN, condition("hue", {"a": (0.2, 0.1, 0.3), "b": (0.6, 0.55, 0.65)}),
                  condition("fog", {"c": (0.5, 0.4, 0.6)}))  # fmt: skip
    assert headlines(found) == [
        "3 detectors, tested under 2 stresses; each under some of them.",
        "Best on clean images: a (AUROC 0.900 [0.880, 0.920]); not distinguishable from it: c.",
        "Below chance in at least one condition: a.",
        "Nowhere below chance, but not distinguishable from chance in at least one condition: c.",
        "Stress with the lowest mean AUROC of its detectors: hue (2 detectors; from a 0.200 [0.100, 0.300] to b 0.600 "
        "[0.550, 0.650]).",
    ]
    assert headlines(overview({}, {})) == []


def test_networks_are_named_if_there_are_several() -> None:
    two = [Measured(Subject(net, "a"), "set", 0.9 - step, 0.8, 0.95, 1, 1) for step, net in enumerate(("x", "y"))]
    assert [one.label for one in verdicts(board(Stress("clean", "of", two, True)))] == ["a on x", "a on y"]


def test_the_table_has_the_figures_of_the_verdicts() -> None:
    frame = board(CLEAN, condition("hue", {"a": (0.2, 0.1, 0.3)})).table.frame
    assert frame["detector"].tolist() == ["a", "c", "b"]
    assert frame.loc[0, ["p: clean", "p: hue", "p: hue_low", "p: hue_high"]].tolist() == [0.9, 0.2, 0.1, 0.3]
    assert frame["p: hue"].isna().tolist() == [False, True, True]


def test_a_name_that_two_protocols_use_has_its_protocol() -> None:
    hard = {"a": (0.2, 0.1, 0.3)}
    found = overview({"p": [condition("fog", hard)], "q": [condition("fog", hard), condition("hue", hard)]}, TITLES)
    assert [found.name(one) for one in found.conditions] == ["fog, P", "fog, Q", "hue"]


def test_words() -> None:
    assert [ordinal(rank) for rank in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th",
    ]  # fmt: skip
    assert [listed(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_ties_follow_the_tests_where_there_are_some() -> None:
    """Paired tests may tell overlapping intervals apart, and need not tell others apart."""
    a, b, c = (Subject("net", name) for name in "abc")
    tested = replace(CLEAN, standing=Standing(a, {b: 0.2, c: 0.01}, 3, True))
    found = board(tested)
    assert found.conditions[0].tied(b)
    assert not found.conditions[0].tied(c)
    assert not found.conditions[0].tied(a)
    assert headlines(found)[1].endswith("; not distinguishable from it: b.")
    assert not found.conditions[0].unpaired
    assert board(CLEAN).conditions[0].unpaired
