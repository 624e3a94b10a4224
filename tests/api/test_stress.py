"""The one-liner: a detector in, a table with intervals out."""

from __future__ import annotations

import html
import inspect
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import farout
from farout import metrics
from farout.data.matched import match
from farout.registry import UnknownName
from farout.report.html import render

stress = partial(farout.stress, protocols="clean")
seen: list[int] = []
"""Sizes of the batches that a counting detector has scored."""
note = seen.append
"""A built-in function, so what it has noted is no part of what a detector that calls it is."""


class Bright(farout.Detector):
    """How bright an image is, times a factor."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def score(self, images: Tensor) -> Tensor:
        note(len(images))
        return self.factor * images.double().mean((1, 2, 3))


class Linear(farout.Detector):
    """Holds a module."""

    def __init__(self, seed: int = 0) -> None:
        self.layer = nn.Linear(3, 1, bias=False)
        weight = np.random.default_rng(seed).normal(size=(1, 3))
        self.layer.weight.data = torch.as_tensor(weight, dtype=torch.float32)

    def score(self, images: Tensor) -> Tensor:
        note(len(images))
        scores: Tensor = self.layer(images.mean((2, 3)))[:, 0]
        return scores


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def pictures(seed: int, total: int, name: str, brightness: float = 0.5) -> farout.ImageSet:
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, (total, 3, 16, 16))
    images = brightness + 0.2 * np.random.default_rng(seed + 1).uniform(-1, 1, (total, 1, 1, 1)) + 0.5 * noise
    return farout.ImageSet.from_arrays(images.clip(0, 1).astype(np.float32), np.arange(total) % 4, name=name)


def renamed(images: farout.ImageSet, name: str) -> farout.ImageSet:
    images.name = name
    return images


INLIERS, NEAR, FAR = pictures(0, 60, "in"), pictures(10, 50, "near", 0.55), pictures(20, 70, "far", 0.75)


def scores(detector: farout.Detector, images: farout.ImageSet) -> np.ndarray:
    return np.asarray(torch.as_tensor(detector.score(images.batch(range(len(images))))).detach(), dtype=np.float64)


def test_the_example() -> None:
    """As in the documentation: a class with `score`, inliers by name."""
    net = farout.networks.create("lenet", 4, 32).module

    class Mine(farout.Detector):
        def score(self, images: Tensor) -> Tensor:
            return 1 - net(images).softmax(1).amax(1)  # type: ignore[no-any-return]

    result = farout.stress(Mine(), inliers="toy", budget="quick")
    table = result.table()
    assert table["outliers"].tolist() == ["toy:ood_cls", "toy:ood_pair", "toy:ood_empty"]
    assert table["detector"].tolist() == ["Mine"] * 3
    with torch.no_grad():
        x = scores(Mine(), farout.load("toy"))
        for _, line in table.iterrows():
            y = scores(Mine(), farout.load("toy", f"test/{line['outliers'].removeprefix('toy:')}"))
            assert line["auroc"] == pytest.approx(metrics.auroc(x, y), abs=1e-4)
            assert line["auroc_low"] < line["auroc"] < line["auroc_high"]
            assert (line["n_inliers"], line["n_outliers"]) == (1000, 1000)
    printed = repr(result)
    assert printed.startswith("stress (budget quick)")
    first = table.iloc[0]
    assert f"{first['auroc']:.3f} [{first['auroc_low']:.3f}, {first['auroc_high']:.3f}]" in printed


def test_every_figure_is_that_of_the_scores(tmp_path: Path) -> None:
    detector = Bright()
    result = stress(detector, INLIERS, [FAR, NEAR])
    table = result.table()
    assert table["outliers"].tolist() == ["far", "near"]
    x = scores(detector, INLIERS)
    for _, line in table.iterrows():
        y = scores(detector, {"near": NEAR, "far": FAR}[line["outliers"]])
        assert tuple(line[["auroc", "auroc_low", "auroc_high"]]) == metrics.auroc_interval(x, y)
        for name in ("fpr_at_95_id_recall", "fpr_at_95_ood_recall", "detection_accuracy"):
            assert line[name] == getattr(metrics, name)(x, y)
        assert line["aupr_out"] == metrics.aupr(x, y, positive="outlier")
        assert line["aupr_in"] == metrics.aupr(x, y, positive="inlier")
        assert (line["network"], line["seed"], line["detector"], line["p_vs_best"]) == ("", "0", "Bright", 1.0)
    path = result.report(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == render(result.document, "page_tables")


def test_an_npz_file_and_a_folder_are_image_sets(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inliers, outliers = (rng.integers(0, high, (20, 8, 8, 3), dtype=np.uint8) for high in (200, 256))
    np.savez(tmp_path / "in.npz", images=inliers)
    (tmp_path / "odd").mkdir()
    for number, image in enumerate(outliers):
        Image.fromarray(image).save(tmp_path / "odd" / f"{number:02}.png")
    expected = metrics.auroc(inliers.mean((1, 2, 3)), outliers.mean((1, 2, 3)))
    for given in (tmp_path / "in.npz", str(tmp_path / "in.npz")):
        table = stress(Bright(), given, tmp_path / "odd").table()
        assert table["outliers"].tolist() == ["odd"]
        assert table["auroc"].item() == pytest.approx(expected, abs=1e-12)
    swapped = stress(Bright(), tmp_path / "odd", tmp_path / "in.npz").table()
    assert swapped["auroc"].item() == pytest.approx(1 - expected, abs=1e-12)


def test_outliers_of_all_kinds_in_the_order_given(tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", images=np.full((5, 8, 8), 255, np.uint8))
    outliers: list[farout.ImageSet | str | Path] = [tmp_path / "odd.npz", NEAR, "noise", "toy:test/ood_cls"]
    table = stress(Bright(), INLIERS, outliers).table()
    assert table["outliers"].tolist() == ["odd", "near", "noise", "toy:ood_cls"]
    assert table["n_outliers"].tolist() == [5, 50, 1000, 1000]
    assert table["auroc"].iloc[0] == 1.0


@pytest.mark.parametrize("outliers", [FAR, [FAR], (FAR,)])
def test_one_set_or_several(outliers: Any) -> None:
    table = stress(Bright(), INLIERS, outliers).table()
    assert table["auroc"].tolist() == [metrics.auroc(scores(Bright(), INLIERS), scores(Bright(), FAR))]


def test_inliers_without_outliers_of_their_own_get_built_in_ones() -> None:
    assert stress(Bright(), INLIERS).table()["outliers"].tolist() == ["noise", "toy"]


def test_inliers_are_not_their_own_outliers() -> None:
    assert stress(Bright(), farout.load("toy", limit=40)).table()["outliers"].tolist() == ["noise"]


class Learned(farout.Detector):
    """Distance to the mean brightness of what it was fitted on."""

    mean: float | None = None

    def fit(self, images: farout.ImageSet) -> None:
        self.fitted_on = len(images)
        self.mean = float(images.batch(range(len(images))).double().mean())

    def score(self, images: Tensor) -> Tensor:
        if self.mean is None:
            raise farout.NotFitted("call fit first")
        return (images.double().mean((1, 2, 3)) - self.mean).abs()


def test_a_detector_is_fitted_on_named_inliers_only() -> None:
    detector = Learned()
    stress(detector, "toy", FAR)
    assert detector.fitted_on == 4000
    assert detector.mean == pytest.approx(float(farout.load("toy", "train").batch(range(4000)).double().mean()))
    detector.mean = 0.25
    stress(detector, INLIERS, FAR)
    assert detector.mean == 0.25


@pytest.fixture
def panel() -> farout.Panel:
    network = farout.networks.create("lenet", 4, 16)
    return farout.Panel(network, ["msp", farout.detectors.KNN(k=3)])


def test_a_fitted_panel_stays_as_it_is(panel: farout.Panel) -> None:
    panel.fit(pictures(30, 40, "train"))
    bank = panel.detectors["knn"].state["bank"].clone()
    table = stress(panel, INLIERS, FAR).table().set_index("detector")
    x, y = panel.score(INLIERS), panel.score(FAR)
    assert list(table.index) == ["msp", "knn"]
    for name in ("msp", "knn"):
        assert table.loc[name, "auroc"] == pytest.approx(metrics.auroc(x[name], y[name]), abs=1e-9)
    assert torch.equal(panel.detectors["knn"].state["bank"], bank)


def test_a_fitted_panel_is_not_fitted_again_on_named_inliers(panel: farout.Panel) -> None:
    panel.fit(pictures(30, 40, "train"))
    table = stress(panel["knn"], "toy", FAR).table()
    assert len(panel.detectors["knn"].state["bank"]) == 40
    expected = metrics.auroc(panel.score(farout.load("toy"))["knn"], panel.score(match(FAR, (3, 32, 32)))["knn"])
    assert table["auroc"].item() == pytest.approx(expected, abs=1e-9)


def test_an_unfitted_panel_is_fitted_on_named_inliers() -> None:
    network = farout.networks.create("lenet", 4, 32)
    panel = farout.Panel(network, ["msp", "knn"])
    table = stress(panel, "toy", "noise").table().set_index("detector")
    assert len(panel.detectors["knn"].state["bank"]) == 4000
    assert len(panel.validation["knn"]) == 500
    again = farout.Panel(network, ["msp", "knn"]).fit(farout.load("toy", "train"), farout.load("toy", "val"))
    x, y = again.score(farout.load("toy")), again.score(farout.load("noise"))
    for name in ("msp", "knn"):
        assert table.loc[name, "auroc"] == pytest.approx(metrics.auroc(x[name], y[name]), abs=1e-9)


def test_one_member_of_a_panel(panel: farout.Panel) -> None:
    panel.fit(pictures(30, 40, "train"))
    table = stress(panel["knn"], INLIERS, FAR).table()
    assert table["detector"].tolist() == ["knn"]
    x, y = panel.score(INLIERS)["knn"], panel.score(FAR)["knn"]
    assert table["auroc"].item() == pytest.approx(metrics.auroc(x, y), abs=1e-9)


def test_an_unfitted_panel_without_anything_to_fit_on(panel: farout.Panel) -> None:
    for detector in (panel, panel["knn"]):
        with pytest.raises(farout.NotFitted, match=r"is not fitted, and these inliers have no training split"):
            stress(detector, INLIERS, FAR)
    assert stress(panel["msp"], INLIERS, FAR).table()["detector"].tolist() == ["msp"]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((Bright, INLIERS), TypeError, "expected a detector, got the class Bright; create one: Bright"),
        ((nn.Flatten(), INLIERS), TypeError, "expected a farout.Detector or a farout.Panel, got Flatten"),
        (("msp", INLIERS), TypeError, "expected a farout.Detector or a farout.Panel, got str"),
        ((Bright(), np.zeros((5, 8, 8))), ValueError, r"expected images \[B, C, H, W\] .* got shape \(5, 8, 8\)"),
        ((Bright(), None), TypeError, "inliers: expected .* got NoneType"),
        ((Bright(), INLIERS, 5), TypeError, "outliers: expected .* got int"),
        ((Bright(), INLIERS, [FAR, None]), TypeError, "outliers: expected .* got NoneType"),
        ((Bright(), INLIERS, {"a": FAR}), TypeError, "outliers: expected one data set, got a mapping of a"),
        ((Bright(), INLIERS, []), ValueError, "outliers is empty; give at least one set"),
        ((Bright(), "tyo"), UnknownName, "unknown data set 'tyo'. Did you mean 'toy'"),
        ((Bright(), INLIERS, "nois"), UnknownName, "unknown data set 'nois'. Did you mean 'noise'"),
        ((Bright(), INLIERS, "toy:tset"), UnknownName, "unknown split of 'toy': 'tset'. Did you mean 'test'"),
        ((Bright(), INLIERS, "gone/odd.npz"), FileNotFoundError, "no file or folder .*odd.npz"),
        ((Bright(), INLIERS, [FAR, FAR]), ValueError, "two outlier sets are called far; give each its own name"),
        ((Bright(), INLIERS, [pictures(0, 9, "noise"), "noise"]), ValueError, "two outlier sets are called noise"),
        (
            (Bright(), INLIERS, renamed(pictures(0, 9, "x"), "")),
            ValueError,
            "an outlier set needs a name, got an empty",
        ),
    ],
)
def test_what_cannot_be_stressed_is_said_before_anything_is_scored(
    arguments: tuple[Any, ...], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        farout.stress(*arguments)
    assert seen == []


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"budget": "fast"}, ValueError, "budget must be one of quick, standard, full, got 'fast'"),
        ({"protocols": "claen"}, UnknownName, "unknown protocol 'claen'. Did you mean 'clean'"),
        ({"protocols": ["clean", "rod"]}, UnknownName, "unknown protocol 'rod'"),
        ({"protocols": []}, ValueError, "protocols is empty; give one or more of attributes, clean, "),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        farout.stress(Bright(), INLIERS, FAR, **options)
    assert seen == []


def test_protocols_by_name() -> None:
    names = ("all", "clean", ["clean"])
    tables = [farout.stress(Bright(), INLIERS, FAR, protocols=name).table() for name in names]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


class Bad(farout.Detector):
    """Gives what it is told to."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def score(self, images: Tensor) -> Any:
        right = images.double().mean((1, 2, 3))
        answers: dict[str, Callable[[], Any]] = {
            "nan": lambda: torch.where(right > right.median(), torch.nan, right),
            "infinite": lambda: right / 0,
            "short": lambda: right[1:],
            "column": lambda: right[:, None],
            "words": lambda: np.array(["odd"] * len(right)),
            "truth": lambda: right > 0.5,
            "none": lambda: None,
            "error": lambda: dict[str, int]()["key"],
        }
        return answers[self.answer]()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("nan", "NonFiniteScores: Bad gave 30 NaN and 0 infinite scores among 60 on in"),
        ("infinite", "NonFiniteScores: Bad gave 0 NaN and 60 infinite scores among 60 on in"),
        ("short", "ValueError: Bad returned scores of shape (59,) for 60 images, expected (60,)"),
        ("column", "ValueError: Bad returned scores of shape (60, 1) for 60 images, expected (60,)"),
        ("words", "TypeError: Bad returned <U3 scores, expected real numbers"),
        ("truth", "TypeError: Bad returned bool scores, expected real numbers"),
        ("none", "ValueError: Bad returned scores of shape () for 60 images, expected (60,)"),
        ("error", "KeyError: 'key'"),
    ],
)
def test_a_bad_answer_is_a_failure_that_everybody_sees(answer: str, said: str) -> None:
    result = stress(Bad(answer), INLIERS, pictures(10, 60, "in2"))
    assert len(result.outcome.failed) == 2
    place = r" \(.*?test_stress.py, line \d+\)"  # of the detector that gave it
    assert f"Bad: {said}" in [re.sub(place, "", why) for why in result.outcome.failed.values()]
    assert f"  Bad: {said}\n" in re.sub(place, "", f"{result!r}\n")
    assert "2 of 2 results are missing, 2 of them failed:" in repr(result)
    assert html.escape(said).replace("&#x27;", "&#39;") in re.sub(place, "", render(result.document))
    with pytest.raises(ValueError, match="there is no table, because there are no results"):
        result.table()


