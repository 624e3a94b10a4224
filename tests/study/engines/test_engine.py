"""The engine: what is computed, what is reused, what happens when something breaks."""

import json
import pickle
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import farout
from farout.core import Detector, ImageSet
from farout.detectors.catalog import catalog
from farout.networks import create, save_weights
from farout.protocols import plan
from farout.study.cells.cell import Chunk
from farout.study.cells.fit import FitWork
from farout.study.cells.score import ScoreCell, ScoreWork
from farout.study.engines import run as engine
from farout.study.engines import scheduler
from farout.study.results import Results
from farout.study.sources.images import LiveImages, SubsetImages
from farout.study.sources.networks import forget_loaded
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec
from helpers.counting import Counting


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "lenet.safetensors"
    save_weights(create("lenet", 4, 32, seed=3), path)
    return path


def spec(weights, detectors=("msp", "knn", "mds"), **changes) -> StudySpec:
    return StudySpec.model_validate(
        {
            "name": "small",
            "inliers": {split: {"name": "toy", "split": split, "limit": 150} for split in ("train", "val", "test")},
            "outliers": [{"name": "toy", "split": "test/ood_cls", "limit": 100}, {"name": "noise", "limit": 70}],
            "networks": [{"name": "lenet", "weights": str(weights), "mean": [0.5], "std": [0.25]}],
            "detectors": list(detectors),
            **changes,
        }
    )


def scores(root) -> dict[tuple[str, str], np.ndarray]:
    results = Results(root)
    return {(row.tags["detector"], row.tags["outliers"]): results.scores(row) for row in results.done("clean")}


@pytest.fixture
def forwards(monkeypatch):
    """Counts the images that pass through any network."""
    seen = []
    original = farout.Network.forward
    monkeypatch.setattr(
        farout.Network, "forward", lambda self, x, **kw: (seen.append(len(x)), original(self, x, **kw))[1]
    )
    return seen


def test_scores_are_those_of_a_panel(weights, tmp_path):
    farout.run(spec(weights), tmp_path)
    found = scores(tmp_path)
    network = create("lenet", 4, 32, mean=0.5, std=0.25)
    farout.networks.load_weights(network, weights)
    load = {split: farout.load("toy", split, limit=150) for split in ("train", "val", "test")}
    panel = farout.Panel(network, ["msp", "knn", "mds"]).fit(load["train"], load["val"])
    sets = {
        "": load["test"],
        "toy:ood_cls": farout.load("toy", "test/ood_cls", limit=100),
        "noise": farout.load("noise", limit=70),
    }
    for outliers, images in sets.items():
        for detector, expected in panel.score(images).items():
            assert np.array_equal(found[detector, outliers], expected)


def test_every_image_passes_the_network_once_per_role(weights, tmp_path, forwards):
    farout.run(spec(weights), tmp_path)
    assert sum(forwards) == 150 + 150 + 150 + 100 + 70


def test_the_same_run_again_computes_nothing(weights, tmp_path, forwards):
    first = farout.run(spec(weights), tmp_path).outcome
    before = sum(forwards)
    again = farout.run(spec(weights), tmp_path).outcome
    assert (len(first.done), first.reused) == (13, 0)
    assert (again.done, again.reused) == ([], 13)
    assert sum(forwards) == before


def test_a_new_detector_costs_its_own_cells_only(weights, tmp_path):
    farout.run(spec(weights, ["msp", "knn"]), tmp_path)
    outcome = farout.run(spec(weights, ["msp", "knn", {"name": "knn", "k": 3}]), tmp_path).outcome
    assert len(outcome.done) == 4  # one fit, three sets
    assert outcome.reused == 9  # two fits, three sets by each, and the network's classes


def test_what_a_thing_is_called_is_no_part_of_its_identity(weights, tmp_path):
    farout.run(spec(weights, ["msp"]), tmp_path)
    outcome = farout.run(spec(weights, [{"name": "msp", "label": "confidence"}], name="other"), tmp_path).outcome
    assert (outcome.done, outcome.reused) == ([], 5)


