"""What evasion plans, and what it makes of what was found: tables against figures computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout import metrics
from farout.attacks import ATTACKS
from farout.metrics.setups import copied_auroc
from farout.protocols import PROTOCOLS, plan
from farout.protocols.evasion.tables import summarize
from farout.study.results import Results
from farout.study.spec import StudySpec
from farout.study.study import from_spec
from farout.study.subjects.images import ImageSubject

ATTACKED = 40
CLASSIFIER = [{"name": "pgd", "steps": 3, "epsilon": 0.1, "label": "pgd"}, "fgsm"]
OWN = [
    {"name": "adaptive_pgd", "steps": 4, "epsilon": 0.1, "label": "adaptive"},
    {"name": "score_pgd", "steps": 4, "label": "lowered"},
]


def relative(noise: float) -> farout.Network:
    """Networks that agree on most images, so that several are right of the same ones."""
    network = farout.networks.create("lenet", 4, 32, seed=1)
    with torch.no_grad():
        for index, weights in enumerate(network.parameters()):
            drawn = torch.randn(weights.shape, generator=farout.rng.generator(0, index))
            weights.add_(noise * weights.std(correction=0) * drawn)
    return network


def spec(folder: Path, **protocol: Any) -> StudySpec:
    networks = []
    for noise, label in ((0.0, "one"), (0.3, "two")):
        weights = folder / f"{label}.safetensors"
        farout.networks.save_weights(relative(noise), weights)
        networks.append({"name": "lenet", "label": label, "weights": str(weights)})
    settings = {"attacks": [*CLASSIFIER, *OWN], "images": ATTACKED, "adaptive_images": 20, **protocol}
    return StudySpec.model_validate(
        {
            "name": "evaded",
            "budget": "quick",
            "inliers": {
                "train": {"name": "toy", "split": "train", "limit": 200},
                "test": {"name": "toy", "limit": 120},
            },
            "outliers": ["noise"],
            "networks": networks,
            "detectors": ["msp", "mds"],
            "protocols": [{"name": "evasion", **settings}],
        }
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("evaded")
    result = farout.run(spec(folder), folder / "run")
    assert not result.outcome.failed
    return Results(folder / "run")


def tables(run: Results) -> dict[str, Any]:
    return {table.name: table.frame for table in summarize(run, "evasion").tables}


def row(run: Results, **tags: str) -> Any:
    (found,) = [row for row in run.rows if all(row.tags[key] == value for key, value in tags.items())]
    return found


def test_success_is_counted_in_both_conventions(run: Results) -> None:
    frame = tables(run)["evasion_success"].set_index(["network", "attack", "detector"])
    own = [(network, "adaptive", detector) for network in ("one", "two") for detector in ("msp", "mds")]
    usual = [(network, attack, "") for attack in ("pgd", "fgsm") for network in ("one", "two")]
    assert list(frame.index) == [*usual, *own]
    cell = row(run, role="attack", made_on="two", attack="pgd").cell
    correct, success, rounded = (run.store.column(cell, name) for name in ("clean_correct", "success", "success_8bit"))
    line = frame.loc[("two", "pgd", "")]
    adaptive = row(run, role="own_attack", network="two", detector="mds", attack="adaptive").cell
    assert frame.loc[("two", "adaptive", "mds")]["asr"] == run.store.column(adaptive, "success").mean()
    assert line["accuracy"] == correct.mean()
    assert line["asr"] == success.mean()
    assert line["asr_of_correct"] == (success & correct).sum() / correct.sum()
    assert line["asr_8bit"] == (rounded & correct).sum() / correct.sum()
    assert line["linf"] == pytest.approx(0.1, abs=1e-6)
    assert line["l2"] == np.median(run.store.column(cell, "l2")[success & correct])
    assert (frame["asr_low"] <= frame["asr"]).all()


def test_detection_of_all_and_of_the_successful(run: Results) -> None:
    frame = tables(run)["evasion"]
    mine = frame[(frame.network == "one") & (frame.detector == "mds") & (frame.attack == "pgd")].set_index(
        ["made_on", "of"]
    )
    inliers = run.scores(row(run, role="inliers", network="one", detector="mds"))
    attacked = row(run, role="attacked", network="one", detector="mds", attack="pgd", made_on="one")
    outliers, known = run.scores(attacked), {n: run.attribute(attacked, n) for n in ("clean_correct", "success")}
    chosen = known["clean_correct"] & known["success"]
    for of, some in (("all", np.ones(ATTACKED, bool)), ("successful", chosen)):
        line = mine.loc[("", of)]
        assert (line["n_inliers"], line["n_outliers"]) == (120, some.sum())
        assert line["auroc"] == pytest.approx(metrics.auroc(inliers, outliers[some]), abs=1e-12)
        assert line["fpr_at_95_id_recall"] == metrics.fpr_at_95_id_recall(inliers, outliers[some])
        assert line["fpr_at_95_ood_recall"] == metrics.fpr_at_95_ood_recall(inliers, outliers[some])
    others = run.scores(row(run, role="attacked", network="one", detector="mds", attack="pgd", made_on="two"))
    assert mine.loc[("two", "all")]["auroc"] == pytest.approx(metrics.auroc(inliers, others), abs=1e-12)


def test_attacked_images_stand_beside_their_originals(run: Results) -> None:
    """The interval pairs an attacked image with the inlier it was made of."""
    test = farout.load("toy", limit=120)
    attacked = row(run, role="attacked", network="one", detector="msp", attack="fgsm", made_on="one")
    places = farout.rng.subset_indices(120, ATTACKED)
    np.testing.assert_array_equal(run.labels(attacked), test.labels[places])
    inliers = run.scores(row(run, role="inliers", network="one", detector="msp"))
    expected = copied_auroc(inliers, run.scores(attacked), places).share()
    frame = tables(run)["evasion_auroc"].set_index(["network", "detector"])
    line = frame.loc[("one", "msp")]
    assert (line["fgsm"], line["fgsm_low"], line["fgsm_high"]) == pytest.approx(expected, abs=1e-12)


def test_transfer_counts_images_that_both_networks_had_right(run: Results) -> None:
    frame = tables(run)["evasion_transfer"].set_index(["attack", "made_on", "network"])
    cells = {name: row(run, role="attack", made_on=name, attack="pgd").cell for name in ("one", "two")}
    both = run.store.column(cells["one"], "clean_correct") & run.store.column(cells["two"], "clean_correct")
    predicted = row(run, role="prediction", made_on="one", network="two", attack="pgd").cell
    wrong = run.store.column(predicted, "prediction") != run.store.column(predicted, "label")
    line = frame.loc[("pgd", "one", "two")]
    assert line["images"] == both.sum() > 0
    assert line["wrong"] == wrong[both].mean() != wrong.mean()


def test_attacks_on_the_detectors_themselves(run: Results) -> None:
    frame = tables(run)["evasion_adaptive"].set_index(["network", "detector", "attack"])
    inliers = run.scores(row(run, role="inliers", network="two", detector="mds"))
    noise = run.scores(row(run, role="outliers", network="two", detector="mds"))
    lowered = run.scores(row(run, role="own_attacked", network="two", detector="mds", attack="lowered"))
    line = frame.loc[("two", "mds", "lowered")]
    assert line["before"] == pytest.approx(metrics.auroc(inliers, noise), abs=1e-12)
    assert line["auroc"] == pytest.approx(metrics.auroc(inliers, lowered), abs=1e-12)
    assert line["accepted_before"] == metrics.fpr_at_95_id_recall(inliers, noise)
    assert line["accepted"] == metrics.fpr_at_95_id_recall(inliers, lowered)
    assert line["before_by"] == ""
    adaptive = run.scores(row(run, role="own_attacked", network="two", detector="mds", attack="adaptive"))
    line = frame.loc[("two", "mds", "adaptive")]
    assert line["auroc"] == pytest.approx(metrics.auroc(inliers, adaptive), abs=1e-12)
    usual = run.scores(row(run, role="attacked", network="two", detector="mds", attack="pgd", made_on="two"))
    same = farout.rng.subset_indices(ATTACKED, 20)
    assert line["before"] == pytest.approx(metrics.auroc(inliers, usual[same]), abs=1e-12)
    assert line["accepted_before"] == metrics.fpr_at_95_id_recall(inliers, usual[same])
    assert line["accepted"] == metrics.fpr_at_95_id_recall(inliers, adaptive)
    assert line["before_by"] == "pgd"
    attacked = row(run, role="own_attacked", network="two", detector="mds", attack="adaptive")
    places = farout.rng.subset_indices(120, ATTACKED)[same]
    np.testing.assert_array_equal(run.labels(attacked), farout.load("toy", limit=120).labels[places])
    correct, success = (run.attribute(attacked, name) for name in ("clean_correct", "success"))
    accepted = adaptive <= np.sort(inliers)[113]  # the 114 lowest of 120 are 95 %
    assert line["evades"] == (success & accepted)[correct].mean()
    both = tables(run)["evasion"].set_index(["network", "detector", "attack", "made_on", "of"])
    line = both.loc[("two", "mds", "adaptive", "", "successful")]
    assert line["n_outliers"] == (correct & success).sum()
    assert line["auroc"] == pytest.approx(metrics.auroc(inliers, adaptive[correct & success]), abs=1e-12)


def test_before_is_an_attack_of_the_same_bound(tmp_path: Path) -> None:
    attacks = [{"name": "pgd", "steps": 2, "epsilon": 0.01, "label": "pgd"},
               {"name": "fgsm", "epsilon": 0.1, "label": "wide"},
               {"name": "adaptive_pgd", "steps": 2, "epsilon": 0.1, "label": "adaptive"}]  # fmt: skip
    found = tables(Results(farout.run(spec(tmp_path, attacks=attacks, attention=False), tmp_path / "run").path))
    assert set(found["evasion_adaptive"]["before_by"]) == {"wide"}


def test_rounded_images_are_shown_everywhere_and_said_to_be(tmp_path: Path) -> None:
    result = farout.run(
        spec(tmp_path, attacks=[{"name": "deepfool", "overshoot": 0.3, "label": "deepfool"}, *OWN], rounded=True),
        tmp_path / "run",
    )
    found = Results(result.path)
    summary = {table.name: table for table in summarize(found, "evasion").tables}
    for name in ("evasion", "evasion_attention", "evasion_adaptive", "evasion_transfer", "evasion_auroc"):
        assert "rounded to 8 bits" in summary[name].caption
    cell = row(found, role="attack", made_on="one").cell
    correct, rounded = (found.store.column(cell, name) for name in ("clean_correct", "success_8bit"))
    assert 0 < (correct & rounded).sum() < (correct & found.store.column(cell, "success")).sum()
    detection, attention = (summary[name].frame for name in ("evasion", "evasion_attention"))
    detection = detection[(detection.attack == "deepfool") & (detection.made_on == "") & (detection.network == "one")]
    attention = attention[attention.network == "one"]
    for frame, number in ((detection, "n_outliers"), (attention, "images")):
        assert set(frame[frame.of == "successful"][number]) == {(correct & rounded).sum()}


def test_the_first_table_is_not_called_as_that_of_another_protocol(run: Results) -> None:
    assert summarize(run, "evasion").tables[0].title == "AUROC by attack"


def test_levels(run: Results) -> None:
    frame = tables(run)["evasion_levels"]
    own, usual = tables(run)["evasion_adaptive"], tables(run)["evasion"]
    usual = usual[(usual.of == "all") & (usual.made_on == "")]
    assert frame.groupby(["network", "detector"]).size().to_dict() == {
        (network, detector): 5 for network in ("one", "two") for detector in ("msp", "mds")
    }
    assert set(frame["status"]) == {"tried"}  # few images, few steps
    for (network, detector), lines in frame.groupby(["network", "detector"]):
        mine = [one[(one.network == network) & (one.detector == detector)] for one in (own, usual)]
        assert lines.lowest_auroc.min() == min(table.auroc.min() for table in mine)
        by_level = lines.set_index("level")
        assert list(by_level["gradient"]) == ["", "", "", "own", "own"]
        assert by_level["steps"][4] == "4 of 100"
        assert by_level["images"][1] == "40 of 1,000"  # the study takes the first 120 of a set of 1,000


def small_set(folder: Path) -> str:
    """A set of 30 test images."""
    images = farout.load("toy", limit=30)
    pixels = (images.batch(range(30)).permute(0, 2, 3, 1).numpy() * 255).round().astype(np.uint8)
    np.savez(folder / "small.npz", images=pixels, labels=images.labels)
    return str(folder / "small.npz")


@pytest.mark.parametrize(
    ("changes", "first", "last"),
    [
        ({}, ("reached", "30 of 30", "40 of 40"), ("reached", "30 of 30", "100 of 100")),
        ({"images": 20}, ("tried", "20 of 30", "40 of 40"), ("tried", "20 of 30", "100 of 100")),
        (
            {"attacks": [{"name": "pgd", "steps": 2}, {"name": "adaptive_pgd", "steps": 3}]},
            ("tried", "30 of 30", "2 of 40"),
            ("tried", "30 of 30", "3 of 100"),
        ),
    ],
)
def test_a_level_needs_the_papers_effort(
    tmp_path: Path, changes: dict[str, Any], first: tuple[str, ...], last: tuple[str, ...]
) -> None:
    protocol = {"attacks": ["pgd", "adaptive_pgd"], "images": None, "adaptive_images": None, **changes}
    study = spec(tmp_path, **protocol, attention=False)
    inliers = {"test": small_set(tmp_path)}
    study = StudySpec.model_validate(
        {
            **study.model_dump(),
            "budget": "full",
            "inliers": inliers,
            "networks": study.networks[:1],
            "detectors": ["msp"],
        }
    )
    frame = tables(Results(farout.run(study, tmp_path / "run").path))["evasion_levels"].set_index("level")
    assert list(frame.index) == [1, 2, 3, 4]
    assert tuple(frame.loc[1, ["status", "images", "steps"]]) == first
    assert frame["status"][2] == "not tried"  # one network
    for level in (3, 4):
        assert tuple(frame.loc[level, ["status", "images", "steps"]]) == last
    assert "BPDA" in frame["asks"][3]
    assert frame["gradient"][3] == "own"


@pytest.mark.parametrize(
    ("attack", "networks", "level"), [("pgd", ["one", "two"], 2), ("pgd", ["one"], 1), ("fgsm", ["one", "two"], 0)]
)
def test_levels_without_adaptive_attacks(tmp_path: Path, attack: str, networks: list[str], level: int) -> None:
    study = spec(tmp_path, attacks=[{"name": attack, "epsilon": 0.1, "label": "it"}], attention=False, images=20)
    study = study.model_copy(update={"networks": [n for n in study.networks if n.label in networks]})
    found = tables(Results(farout.run(study, tmp_path / "run").path))
    levels = found["evasion_levels"]
    assert levels[levels["status"] != "not tried"]["level"].max() == level
    assert set(levels["level"]) == ({0, 1, 2, 3, 4} if level == 0 else {1, 2, 3, 4})
    assert ("made_on" in found["evasion"]) == (len(networks) == 2)
    assert "evasion_adaptive" not in found
    assert "evasion_attention" not in found


def test_a_budget_cuts_what_is_asked_for_and_says_so(tmp_path: Path) -> None:
    study = from_spec(spec(tmp_path, images=5_000))
    protocol = PROTOCOLS.create("evasion", images=5_000, adaptive_images=33)
    assert protocol.cuts(study) == [
        "4,872 of 5,000 images that evasion attacks",
        "1 of 33 images that evasion attacks",
        "80 of 100 steps of adaptive_pgd",
        "80 of 100 steps of score_pgd",
    ]
    (attack,) = {e.cell.images.about.total for e in plan(study) if e.tags["role"] == "attack"}  # type: ignore[attr-defined]
    assert attack == 120


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attacks": []}, "one or more of"),
        ({"attacks": ["pgt"]}, "Did you mean 'pgd'"),
        ({"attacks": ["pgd", "pgd"]}, "two attacks are called 'pgd'"),
        ({"attacks": [{"name": "pgd", "steps": 0}]}, "steps"),
        ({"images": 0}, "images must be a positive integer"),
        ({"detectors": ["knn"]}, "unknown detector"),
        ({"attacks": [{"name": "pgd", "label": 8}]}, "attacks: a label must be a string that is not empty, got 8"),
    ],
)
def test_wrong_settings(tmp_path: Path, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(from_spec(spec(tmp_path, **settings)))


def stressed(tmp_path: Path, detector: Any, labels: Any, **more: Any) -> Any:
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), 16, 16, 3), dtype=np.uint8)
    images = farout.ImageSet.from_arrays(pixels, np.asarray(labels))
    return farout.stress(detector, images, protocols="evasion", out=tmp_path / "run", **more)


def test_a_network_without_blocks_is_attacked_and_its_attention_left_out(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 4))
    network = farout.Network(module, mean=0.5, std=0.5, side=16)
    result = stressed(tmp_path, farout.Panel(network, ["msp"]), [0, 1, 2, 3] * 3)
    assert not result.outcome.failed
    assert "attention maps of network, which names no blocks or is an ensemble" in Results(result.path).cuts
    assert "evasion_attention" not in tables(Results(result.path))


def test_images_that_were_all_wrong_before(tmp_path: Path) -> None:
    """Nothing can be said of images classified right, and everything else can."""
    network = farout.networks.create("lenet", 4, 16)
    with torch.no_grad():
        network.module.linear.bias.copy_(torch.tensor([99.0, 0, 0, 0]))  # type: ignore[union-attr, operator]
    found = tables(Results(stressed(tmp_path, farout.Panel(network, ["msp"]), [1, 2, 3, 1]).path))
    line = found["evasion_success"].set_index("attack").loc["fgsm"]
    assert (line["accuracy"], line["asr"]) == (0, 1)
    assert np.isnan(line[["asr_of_correct", "asr_of_correct_low", "asr_8bit", "l2"]].astype(float)).all()
    assert set(found["evasion"]["of"]) == {"all"}


def test_labels_beyond_the_networks_classes_are_refused_before_the_work(tmp_path: Path) -> None:
    panel = farout.Panel(farout.networks.create("lenet", 4, 16), ["msp"])
    with pytest.raises(ValueError, match="labels of arrays run from 0 to 4, and network has 4 classes"):
        stressed(tmp_path, panel, [0, 1, 4])


def test_what_cannot_be_attacked_is_said(tmp_path: Path) -> None:
    """A function reads no classifier that is known: only attacks on its score are left."""
    result = stressed(tmp_path, lambda images: images.mean((1, 2, 3)), [0, 1, 2, 3])
    assert not result.outcome.failed
    left_out = "pgd, fgsm, deepfool, masked_pgd, adaptive_pgd: no detector reads a classifier that is known"
    assert left_out in Results(result.path).cuts
    study = from_spec(spec(tmp_path, attacks=["fgsm"], attention=False))
    study.trials[0].subjects[:] = [ImageSubject("brightness", Brightness(), None)]
    with pytest.raises(ValueError, match="nothing that fgsm could attack"):
        plan(study)


class Brightness(farout.Detector):
    name = "brightness"

    def score(self, images: Any) -> Any:
        return images.mean((1, 2, 3))


def test_a_detector_without_a_network_is_told_by_network_attacked(tmp_path: Path) -> None:
    """Two networks are attacked: its lines, columns and level must keep the two apart."""
    study = from_spec(spec(tmp_path, attacks=["fgsm"], attention=False, images=20))
    for trial in study.trials:
        trial.subjects.append(ImageSubject("brightness", Brightness(), None))
    result = farout.run(study, tmp_path / "run")
    assert not result.outcome.failed
    results = Results(tmp_path / "run")
    found = tables(results)
    inliers = results.scores(row(results, role="inliers", detector="brightness"))
    glance = found["evasion_auroc"].set_index("detector").loc["brightness"]
    lines = found["evasion"]
    lines = lines[(lines.detector == "brightness") & (lines.of == "all")].set_index("made_on")
    assert sorted(lines.index) == ["one", "two"]
    for made_on in ("one", "two"):
        outliers = results.scores(row(results, role="attacked", detector="brightness", made_on=made_on))
        expected = pytest.approx(metrics.auroc(inliers, outliers), abs=1e-12)
        assert lines.loc[made_on]["auroc"] == expected
        assert glance[f"fgsm {made_on}"] == expected
    levels = found["evasion_levels"]
    tried = levels[(levels["detector"] == "brightness") & (levels["status"] != "not tried")]
    assert list(tried["level"]) == [0]


def test_images_without_labels_are_refused(tmp_path: Path) -> None:
    study = spec(tmp_path)
    with pytest.raises(ValueError, match="need labels"):
        plan(
            from_spec(
                study.model_copy(update={"inliers": study.inliers.model_copy(update={"test": study.outliers[0]})})
            )
        )


def test_every_attack_has_a_label_of_its_own() -> None:
    assert ATTACKS.create("pgd").label == "pgd"
    assert ATTACKS.create("pgd", steps=3).label == "pgd(steps=3)"
