"""Generated sets in studies: exact numbers of images inside the interval, the same bytes for any number of workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.generators.mi_interval import MIInterval, select_interval
from farout.metrics import mutual_information
from farout.rng import seed_of
from farout.study.cells.cell import closure
from farout.study.cells.generate import IMAGES, SampleCell, TranslateCell
from farout.study.cells.near_ood import VALUES, InformationCell, NearCell, TooFewKept, keep_inside
from farout.study.cells.train_generator import TrainGeneratorCell
from farout.study.engines.run import run
from farout.study.generated import select_lambdas
from farout.study.sources.generated import GeneratedImages
from farout.study.sources.images import ShiftedImages, SubsetImages
from farout.study.sources.pending import NotComputed
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import Study, from_spec
from helpers.generated_sets import COUNT, GAN, MEMBERS, NEAR, PLAIN, SHIFTED, study


class Run:
    """A finished run of all three sets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, study(folder, NEAR, SHIFTED, PLAIN)
        farout.run(self.file, folder / "run")
        self.store = Store(folder / "run")
        self.study: Study = from_spec(StudySpec.read(self.file))

    def source(self, name: str) -> GeneratedImages:
        source = self.study.trials[0].outliers[name]
        assert isinstance(source, GeneratedImages)
        return source


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("generated"))


def test_near_ood_has_exactly_as_many_images_as_asked_for_inside_the_interval(ran: Run) -> None:
    source = ran.source("near_ood")
    cell, images = source.cell, source.open(ran.store)
    assert isinstance(cell, NearCell)
    facts = ran.store.facts(cell.id)
    assert len(images) == facts["images"] == COUNT
    mi = images.attributes["mi"]
    assert ((mi >= facts["low"]) & (mi <= facts["high"])).all()
    members = cell.pool.ensemble.build(ran.store).members  # type: ignore[attr-defined]
    with torch.no_grad():
        each = torch.stack([member(images.batch(np.arange(COUNT))).logits.double().softmax(1) for member in members])
    np.testing.assert_allclose(mi, mutual_information(each.numpy()), atol=1e-6)
    assert facts["inside"] >= COUNT
    assert facts["share_kept"] == facts["inside"] / facts["candidates"]
    assert images.attributes["lambda_s"][:6].tolist() == [1, 2, 1, 2, 1, 2], "every generator in turn"
    trained = ran.store.facts(cell.generators[0].requires[0].id)
    assert len(trained["fid"]) == 2, "the FID of its samples after every epoch"
    assert trained["fid"][0] > 0


def test_interval_is_the_rules_own(ran: Run) -> None:
    cell = ran.source("near_ood").cell
    assert isinstance(cell, NearCell)
    assert isinstance(cell.interval, InformationCell)
    values = ran.store.arrays(cell.interval.id, VALUES)
    assert len(values["validation"]) == len(values["generated"]) == 70
    assert cell.bounds(ran.store) == select_interval(values["validation"], values["generated"])


def test_samples_are_those_of_the_trained_generators(ran: Run) -> None:
    source = ran.source("generated")
    cell, images = source.cell, source.open(ran.store)
    assert isinstance(cell, SampleCell)
    generator = cell.generator.build(ran.store)
    first = generator.sample(64, seed_of(0, "sample", 0))
    torch.testing.assert_close(images.batch(np.arange(64)), first.mul(255).round().div(255))
    assert len(images) == 70
    assert images.labels is None
    losses = ran.store.facts(cell.generators[0].requires[0].id)
    assert len(losses["loss_generator"]) == len(losses["loss_discriminator"]) == 2, "one per epoch"


def test_shifted_images_keep_labels_and_places(ran: Run) -> None:
    source = ran.source("shifted")
    cell, images, test = source.cell, source.open(ran.store), farout.load(ran.folder / "blobs.npz", "test")
    assert isinstance(cell, TranslateCell)
    assert test.labels is not None
    np.testing.assert_array_equal(images.labels, test.labels)
    expected = cell.generator.build(ran.store).translate(test.batch(np.arange(70)), 0)
    torch.testing.assert_close(images.batch(np.arange(70)), expected.mul(255).round().div(255))