def test_results_are_kept_and_reused(tmp_path: Path) -> None:
    first = stress(Bright(), INLIERS, [NEAR, FAR], out=tmp_path)
    assert sum(seen) == 180
    again = stress(Bright(), INLIERS, [NEAR, FAR], out=tmp_path)
    assert sum(seen) == 180
    assert again.table().equals(first.table())
    stress(Bright(), INLIERS, [NEAR, pictures(40, 9, "more")], out=str(tmp_path))
    assert sum(seen) == 189


def test_another_attribute_is_another_detector(tmp_path: Path) -> None:
    up = stress(Bright(1.0), INLIERS, FAR, out=tmp_path).table()["auroc"].item()
    before = sum(seen)
    down = stress(Bright(-1.0), INLIERS, FAR, out=tmp_path).table()["auroc"].item()
    assert sum(seen) == 2 * before
    assert down == pytest.approx(1 - up, abs=1e-12)
    assert up > 0.9


def test_other_weights_are_another_detector(tmp_path: Path) -> None:
    stress(Linear(0), INLIERS, FAR, out=tmp_path)
    before = sum(seen)
    table = stress(Linear(1), INLIERS, FAR, out=tmp_path).table()
    assert sum(seen) == 2 * before
    x, y = scores(Linear(1), INLIERS), scores(Linear(1), FAR)
    assert table["auroc"].item() == pytest.approx(metrics.auroc(x, y), abs=1e-6)
    seen.clear()
    stress(Linear(0), INLIERS, FAR, out=tmp_path)
    assert seen == []