@pytest.mark.parametrize("change", ["weights", "data", "parameter", "normalizer"])
def test_what_changes_scores_changes_the_identity(weights, tmp_path, change):
    other = tmp_path / "other.safetensors"
    save_weights(create("lenet", 4, 32, seed=4), other)
    base = {"detectors": ["ebo"], "weights": weights}
    changed = {
        "weights": {**base, "weights": other},
        "data": {**base, "outliers": [{"name": "toy", "split": "test/ood_cls", "limit": 99}], "inliers": "toy"},
        "parameter": {**base, "detectors": [{"name": "ebo", "temperature": 2.0}]},
        "normalizer": {**base, "networks": [{"name": "lenet", "weights": str(weights), "mean": [0.4], "std": [0.25]}]},
    }[change]
    plans = (plan(from_spec(spec(**kind))) for kind in (base, changed))
    before, after = ({entry.cell.id for entry in entries if isinstance(entry.cell, ScoreCell)} for entries in plans)
    assert before.isdisjoint(after)


def test_chunks_do_not_depend_on_who_computes_them(weights):
    (work,) = [
        w
        for w in engine.group_works([e.cell for e in plan(from_spec(spec(weights, ["msp"])))])
        if w.roles["test"] == 150
    ]
    assert isinstance(work, ScoreWork)
    assert work.chunks == [Chunk("test", 0, 64), Chunk("test", 64, 128), Chunk("test", 128, 150)]


def test_workers_give_the_same_bytes(weights, tmp_path):
    farout.run(spec(weights), tmp_path / "here")
    farout.run(spec(weights), tmp_path / "workers", workers=2)
    here, workers = (sorted((tmp_path / name).glob("cells/*/*.parquet")) for name in ("here", "workers"))
    assert [p.parent.name for p in here] == [p.parent.name for p in workers]
    assert [p.read_bytes() for p in here] == [p.read_bytes() for p in workers]


class Broken(Detector):
    """Breaks in the way it is told."""

    def __init__(self, how: str) -> None:
        self.how = how

    def score(self, images: torch.Tensor) -> torch.Tensor:
        answers = images.mean((1, 2, 3))
        match self.how:
            case "nan":
                answers[::10] = torch.nan
            case "infinite":
                answers[0] = torch.inf
            case "short":
                answers = answers[:-1]
            case "raises":
                raise ZeroDivisionError("no such thing")
        return answers


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("nan", r"Broken gave 7 NaN and 0 infinite scores among 64 on dark"),
        ("infinite", r"Broken gave 0 NaN and 1 infinite scores among 64 on dark"),
        ("short", r"Broken \(Broken.score in .*, line \d+\) returned scores of shape \(63,\) for 64 images, expected"),
        ("raises", "ZeroDivisionError: no such thing"),
    ],
)
def test_a_broken_detector_fails_with_its_name_its_images_and_the_count(tmp_path, how, why):
    dark = ImageSet.from_arrays(np.zeros((64, 8, 8, 3), np.uint8), name="dark")
    light = ImageSet.from_arrays(np.full((64, 8, 8, 3), 255, np.uint8), name="light")
    result = farout.stress(Broken(how), dark, light, protocols="clean", out=tmp_path)
    assert len(result.outcome.failed) == 2
    failures = [one.traceback for one in Results(tmp_path).failures().values()]
    assert any(__import__("re").search(why, trace) for trace in failures)


def test_one_failing_detector_leaves_the_others_be_and_is_tried_again(weights, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(farout.detectors.KNN, "score", lambda self, a: a.features.sum(1) * torch.nan)
        outcome = farout.run(spec(weights), tmp_path).outcome
    assert len(outcome.failed) == 4  # the fit, whose validation scores are not finite, and three sets
    assert {why for why in outcome.failed.values() if "knn gave 150 NaN" in why}
    assert {detector for detector, _ in scores(tmp_path)} == {"msp", "mds"}
    again = farout.run(spec(weights), tmp_path).outcome
    assert (len(again.done), len(again.failed), again.reused) == (4, 0, 9)


def test_an_interrupted_run_goes_on_from_its_chunks(weights, tmp_path, forwards, monkeypatch):
    monkeypatch.setattr(scheduler, "FLUSH_SECONDS", 0.0)
    farout.run(spec(weights), tmp_path / "whole")
    whole = sum(forwards)
    count = 0
    original = scheduler._Active.take

    def take(self, number, results):
        nonlocal count
        original(self, number, results)
        count += 1
        if count in (2, 6, 9):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(scheduler._Active, "take", take)
    forwards.clear()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            farout.run(spec(weights), tmp_path / "parts")
    farout.run(spec(weights), tmp_path / "parts")
    assert sum(forwards) == whole  # nothing was computed twice
    a, b = scores(tmp_path / "whole"), scores(tmp_path / "parts")
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[key], b[key]) for key in a)
    assert list((tmp_path / "parts" / "partial").iterdir()) == []


