"""Tables and figures of `raised_bar`, from runs whose results are written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from farout.metrics import ece, fid
from farout.protocols.document import document
from farout.protocols.raised_bar.tables import summarize
from farout.report.content import Summary
from farout.report.html import render
from farout.study.cells.near_ood import VALUES
from farout.study.store import array_file
from helpers.bar_runs import Written

INLIERS = np.arange(10.0)


def summary(run: Written) -> Summary:
    return summarize(run.results(), "raised_bar")


def frames(run: Written) -> dict[str, pd.DataFrame]:
    return {table.name.removeprefix("raised_bar_"): table.frame for table in summary(run).tables}


def figures(run: Written) -> dict[str, Any]:
    return {figure.name.removeprefix("raised_bar_"): figure for figure in summary(run).figures}


def against(run: Written, who: tuple[str, str, str], near: float, far: float) -> None:
    """Scores whose AUROC is `near` on the generated set and `far` on the conventional one, in tenths."""
    run.scored(who, "", INLIERS)
    for name, area in (("svhn", far), ("near_ood", near)):
        run.scored(who, name, np.full(5, 10 * area - 0.5))


def quality(run: Written, label: str, own: float, noise: float = 10.0, kind: str = "near") -> None:
    """Features with unit variance around these means: the FID is the squared mean."""
    unit = np.array([[-1.0], [1.0]])
    means = {label: own, "plain generator": 1.0, "uniform noise": noise, "test": 0.0, "svhn": 5.0, "training": 0.0}
    kinds = {label: kind, "test": "test", "svhn": "conventional"}
    for name, mean in means.items():
        run.features(label, name, kinds.get(name, name), unit + mean)


def test_mean_and_deviation_over_seeds_with_the_generated_set_first(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near")
    for seed, near in (("0", 0.4), ("1", 0.5), ("2", 0.9)):
        against(run, ("lenet", seed, "msp"), near, 1.0)
    found = frames(run)["auroc"]
    assert list(found)[:4] == ["network", "detector", "near_ood", "near_ood s.d."]
    line = found.iloc[0]
    assert line["near_ood"] == pytest.approx(0.6)
    assert line["near_ood s.d."] == pytest.approx(np.std([0.4, 0.5, 0.9], ddof=1))
    assert (line["svhn"], line["svhn s.d."], line["seeds"]) == (1, 0, 3)


def test_one_seed_has_intervals_and_both_positive_classes(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near")
    against(run, ("lenet", "0", "msp"), 0.8, 1.0)
    found = frames(run)
    assert found["auroc"].iloc[0][["near_ood", "svhn"]].tolist() == pytest.approx([0.8, 1.0])
    assert found["auroc"].iloc[0]["near_ood_low"] < 0.8 < found["auroc"].iloc[0]["near_ood_high"]
    # 8 inliers lie below the 5 equal outliers, 2 above: precision is 5/7 at full recall of outliers
    assert found["aupr_out"].iloc[0]["near_ood"] == pytest.approx(5 / 7)
    assert found["aupr_in"].iloc[0]["near_ood"] == pytest.approx(0.8 + 0.1 * 9 / 14 + 0.1 * 10 / 15)
    assert found["details"]["kind"].tolist() == ["generated", "conventional"]


def test_networks_in_the_same_order_agree(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near")
    quality(run, "near_ood", own=3.0)
    for network, near, far in (("a", 0.3, 0.7), ("b", 0.4, 0.8), ("c", 0.6, 0.9), ("d", 0.7, 1.0)):
        against(run, (network, "0", "msp"), near, far)
    line = frames(run)["ranks"].iloc[0]
    assert line[["set", "compared_with", "measure", "n"]].tolist() == ["near_ood", "svhn", "auroc", 4]
    assert (line["kendall"], line["spearman"]) == (1, 1)
    assert line[["kendall_low", "kendall_high", "spearman_low", "spearman_high"]].isna().all()  # four items are too few
    assert line["p_value"] == pytest.approx(2 / 24)


def test_plain_samples_enter_no_rank_and_no_verdict(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near").generated("gan", "plain generator")
    quality(run, "near_ood", own=3.0)
    for network, near, far in (("a", 0.3, 0.7), ("b", 0.4, 0.8), ("c", 0.6, 0.9)):
        against(run, (network, "0", "msp"), near, far)
        run.scored((network, "0", "msp"), "gan", np.full(5, 10 * near - 0.5))
    found = frames(run)
    assert set(found["ranks"]["compared_with"]) == {"svhn"}
    kinds = dict(zip(found["details"]["outliers"], found["details"]["kind"], strict=True))
    assert kinds == {"near_ood": "generated", "gan": "plain generator", "svhn": "conventional"}
    assert found["sets"]["set"].tolist() == ["near_ood"]
    assert [stress.name for stress in summary(run).stresses] == ["clean", "generated: near_ood"]
    caption = next(table.caption for table in summary(run).tables if table.name == "raised_bar_auroc")
    assert "alone: near_ood; plain samples of a generator: gan; the others are conventional" in caption


def test_undertrained_sets_are_labeled_and_enter_no_rank_and_no_verdict(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near")
    quality(run, "near_ood", own=7.2)  # 51.84 of 100: more than half of the noise's FID
    for network, near, far in (("a", 0.3, 0.7), ("b", 0.4, 0.8), ("c", 0.6, 0.9)):
        against(run, (network, "0", "msp"), near, far)
    found = frames(run)
    assert "ranks" not in found
    assert "near_ood, undertrained" in found["auroc"]
    assert found["sets"].iloc[0]["quality"] == "undertrained"
    assert [stress.name for stress in summary(run).stresses] == ["clean"]


@pytest.mark.parametrize(("own", "expected"), [(7.0, "trained"), (7.1, "undertrained")])
def test_quality_is_the_share_of_the_fid_of_noise(tmp_path: Path, own: float, expected: str) -> None:
    run = Written(tmp_path).generated("near_ood", "near")
    quality(run, "near_ood", own)
    line = frames(run)["sets"].iloc[0]
    assert line["quality"] == expected  # 49 and 50.41 of 100
    assert line[["fid", "fid_plain_generator", "fid_uniform_noise"]].tolist() == pytest.approx([own**2, 1, 100])
    assert line[["mi_low", "mi_high", "share_kept", "features", "n"]].tolist() == [0.1, 0.5, 0.25, "vgg", 2]


def test_quality_needs_no_plain_generator(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("shifted", "shifted")
    unit = np.array([[-1.0], [1.0]])
    for name, kind, mean in (
        ("shifted", "shifted", 8.0),
        ("uniform noise", "noise", 10.0),
        ("training", "training", 0),
    ):
        run.features("shifted", name, kind, unit + mean)
    line = frames(run)["sets"].iloc[0]
    assert line[["quality", "fid", "fid_uniform_noise"]].tolist() == ["undertrained", pytest.approx(64), 100]
    assert np.isnan(line["fid_plain_generator"])


def test_fids_are_those_of_the_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    run = Written(tmp_path).generated("near_ood", "near")
    real, near, other = (rng.normal(mean, 1, (50, 3)).astype(np.float32) for mean in (0, 0.3, 2))
    for name, kind, rows in (
        ("near_ood", "near", near),
        ("svhn", "conventional", other),
        ("training", "training", real),
    ):
        run.features("near_ood", name, kind, rows)
    found = frames(run)["fid"].set_index("of")
    assert list(found.index) == ["near_ood", "svhn"]  # nearest first
    assert found["fid"].tolist() == pytest.approx([fid(near, real), fid(other, real)])
    assert (found["fid_low"] < found["fid"]).all()
    assert (found["n"] == 50).all()
    bars = figures(run)["fid_0"]
    assert bars.panels["near_ood"]["bar"].tolist() == ["near_ood", "svhn"]
    assert bars.limit > found["fid_high"].max()
    assert bars.chance is None
    assert "vgg" in bars.caption
    assert "50 images" in bars.caption


def test_mean_perceptual_distances_have_intervals(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("shifted", "shifted")
    columns = {name: np.arange(1.0, 5.0) for name in ("distance_at_equal_l2", "distance", "l2")}
    facts = {"network": "LPIPS (VGG-16)", "form": "lpips", "l2": 1.0, "images": 4}
    run.row("perceptual", columns, facts, set="shifted", of="fog", kind="corruption")
    line = frames(run)["perceptual"].iloc[0]
    reach = 3.18245 * 1.290994 / 2  # quantile of t with 3 degrees of freedom, standard deviation, √4
    for name in columns:
        found = line[[name, f"{name}_low", f"{name}_high"]].tolist()
        assert found == pytest.approx([2.5, 2.5 - reach, 2.5 + reach], abs=1e-4)


def test_ece_of_shifted_images_beside_mean_and_maximum_over_corruptions(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("shifted", "shifted")
    sure = np.full(10, 0.9)
    hits = {"test": ("test", 9), "fog": ("corruption", 7), "snow": ("corruption", 4), "shifted": ("shifted", 1)}
    for name, (kind, right) in hits.items():
        run.classified("lenet", name, kind, sure, np.arange(10) < right)
    line = frames(run)["ece"].iloc[0]
    assert line[["network", "images", "worst_corruption"]].tolist() == ["lenet", 10, "snow"]
    values = line[["test", "corruptions, mean", "corruptions, maximum", "shifted"]].tolist()
    assert values == pytest.approx([0.0, (0.2 + 0.5) / 2, 0.5, 0.8], abs=1e-9)
    assert line["shifted_low"] < 0.8 <= line["shifted_high"]
    shown = figures(run)
    bars = shown["ece_bars"].panels["lenet"]
    assert dict(zip(bars["bar"], bars["value"], strict=True)) == pytest.approx(
        {"test": 0, "fog": 0.2, "snow": 0.5, "shifted": 0.8}, abs=1e-9
    )
    curve = shown["reliability"].panels["lenet"]["shifted"]
    (bin_,) = np.flatnonzero(~np.isnan(curve.y))
    assert (curve.x[bin_], curve.y[bin_]) == pytest.approx((0.9, 0.1))
    assert curve.low[bin_] == pytest.approx(0.0025, abs=1e-4)  # Clopper-Pearson, 1 of 10
    assert curve.high[bin_] == pytest.approx(0.4450, abs=1e-4)
    assert list(shown["reliability"].panels["lenet"]) == ["test", "worst corruption", "shifted"]


def test_ece_over_seeds(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("shifted", "shifted")
    found = []
    for seed, right in (("0", 4), ("1", 6)):
        hits = np.arange(10) < right
        found.append(ece(np.full(10, 0.9), hits))
        run.classified("lenet", "shifted", "shifted", np.full(10, 0.9), hits, seed)
    line = frames(run)["ece"].iloc[0]
    assert line[["shifted", "shifted s.d."]].tolist() == pytest.approx([np.mean(found), np.std(found, ddof=1)])


def test_networks_are_ranked_by_calibration(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("shifted", "shifted")
    for number, network in enumerate("abc"):
        for name, kind, right in (("fog", "corruption", 8 - number), ("shifted", "shifted", 2 + number)):
            run.classified(network, name, kind, np.full(10, 0.9), np.arange(10) < right)
    line = frames(run)["ranks"].iloc[0]
    assert line[["set", "compared_with", "measure", "items", "n"]].tolist() == [
        "shifted", "corruptions, mean", "ece", "networks", 3,
    ]  # fmt: skip
    assert line["kendall"] == -1


@pytest.mark.parametrize(("right", "ranked"), [(3, True), (2, True), (1, False)])
def test_shifted_sets_that_have_lost_their_labels_enter_no_rank(tmp_path: Path, right: int, ranked: bool) -> None:
    """The ensemble is right on all four test images: two of the shifted ones are half of that, one is less."""
    run = Written(tmp_path).generated("shifted", "shifted")
    labels, names = np.array([0, 0, 1, 2]), {"classes": "cat\ndog\nbird"}
    seen = np.where(np.arange(4) < right, labels, 1 - np.minimum(labels, 1))
    run.row("sanity", {"prediction": labels, "label": labels}, set="shifted", kind="test", **names)
    run.row("sanity", {"prediction": seen, "label": labels}, set="shifted", kind="shifted", **names)
    for number, network in enumerate("abc"):
        for name, kind in (("fog", "corruption"), ("shifted", "shifted")):
            run.classified(network, name, kind, np.full(10, 0.9), np.arange(10) < 8 - number)
    assert ("ranks" in frames(run)) == ranked


def sanity(run: Written) -> Written:
    run.generated("shifted", "shifted").generated("near_ood", "near", 4)
    names = {"classes": "cat\ndog\nbird"}
    labels = np.array([0, 0, 1, 2])
    run.row("sanity", {"prediction": labels, "label": labels}, set="shifted", kind="test", **names)
    predicted = np.array([0, 1, 1, 2])
    run.row("sanity", {"prediction": predicted, "label": labels}, set="shifted", kind="shifted", **names)
    run.row("sanity", {"prediction": np.array([2, 1, 0, 0])}, set="near_ood", kind="near", **names)
    return run


def test_accuracy_of_the_members_of_the_ensemble(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near").generated("shifted", "shifted")
    labels = np.array([0, 0, 1, 2])
    for label, network, right in (("near_ood", "lenet", 3), ("near_ood", "vgg11", 4), ("shifted", "lenet", 1)):
        columns = {"prediction": np.where(np.arange(4) < right, labels, 3), "label": labels}
        run.row("member", columns, set=label, kind="near", network=network)
    found = frames(run)["members"]
    assert found["set"].tolist() == ["near_ood", "near_ood", "shifted"]
    assert found["network"].tolist() == ["lenet", "vgg11", "lenet"]
    assert found["test_accuracy"].tolist() == [0.75, 1, 0.25]
    assert found["test_accuracy_low"][0] == pytest.approx(0.1941, abs=1e-4)  # Clopper-Pearson, 3 of 4
    assert found["n_test"].tolist() == [4] * 3


def test_confusion_matrices(tmp_path: Path) -> None:
    run = sanity(Written(tmp_path))
    run.row("reference", {"prediction": np.array([2, 0, 1, 1])}, set="near_ood", kind="near")
    table = frames(run)["sanity"].set_index("set")
    assert table["agreement"].tolist() == [1, 0.75, 0.25]
    assert table["reference"].tolist() == ["label", "label", "class that the generators' ensemble predicts"]
    assert table["agreement_low"]["shifted"] == pytest.approx(0.1941, abs=1e-4)
    panels = figures(run)["confusion"].panels
    shifted = panels["shifted (4)"]
    assert list(shifted.index) == list(shifted.columns) == ["cat", "dog", "bird"]
    assert shifted.to_numpy().tolist() == [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]
    assert panels["near_ood (4)"].to_numpy().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_calibration_says_whether_shifted_images_have_kept_their_labels(tmp_path: Path) -> None:
    run = sanity(Written(tmp_path)).classified("lenet", "shifted", "shifted", np.full(4, 0.9), np.arange(4) < 3)
    found = summary(run)
    captions = [one.caption for one in (*found.tables, *found.figures) if "calibration" in one.title.lower()]
    assert len(captions) == 2
    for caption in captions:
        assert "gives the label to 75.0% of shifted images and to 100.0% of test" in caption
        assert "have lost their labels" in caption


def test_the_class_asked_of_the_generator_is_the_reference(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near", 4, class_label=np.array([0, 1, 1, 2]))
    columns = {"prediction": np.array([1, 1, 2, 0])}
    run.row("sanity", columns, set="near_ood", kind="near", classes="cat\ndog\nbird")
    run.row("reference", columns, set="near_ood", kind="near")
    (line,) = frames(run)["sanity"].to_dict("records")
    assert (line["reference"], line["agreement"]) == ("class asked of the generator", 0.25)
    (sheet,) = (figure for name, figure in figures(run).items() if name == "near_near_ood")
    assert [(strip.title, len(strip.images)) for strip in sheet.strips] == [
        ("class 0", 1),
        ("class 1", 2),
        ("class 2", 1),
    ]


def test_without_the_reference_near_sets_are_not_checked(tmp_path: Path) -> None:
    assert frames(sanity(Written(tmp_path)))["sanity"]["set"].tolist() == ["test", "shifted"]


def test_exposure_gains_over_none_on_sets_that_were_not_learned(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near")
    areas = {("none", "svhn"): (0.5, 0.6, 0.7), ("near_ood", "svhn"): (0.8, 0.8, 0.8), ("none", "near_ood"): (0.2,) * 3}
    for seed in range(3):
        for exposure in ("none", "near_ood"):
            tags = {"network": "lenet", "detector": "msp", "exposure": exposure, "seed": str(seed)}
            run.row("exposed", {"score": INLIERS}, **tags)
            labels = np.zeros(10, int)
            right = 9 if exposure == "none" else 8
            predicted = np.where(np.arange(10) < right, 0, 1)
            run.row("exposed_prediction", {"prediction": predicted, "label": labels}, **(tags | {"detector": ""}))
            for (trained, name), values in areas.items():
                if trained == exposure:
                    run.row("exposed", {"score": np.full(4, 10 * values[seed] - 0.5)}, **tags, outliers=name)
    found = frames(run)
    mean = found["exposure_mean"].set_index(["exposed_to", "outliers"])
    assert sorted(mean.index) == [("near_ood", "svhn"), ("none", "near_ood"), ("none", "svhn")]
    line = mean.loc[("near_ood", "svhn")]
    assert line[["mean_auroc", "mean_accuracy", "mean_gain", "seeds"]].tolist() == pytest.approx([0.8, 0.8, 0.2, 3])
    reach = 4.30265 * np.std([0.3, 0.2, 0.1], ddof=1) / np.sqrt(3)  # Student's t with 2 degrees of freedom
    assert (line["mean_gain_low"], line["mean_gain_high"]) == pytest.approx((0.2 - reach, 0.2 + reach), abs=1e-5)
    assert np.isnan(mean.loc[("none", "svhn")]["mean_gain"])
    by_seed = found["exposure"]
    exposed = by_seed[by_seed["exposed_to"] == "near_ood"]
    assert exposed["gain"].tolist() == pytest.approx([0.3, 0.2, 0.1])
    assert exposed["test_accuracy"].tolist() == [0.8] * 3


def test_histograms_of_mutual_information_name_the_interval(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near")
    values = {"validation": np.array([0.0, 0.1]), "generated": np.array([0.3, 0.9])}
    tags = run._tags("information", {"set": "near_ood", "kind": "near"})
    run._put(tags, {}, {VALUES: array_file(values)}, {"low": 0.2, "high": 0.6, "share_kept": 0.5})
    ((title, panel),) = figures(run)["information"].panels.items()
    assert title == "near_ood: kept 0.1 to 0.5"  # the interval of the set, not the one that the rule would select
    assert {name: rows.tolist() for name, rows in panel.items()} == {
        "validation images": [0, 0.1],
        "generated images": [0.3, 0.9],
    }
    assert figures(run)["information"].limits == (0, 0.9)


def test_radar_has_an_axis_per_set(tmp_path: Path) -> None:
    run = Written(tmp_path).generated("near_ood", "near")
    against(run, ("lenet", "0", "msp"), 0.4, 1.0)
    run.scored(("lenet", "0", "msp"), "lsun", np.full(4, 6.5))
    (frame,) = figures(run)["radar"].panels.values()
    assert frame.loc["lenet"].to_dict() == pytest.approx({"near_ood": 0.4, "svhn": 1.0, "lsun": 0.7})


def test_a_run_without_results_has_no_tables(tmp_path: Path) -> None:
    run = Written(tmp_path).row("set", None, set="near_ood", kind="near")
    assert not summary(run).tables
    assert not summary(run).figures


def test_everything_can_be_drawn(tmp_path: Path) -> None:
    run = sanity(Written(tmp_path))
    quality(run, "near_ood", own=3.0)
    for name in ("svhn", "lsun"):
        run.scored(("lenet", "0", "msp"), name, [3.5, 8.5])
    run.scored(("lenet", "0", "msp"), "", INLIERS).scored(("lenet", "0", "msp"), "near_ood", [4.5, 5.5])
    for name, kind in (("test", "test"), ("fog", "corruption"), ("shifted", "shifted")):
        run.classified("lenet", name, kind, np.linspace(0.3, 1, 20), np.arange(20) % 3 > 0)
    page = render(document(run.results()))
    for title in ("Confusion matrices", "Networks on all image sets", "Reliability on Shifted", "FID to the training"):
        assert title in page
    assert page.count('class="plot"') >= 7