def test_fewer_shifted_images_than_test_images_are_of_all_classes(tmp_path: Path) -> None:
    """Of a test set that is sorted by class, the first images would be of one class."""
    file = study(tmp_path, {**SHIFTED, "count": 30})
    arrays = dict(np.load(tmp_path / "blobs.npz"))
    order = np.argsort(arrays["test_labels"], kind="stable")
    arrays |= {name: arrays[name][order] for name in ("test_images", "test_labels")}
    np.savez(tmp_path / "blobs.npz", **arrays)
    base = from_spec(StudySpec.read(file)).trials[0].outliers["shifted"].cell.base.preview()  # type: ignore[attr-defined]
    assert len(base) == 30
    assert np.bincount(base.labels).min() > 5
    assert (np.diff(base.index) > 0).all(), "in their order"


def test_networks_are_trained_once_for_all_that_need_them(ran: Run) -> None:
    cells = closure([source.cell for source in map(ran.source, ("near_ood", "shifted"))])
    labels = [cell.label for cell in cells if cell.title.startswith("train ")]  # type: ignore[attr-defined]
    assert labels.count("lenet") == 2
    assert sum(isinstance(cell, TrainGeneratorCell) for cell in cells) == 3


def test_sets_stack_like_any_other(ran: Run) -> None:
    stacked = ShiftedImages(SubsetImages(ran.source("near_ood"), 10), farout.shift("fog", severity=2), 0)
    assert stacked.about.total == 10
    assert stacked.about.shape == (1, 16, 16)
    with pytest.raises(NotComputed, match="near_ood: the run has not computed these images yet"):
        stacked.preview().batch([0])
    images = stacked.open(ran.store)
    whole = ran.source("near_ood").open(ran.store)
    assert images.batch([0]).shape == (1, 1, 16, 16)
    np.testing.assert_array_equal(images.attributes["mi"], whole.attributes["mi"][images.index])


def test_image_does_not_depend_on_the_number_of_images(ran: Run) -> None:
    cell = ran.source("near_ood").cell
    assert isinstance(cell, NearCell)
    fewer = GeneratedImages(replace(cell, count=70))
    assert not run([fewer.cell], ran.store).failed
    mine, whole = fewer.open(ran.store), ran.source("near_ood").open(ran.store)
    assert torch.equal(mine.batch(np.arange(70)), whole.batch(np.arange(70)))