def test_other_images_under_the_same_name_are_scored_anew(tmp_path: Path) -> None:
    stress(Bright(), INLIERS, FAR, out=tmp_path)
    seen.clear()
    table = stress(Bright(), INLIERS, pictures(50, 70, "far", 0.2), out=tmp_path).table()
    assert sum(seen) == 70
    assert table["auroc"].item() < 0.2


def test_a_detector_that_cannot_be_told_apart_is_not_reused(tmp_path: Path) -> None:
    class Opaque(Bright):
        def __init__(self) -> None:
            super().__init__()
            self.function = lambda scores: scores

    for calls in (1, 2):
        with pytest.warns(UserWarning, match="Opaque: this detector cannot be identified .* are not reused"):
            stress(Opaque(), INLIERS, FAR, out=tmp_path)
        assert sum(seen) == calls * 130


def test_a_detector_may_say_what_it_is(tmp_path: Path) -> None:
    class Named(Bright):
        def __init__(self) -> None:
            super().__init__()
            self.function = lambda scores: scores

        def identity(self) -> dict[str, Any]:
            return {"name": "named", "version": 1}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stress(Named(), INLIERS, FAR, out=tmp_path)
        stress(Named(), INLIERS, FAR, out=tmp_path)
    assert sum(seen) == 130