def test_a_failing_sweep_keeps_its_chunks(weights, tmp_path, monkeypatch):
    original = ScoreWork.prepare

    def prepare(self, store, device):
        job = original(self, store, device)
        run = job.run

        def breaks(chunk, progress):
            if chunk.start >= 64:
                raise OSError("the disk is gone")
            return run(chunk, progress)

        job.run = breaks
        return job

    with monkeypatch.context() as patch:
        patch.setattr(ScoreWork, "prepare", prepare)
        outcome = farout.run(spec(weights, ["msp"]), tmp_path).outcome
    assert len(outcome.failed) == 4  # three sets, and the network's classes of one of them
    assert all("OSError: the disk is gone" in why for why in outcome.failed.values())
    assert sum(why.startswith("msp on lenet: ") for why in outcome.failed.values()) == 3
    assert len(list((tmp_path / "partial").iterdir())) == 3
    assert not farout.run(spec(weights, ["msp"]), tmp_path).outcome.failed


def test_what_requires_a_failed_cell_fails_with_its_reason(weights, tmp_path, monkeypatch):
    def prepare(self, store, device):
        raise MemoryError("too large")

    monkeypatch.setattr(FitWork, "prepare", prepare)
    outcome = farout.run(spec(weights, ["msp"]), tmp_path).outcome
    assert len(outcome.failed) == 4
    reasons = sorted(outcome.failed.values())
    assert reasons[0].startswith("msp on lenet: MemoryError: too large")
    assert all(why.startswith("msp on lenet: fit on lenet failed: MemoryError: too large") for why in reasons[1:])


def test_a_record_says_where_it_comes_from(weights, tmp_path):
    farout.run(spec(weights, ["msp"]), tmp_path)
    facts = [json.loads(path.read_text()) for path in tmp_path.glob("cells/*/record.json")]
    kinds = sorted(f["identity"]["kind"] for f in facts)
    assert kinds == ["fit", "predictions", "scores", "scores", "scores"]
    assert all(str(weights) not in json.dumps(f) and str(tmp_path) not in json.dumps(f) for f in facts)


def test_a_trained_network_is_trained_once(tmp_path):
    study = spec(None, ["msp"], networks=[{"name": "lenet", "train": {"epochs": 2, "lr": 0.02}}])
    first = farout.run(study, tmp_path).outcome
    assert len(first.done) == 6
    assert (
        farout.run(
            study.model_copy(
                update={
                    "detectors": spec(
                        None, ["ebo"], networks=[{"name": "lenet", "train": {"epochs": 2, "lr": 0.02}}]
                    ).detectors
                }
            ),
            tmp_path,
        ).outcome.reused
        == 2  # the network, and its classes of the test images
    )
    two = farout.run(study.model_copy(update={"seeds": [0, 1]}), tmp_path).outcome
    assert (two.reused, len(two.done)) == (6, 6)


def test_the_listener_hears_of_every_image(weights, tmp_path):
    listener = Counting()
    farout.run(spec(weights), tmp_path, progress=listener)
    assert listener.announced == listener.swept == 150 * 3 + 100 + 70


def test_store_is_opened_before_any_work(weights, tmp_path, forwards):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write results"):
        farout.run(spec(weights), tmp_path / "file" / "run")
    assert not forwards


def test_closure_orders_requirements_first(weights):
    cells = engine.closure([entry.cell for entry in plan(from_spec(spec(weights)))])
    places = {cell.id: place for place, cell in enumerate(cells)}
    assert len(places) == len(cells)
    assert all(places[need.id] < places[cell.id] for cell in cells for need in cell.requires)