def contents(folder: Path) -> dict[str, bytes]:
    """All results of a run but the records, which hold times."""
    files = [path for path in folder.glob("cells/*/*") if path.name != "record.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


PLUGIN = "from farout.training import loop\nloop.CHECKPOINT_SECONDS = 0.1\n"


def command(ran: Run, out: str, workers: int) -> subprocess.Popen[bytes]:
    (ran.folder / "often.py").write_text(PLUGIN)
    options = ["--out", ran.folder / out, "--workers", workers, "--plugin", ran.folder / "often.py", "--quiet"]
    arguments = [sys.executable, "-m", "farout", "run", ran.file, *options]
    return subprocess.Popen(list(map(str, arguments)), env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_two_workers_and_a_kill_give_the_same_bytes(ran: Run) -> None:
    process, out = command(ran, "killed", workers=2), ran.folder / "killed"
    while process.poll() is None and not any(_training_generators(out)):
        time.sleep(0.01)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    time.sleep(1)  # workers end when their parent has
    assert not list(out.glob(f"cells/*/{IMAGES}")), "no set is finished"
    assert command(ran, "killed", workers=2).wait(300) == 0
    mine, expected = contents(out), contents(ran.folder / "run")
    assert {name: mine[name] == expected[name] for name in mine} == dict.fromkeys(mine, True)
    assert any(name.endswith(IMAGES) for name in mine)


def _training_generators(out: Path) -> list[Path]:
    """Finished networks show that the generators are next."""
    return list(out.glob("cells/*/weights.safetensors"))[1:]


# The filter


class Pool:
    """Stand-in for a pool: every round gives these values of mutual information."""

    def __init__(self, *values: float) -> None:
        self.values = np.array(values)

    def candidates(self, least: int, seed: int) -> dict[str, Any]:
        return {"images": np.arange(len(self.values)), "mi": self.values}


def test_filter_keeps_the_first_candidates_inside_the_interval() -> None:
    kept = keep_inside(Pool(0.05, 0.1, 0.5, 0.6, 0.3), MIInterval(0.1, 0.5), 0)  # type: ignore[arg-type]
    assert kept["images"].tolist() == ([1, 2, 4] * 22)[:64]
    assert kept["tally:candidates"] == 22 * 5
    assert kept["tally:inside"] == 22 * 3


def test_too_few_inside_the_interval_is_an_error_with_the_share() -> None:
    with pytest.raises(TooFewKept, match=r"0 of 300 samples \(0.00%\) have mutual information in \[0.1, 0.29\]"):
        keep_inside(Pool(0.05, 0.3, 0.5), MIInterval(0.1, 0.29), 0)  # type: ignore[arg-type]


def test_failed_filter_is_a_failed_result_and_the_others_are_computed(tmp_path: Path) -> None:
    result = farout.run(study(tmp_path, {**NEAR, "interval": [0.693, 0.6931]}, PLAIN), tmp_path / "run")
    expected = "0 of 12,800 samples (0.00%) have mutual information in [0.693, 0.6931], expected at least 64"
    assert any(expected in reason for reason in result.outcome.failed.values()), result.outcome.failed
    assert result.table("clean_auroc")["generated"].notna().all()


# Specs


@pytest.mark.parametrize(
    ("most", "expected"), [(None, (1, 2, 3, 4, 5)), (5, (1, 2, 3, 4, 5)), (3, (2, 3, 4)), (1, (3,))]
)
def test_budgets_spread_their_lambdas(most: int | None, expected: tuple[float, ...]) -> None:
    assert select_lambdas([1, 2, 3, 4, 5], most) == expected


def test_budget_says_what_it_leaves_out(tmp_path: Path) -> None:
    long = {**NEAR, "generator": {**GAN, "train": {"epochs": 30, "batch": 32}}, "lambda_s": [1, 1.5, 2, 2.5, 3]}
    cuts = from_spec(StudySpec.read(study(tmp_path, long, budget="quick"))).cuts
    assert "3 of 5 generators of near_ood: λs = 1.5, 2.5" in cuts
    assert "20 of 30 epochs of the generators of near_ood" in cuts


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "generator": ({**NEAR, "generator": "dcgn"}, "unknown generator 'dcgn'. Did you mean 'dcgan'?"),
    "parameter": ({**NEAR, "generator": {**GAN, "widht": 4}}, "Did you mean 'width'?"),
    "recipe": ({**NEAR, "generator": {**GAN, "train": {"epoch": 3}}}, "Did you mean 'epochs'?"),
    "interval": ({**NEAR, "interval": "mnits"}, "unknown interval 'mnits'. Did you mean 'mnist'?"),
    "one network": ({**NEAR, "ensemble": MEMBERS[0]}, "mutual information needs an ensemble of two or more networks"),
    "negative": ({**NEAR, "lambda_s": [-1]}, "greater than 0"),
    "twice": ({**NEAR, "lambda_s": [1, 1]}, "every lambda_s must be listed once"),
    "key": ({**NEAR, "lambdas": [1]}, "Did you mean 'lambda_s'?"),
    "translates": ({**NEAR, "generator": "pix2pix"}, "the generator pix2pix changes images; this set needs one that"),
    "samples": ({**SHIFTED, "generator": GAN}, "the generator dcgan samples new images; this set needs one that"),
    "file": ({**PLAIN, "generator": "gone.safetensors"}, "no generator at"),
}


@pytest.mark.parametrize(("outliers", "expected"), WRONG.values(), ids=WRONG)
def test_errors_before_the_long_work(tmp_path: Path, outliers: dict[str, Any], expected: str) -> None:
    with pytest.raises((ValueError, OSError)) as error:
        from_spec(StudySpec.read(study(tmp_path, outliers)))
    assert expected in str(error.value)


def test_training_images_are_needed(tmp_path: Path) -> None:
    file = study(tmp_path, PLAIN, inliers={"test": "blobs.npz"}, networks=[], detectors=["nothing"])
    with pytest.raises(ValueError, match="a generator is to be trained, but there are no training images"):
        from_spec(StudySpec.read(file))


def test_generator_of_a_file(tmp_path: Path, ran: Run) -> None:
    cell = ran.source("generated").cell
    assert isinstance(cell, SampleCell)
    cell.generator.build(ran.store).save(tmp_path / "gan.safetensors")
    file = study(tmp_path, {"name": "generated", "generator": "gan.safetensors", "count": 70})
    (source,) = from_spec(StudySpec.read(file)).trials[0].outliers.values()
    assert isinstance(source, GeneratedImages)
    assert not any(isinstance(required, TrainGeneratorCell) for required in closure([source.cell]))
    store = Store(tmp_path / "store").open()
    assert not run([source.cell], store).failed
    assert torch.equal(
        source.open(store).batch(np.arange(70)), ran.source("generated").open(ran.store).batch(np.arange(70))
    )


def test_truncation_changes_samples_and_not_the_training(tmp_path: Path) -> None:
    style = {"name": "stylegan2", "width": 4, "style": 4, "dim": 4, "train": {"steps": 2, "batch": 32}}
    settings: dict[str, dict[str, Any]] = {"whole": {}, "same": {"truncation": 1.0}, "half": {"truncation": 0.5}}
    sets = [
        {"name": "generated", "label": label, "generator": {**style, **own}, "count": 8}
        for label, own in settings.items()
    ]
    outliers = from_spec(StudySpec.read(study(tmp_path, *sets))).trials[0].outliers
    cells: dict[str, Any] = {label: outliers[label].cell for label in settings}  # type: ignore[attr-defined]
    assert len({cell.generator.cell.id for cell in cells.values()}) == 1, "one training"
    assert cells["whole"].id == cells["same"].id != cells["half"].id
    assert cells["half"].generator.cell.untrained().truncation == 1, "FIDs of the training are those of whole samples"
    store = Store(tmp_path / "store").open()
    assert not run(list(cells.values()), store).failed
    built = cells["half"].generator.build(store)
    assert built.truncation == 0.5
    expected = built.sample(8, seed_of(0, "sample", 0)).mul(255).round().div(255)
    torch.testing.assert_close(outliers["half"].open(store).batch(np.arange(8)), expected)
    assert not torch.equal(outliers["whole"].open(store).batch(np.arange(8)), expected)


def test_conditional_generator_gets_the_classes_of_its_images(tmp_path: Path) -> None:
    biggan = {"name": "biggan", "width": 2, "train": {"epochs": 1, "batch": 16}}
    file = study(tmp_path, {"name": "generated", "generator": biggan, "count": 70})
    (source,) = from_spec(StudySpec.read(file)).trials[0].outliers.values()
    assert isinstance(source, GeneratedImages)
    store = Store(tmp_path / "store").open()
    assert not run([source.cell], store).failed
    assert isinstance(source.cell, SampleCell)
    generator, images = source.cell.generator.build(store), source.open(store)
    labels = generator.labels(64, seed_of(0, "sample", 0))
    assert labels is not None
    assert images.attributes["class_label"][:64].tolist() == labels.tolist()
    assert set(images.attributes["class_label"]) == {0, 1}


def test_detectors_learn_from_a_generated_set(tmp_path: Path) -> None:
    file = study(tmp_path, PLAIN, validation_outliers={**PLAIN, "seed": 7}, detectors=["mds_layers"])
    result = farout.run(file, tmp_path / "run")
    assert not result.outcome.failed
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert "generated" in str(plan["notes"])