def test_a_failure_is_tried_again_and_what_worked_is_not(tmp_path: Path) -> None:
    class Moody(Bright):
        moods: list[str] = []  # noqa: RUF012

        def identity(self) -> str:
            return "moody"

        def score(self, images: Tensor) -> Tensor:
            if self.moods and len(images) == 6:  # the far set's second chunk
                raise RuntimeError(self.moods[0])
            return super().score(images)

    Moody.moods.append("not now")
    first = stress(Moody(), INLIERS, FAR, out=tmp_path)
    (why,) = first.outcome.failed.values()
    assert why.startswith("Moody: RuntimeError: not now (")
    Moody.moods.clear()
    seen.clear()
    second = stress(Moody(), INLIERS, FAR, out=tmp_path)
    assert second.outcome.failed == {}
    assert sum(seen) <= 70
    assert second.table()["auroc"].item() == metrics.auroc(scores(Bright(), INLIERS), scores(Bright(), FAR))


def test_names_that_look_like_markup_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the bar, which knows a markup of its own, nor in the report."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    names = ("[bold", "{0}", "<b>", "[/x]")  # the last stays in the bar to the end
    sets = [pictures(number, 9, name) for number, name in enumerate(names)]
    result = stress(Bright(), INLIERS, sets)
    assert result.table()["outliers"].tolist() == list(names)
    plain = stress(Bright(), INLIERS, [pictures(number, 9, name) for number, name in enumerate("wxyz")])
    assert render(result.document).count("<b>") == render(plain.document).count("<b>")  # only the page's own


def test_images_of_another_shape_are_brought_to_the_inliers() -> None:
    shapes: set[tuple[int, ...]] = set()

    class Shapes(farout.Detector):
        def identity(self) -> str:
            return "shapes"

        def score(self, images: Tensor) -> Tensor:
            shapes.add(tuple(images.shape[1:]))
            return images.mean((1, 2, 3))

    gray = farout.ImageSet.from_arrays(np.zeros((5, 40, 30), np.uint8), name="gray")
    stress(Shapes(), INLIERS, gray)
    assert shapes == {(3, 16, 16)}


def test_the_documented_arguments() -> None:
    parameters = inspect.signature(farout.stress).parameters
    assert list(parameters) == ["detector", "inliers", "outliers", "protocols", "budget", "out"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    assert [name for name, p in parameters.items() if p.kind is keyword] == ["protocols", "budget", "out"]