def test_files_that_changed_since_are_read_again(weights, tmp_path):
    def images(value: int) -> None:
        np.savez(tmp_path / "gray.npz", images=np.full((20, 32, 32, 3), value, np.uint8))

    study = spec(weights, ["mls"], outliers=[str(tmp_path / "gray.npz")])
    images(10)
    farout.run(study, tmp_path / "run")
    before = scores(tmp_path / "run")["mls", "gray"]
    images(200)
    farout.run(study, tmp_path / "run")
    assert not np.array_equal(scores(tmp_path / "run")["mls", "gray"], before)


def test_training_and_test_images_must_differ(weights):
    same = {split: {"name": "toy", "split": "test", "limit": 100} for split in ("train", "val", "test")}
    with pytest.raises(ValueError, match="train and test splits are the same images"):
        from_spec(spec(weights, inliers=same))


def test_a_device_that_is_not_there_is_refused_before_the_work(weights, tmp_path):
    with pytest.raises(ValueError, match="cannot run on device 'cuda:99'"):
        farout.run(spec(weights), tmp_path / "run", device="cuda:99")
    assert not (tmp_path / "run").exists()


def test_the_reason_of_a_failed_fit_is_the_error_not_its_note(weights, tmp_path, monkeypatch):
    def fit(self, activations, labels):
        raise ValueError("cannot be done")

    monkeypatch.setattr(farout.detectors.KNN, "fit", fit)
    failed = farout.run(spec(weights, ["knn"]), tmp_path).outcome.failed
    assert any(why.startswith("knn on lenet: ValueError: cannot be done") for why in failed.values())


def test_killed_while_records_are_written_computes_nothing_again(weights, tmp_path, forwards, monkeypatch):
    monkeypatch.setattr(scheduler, "FLUSH_SECONDS", 0.0)
    original, written = Store.write, []

    def write(self, cell, facts, files, **how):
        if len(written) == 5:  # all three fits, and two of the three records of the first set
            signal.raise_signal(signal.SIGINT)
        written.append(cell)
        original(self, cell, facts, files, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", write)
        with pytest.raises(KeyboardInterrupt):
            farout.run(spec(weights), tmp_path)
    farout.run(spec(weights), tmp_path)
    assert sum(forwards) == 150 * 3 + 100 + 70
    assert list((tmp_path / "partial").iterdir()) == []


def test_a_kept_chunk_with_an_error_is_computed_again(weights, tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "FLUSH_SECONDS", 0.0)
    original = scheduler._Active.take

    def interrupted(self, name, results):
        original(self, name, results)
        if name == "test-0-64":
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(farout.detectors.MLS, "score", lambda self, a: 1 / 0)
        patch.setattr(farout.Panel, "validate", lambda self, table, name, own: None)
        patch.setattr(scheduler._Active, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            farout.run(spec(weights, ["mls"]), tmp_path)
    assert not farout.run(spec(weights, ["mls"]), tmp_path).outcome.failed


def test_a_record_that_cannot_be_written_fails_alone(weights, tmp_path, monkeypatch):
    def save(self, path):
        raise RuntimeError("these tensors cannot be saved")

    with monkeypatch.context() as patch:
        original = farout.Panel.save
        patch.setattr(
            farout.Panel,
            "save",
            lambda self, path: (save if "knn" in repr(self.detectors["detector"]).lower() else original)(self, path),
        )
        outcome = farout.run(spec(weights, ["msp", "knn"]), tmp_path).outcome
    assert {detector for detector, _ in scores(tmp_path)} == {"msp"}
    told = "knn on lenet: RuntimeError: these tensors cannot be saved"
    assert any(why.startswith(told) for why in outcome.failed.values())


def test_the_side_of_a_trained_network_is_part_of_its_identity():
    def ids(**network):
        study = spec(None, ["msp"], networks=[{"name": "resnet20", "train": {"epochs": 1}, **network}])
        return {entry.cell.id for entry in plan(from_spec(study))}

    assert ids().isdisjoint(ids(side=64))
    assert ids().isdisjoint(ids(mean=[0.4]))
    assert ids() == ids(label="another name")


def test_some_images_keep_the_share_of_every_class():
    images = ImageSet.from_arrays(np.zeros((8000, 2, 2), np.uint8), np.arange(8000) % 4)
    counts = np.bincount(SubsetImages(LiveImages(images), 2000).preview().labels)
    assert counts.sum() == 2000
    assert (abs(counts - 500) < 5 * 500**0.5).all()


def test_inlier_splits_must_have_the_same_classes(tmp_path, monkeypatch):
    monkeypatch.setitem(catalog._makers, "counted", Broken)
    for name in ("train/a", "train/b", "train/c", "val/a", "val/b", "val/c", "test/b", "test/c"):
        (tmp_path / "inliers" / name).mkdir(parents=True)
        shade = np.full((32, 32, 3), 20 * len(list(tmp_path.rglob("*.png"))), np.uint8)
        Image.fromarray(shade).save(tmp_path / "inliers" / name / "1.png")
    with pytest.raises(ValueError, match="splits must have the same classes"):
        from_spec(spec(None, [{"name": "counted", "how": "well"}], inliers=str(tmp_path / "inliers"), networks=[]))


def test_files_that_change_between_plan_and_run_stop_it(weights, tmp_path):
    np.savez(tmp_path / "gray.npz", images=np.full((20, 32, 32, 3), 10, np.uint8))
    study = from_spec(spec(weights, ["mls"], outliers=[str(tmp_path / "gray.npz")]))
    cells = [entry.cell for entry in plan(study)]
    engine.group_works(engine.closure(cells))  # from here on the plan knows the images
    np.savez(tmp_path / "gray.npz", images=np.full((20, 32, 32, 3), 200, np.uint8))
    forget_loaded()
    failed = engine.run(cells, Store(tmp_path / "run").open()).failed
    assert list(failed.values()) == [
        "mls on lenet: RuntimeError: gray has changed since the run was planned; run again"
    ]


class Counted(Detector):
    """Counts its fits in a file."""

    def __init__(self, log: str) -> None:
        self.log = log

    def fit(self, images):
        with Path(self.log).open("a") as file:
            file.write("fit ")

    def score(self, images):
        return images.mean((1, 2, 3))


def test_a_detector_of_images_is_fitted_once_for_all_sets(tmp_path, monkeypatch):
    monkeypatch.setitem(catalog._makers, "counted", Counted)
    log = str(tmp_path / "log")
    farout.run(spec(None, [{"name": "counted", "log": log}], networks=[]), tmp_path / "run")
    assert (tmp_path / "log").read_text() == "fit "


def test_planning_reads_a_networks_weights_once(weights, monkeypatch):
    digests = []
    original = farout.Network.digest.fget
    monkeypatch.setattr(farout.Network, "digest", property(lambda self: (digests.append(1), original(self))[1]))
    detectors = [{"name": "knn", "k": k} for k in range(1, 31)]
    works = engine.group_works(engine.closure([entry.cell for entry in plan(from_spec(spec(weights, detectors)))]))
    assert len(works) == 4
    assert len(digests) == 1


def test_work_travels_light(weights):
    study = from_spec(
        spec(weights, [{"name": "knn", "k": k} for k in range(1, 31)], inliers={"test": "toy", "train": "toy:train"})
    )
    work = engine.group_works([entry.cell for entry in plan(study)])[0]
    before = len(pickle.dumps(work))
    assert len(work.chunks) == 16
    assert len(pickle.dumps(work)) == before < 60_000


def test_a_run_says_how_well_the_network_classifies(weights, tmp_path):
    table = farout.run(spec(weights, ["knn"]), tmp_path).table("clean_networks")
    network = create("lenet", 4, 32, mean=0.5, std=0.25)
    farout.networks.load_weights(network, weights)
    tested = farout.load("toy", limit=150)
    assert table["test_accuracy"].item() == farout.networks.accuracy(network, tested) == pytest.approx(0.24, abs=0.1)
    assert table["n_test"].item() == 150
    validated = farout.networks.accuracy(network, farout.load("toy", "val", limit=150))
    assert table["validation_accuracy"].item() == validated
