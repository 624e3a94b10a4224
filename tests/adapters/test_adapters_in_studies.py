"""Adapters in a study file: looked up, rooted, run in workers, reused, and discreet."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.ensemble import IsolationForest

import farout
from farout.adapters import Estimator
from farout.adapters.catalog import ADAPTERS
from farout.detectors.catalog import catalog
from farout.detectors.catalog import create_any as create
from farout.plugins import load_plugin
from farout.registry import UnknownName
from farout.study.results import Results
from farout.study.spec import StudySpec
from farout.study.study import from_spec
from helpers.local_server import Reply, brightness, serving
from helpers.onnx_files import write_onnx
from helpers.written_runs import lenet_weights

SCORE = "FACTOR = {factor}\n\ndef contrast(images):\n    return FACTOR * images.double().std((1, 2, 3))\n"
SETS = {
    "": farout.load("toy", limit=100),
    "noise": farout.load("noise", limit=70),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study's folder, which is not the one that the command runs in."""
    (tmp_path / "study").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("no_proxy", "*")
    lenet_weights(tmp_path / "study")
    return tmp_path / "study"


def study(folder: Path, detectors: list[Any]) -> StudySpec:
    weights = next(folder.glob("*.safetensors")).name
    text = {
        "inliers": {split: {"name": "toy", "split": split, "limit": 100} for split in ("train", "val", "test")},
        "outliers": [{"name": "noise", "limit": 70}],
        "networks": [{"name": "lenet", "weights": weights, "mean": [0.5], "std": [0.25]}],
        "detectors": detectors,
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(text))
    return StudySpec.read(folder / "mine.yaml")


def plugin(path: Path, text: str) -> tuple[str, ...]:
    """A file of the user's, named by the user."""
    path.write_text(text)
    load_plugin(path)
    return (str(path),)


def scores(root: Path) -> dict[tuple[str, str], np.ndarray]:
    results = Results(root)
    return {(row.tags["detector"], row.tags["outliers"]): results.scores(row) for row in results.done("clean")}


def everything(images: farout.ImageSet) -> torch.Tensor:
    return images.batch(range(len(images)))


@pytest.mark.slow
def test_function_estimator_and_file_on_two_workers(folder: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    plugins = plugin(folder / "mine.py", SCORE.format(factor=2))
    write_onnx(folder / "mean.onnx", (16, 3, 32, 32))
    settings = {"n_estimators": 20}
    forest = {"name": "estimator", "of": "sklearn.ensemble.IsolationForest", "settings": settings}
    spec = study(
        folder,
        [
            "msp",
            {"name": "function", "of": "mine.py:contrast", "larger": "inlying"},
            {"name": "onnx", "path": "mean.onnx", "label": "mean"},
            forest,
            {**forest, "seed": 1, "label": "another forest"},
        ],
    )
    first = farout.run(spec, folder / "run", workers=2, plugins=plugins).outcome
    assert not first.failed
    found = scores(folder / "run")
    network = farout.networks.create("lenet", 4, 32, mean=0.5, std=0.25)
    farout.networks.load_weights(network, next(folder.glob("*.safetensors")))
    panel = farout.Panel(network, {"IsolationForest": Estimator(IsolationForest(**settings))})
    panel.fit(farout.load("toy", "train", limit=100))
    for name, images in SETS.items():
        pixels = everything(images).double()
        assert found["function", name] == pytest.approx(-2 * pixels.std((1, 2, 3)).numpy(), rel=1e-9)
        assert found["mean", name] == pytest.approx(pixels.mean((1, 2, 3)).numpy(), rel=1e-5)  # the file's float32
        assert np.array_equal(found["IsolationForest", name], panel.score(images)["IsolationForest"])
        assert not np.array_equal(found["another forest", name], found["IsolationForest", name])
    again = farout.run(spec, folder / "run").outcome
    assert (again.done, again.reused) == ([], len(first.done))
    serial = farout.run(spec, folder / "serial").outcome
    assert len(serial.done) == len(first.done)
    for key, values in scores(folder / "serial").items():
        assert np.array_equal(values, found[key])


@pytest.mark.parametrize("changed", ["function", "file"])
def test_a_change_is_computed_anew(folder: Path, changed: str) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    members = [{"name": "function", "of": "one.py:contrast"}, {"name": "onnx", "path": "mean.onnx"}]
    plugin(folder / "one.py", SCORE.format(factor=1))
    write_onnx(folder / "mean.onnx", ("b", 3, 32, 32))
    assert len(farout.run(study(folder, members), folder / "run").outcome.done) == 4
    if changed == "function":
        plugin(folder / "two.py", SCORE.format(factor=3))
        members[0]["of"] = "two.py:contrast"
    else:
        write_onnx(folder / "mean.onnx", ("b", 3, 32, 32), factor=3.0)
    outcome = farout.run(study(folder, members), folder / "run").outcome
    assert (len(outcome.done), outcome.reused) == (2, 2)


def test_an_endpoint_is_asked_once_per_image(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAROUT_TEST_TOKEN", "open-sesame")
    with serving() as server:
        member = {
            "name": "http",
            "url": server.url,
            "batch": 50,
            "headers": {"Authorization": "Bearer $FAROUT_TEST_TOKEN"},
        }
        spec = study(folder, [member])
        outcome = farout.run(spec, folder / "run").outcome
        assert not outcome.failed
        assert sum(shape[0] for shape in server.shapes) == 170
        assert {one["headers"]["Authorization"] for one in server.seen} == {"Bearer open-sesame"}
        for (_, name), values in scores(folder / "run").items():
            assert values == pytest.approx(everything(SETS[name]).double().mean((1, 2, 3)).numpy(), rel=1e-6)
        again = farout.run(spec, folder / "run").outcome
        assert (again.done, again.reused) == ([], 2)
        assert sum(shape[0] for shape in server.shapes) == 170
    written = b"".join(path.read_bytes() for path in (folder / "run").rglob("*") if path.is_file())
    assert b"open-sesame" not in written


def test_an_endpoint_that_refuses_fails_its_own_cells(folder: Path) -> None:
    def choosy(images: np.ndarray, _: int) -> Reply:
        return Reply(b"too dark", 422) if images.std() > 0.26 else brightness(images)

    with serving(choosy) as server:
        outcome = farout.run(study(folder, ["msp", {"name": "http", "url": server.url}]), folder / "run").outcome
    assert len(outcome.failed) == 1
    assert "refused with status 422" in next(iter(outcome.failed.values()))
    assert {key for key, _ in scores(folder / "run")} == {"msp", "http"}


def test_a_secret_has_no_place_in_a_study(folder: Path) -> None:
    member = {"name": "http", "url": "http://host/", "headers": {"Authorization": "Bearer open-sesame"}}
    with pytest.raises(ValueError, match=r'header Authorization: .*environment variable.*"\$FAROUT_TOKEN"') as caught:
        study(folder, [member])
    assert "open-sesame" not in str(caught.value)
    member["headers"] = {"Authorization": "Bearer open-sesame$$"}
    with pytest.raises(ValueError, match=r"header Authorization: .*environment variable"):
        study(folder, [member])
    member["headers"] = {"Authorization": "$AWS_SECRET_ACCESS_KEY"}
    with pytest.raises(ValueError, match="only those that start with FAROUT_ are sent"):
        from_spec(study(folder, [member]))
    member = {"name": "http", "url": "ftp://host/", "headers": {"Authorization": "$FAROUT_HIDDEN_NAME"}}
    with pytest.raises(ValueError, match=r"detector http with .*must start with http://") as caught:
        from_spec(study(folder, [member]))
    assert "HIDDEN_NAME" not in str(caught.value)


def test_files_start_from_the_studys_folder(folder: Path) -> None:
    spec = study(folder, [{"name": "onnx", "path": "a/b.onnx"}, {"name": "function", "of": "c.py:f"}])
    assert spec.detectors[0].params == {"path": str(folder / "a" / "b.onnx")}
    assert spec.detectors[1].params == {"of": f"{folder / 'c.py'}:f"}
    other = study(folder, [{"name": "estimator", "of": "sklearn.svm.OneClassSVM"}, {"name": "knn", "k": 3}])
    assert [item.params for item in other.detectors] == [{"of": "sklearn.svm.OneClassSVM"}, {"k": 3}]


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"name": "onnyx"}, r"unknown detector 'onnyx'. Did you mean 'onnx'\? Known: .*msp.*--plugin"),
        ({"name": "mps"}, r"Did you mean 'msp'\? Known: .*estimator.*http"),
        ({"name": "onnx", "path": "gone.onnx"}, r"cannot read the ONNX file .*study/gone.onnx"),
        ({"name": "onnx", "file": "x"}, "unknown parameter of adapter 'onnx': 'file'"),
        ({"name": "onnx"}, "detector onnx with no parameters: .*path"),
        ({"name": "function", "of": "gone.py:f"}, "is code, which runs only if .* --plugin .*study/gone.py"),
        ({"name": "estimator", "of": "os.system"}, "comes from sklearn or pyod.models"),
        ({"name": "estimator", "of": "sklearn.svm.OneClassSVM", "settings": {"nue": 1}}, "has no setting 'nue'"),
    ],
)
def test_what_cannot_be_had_is_said_before_the_work(folder: Path, member: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        from_spec(study(folder, [member]))


def test_a_library_that_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [key for key in sys.modules if key.split(".")[0] == "pyod"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyod", None)
    with pytest.raises(ValueError, match=r'pyod.models.ecod.ECOD needs pyod: pip install "farout\[pyod\]"'):
        from_spec(study(folder, [{"name": "estimator", "of": "pyod.models.ecod.ECOD"}]))


def test_adapters_are_no_detectors() -> None:
    assert ADAPTERS.names() == farout.adapters.names() == ["estimator", "function", "http", "onnx"]
    assert not set(ADAPTERS.names()) & set(farout.detectors.names())
    with pytest.raises(UnknownName):
        catalog.create("onnx")
    assert isinstance(create("knn", k=3), farout.detectors.KNN)
    assert create("http", url="http://host/").name == "http"


def test_a_detector_of_the_users_comes_before_an_adapter() -> None:
    @farout.register
    class Mine(farout.Detector):
        name = "http"

    assert isinstance(create("http"), Mine)


@pytest.mark.parametrize("name", ["function", "http", "onnx"])
def test_a_saved_panel_makes_no_adapter_that_is_not_post_hoc(folder: Path, name: str) -> None:
    """A panel may come from anybody: it reaches no code, file or server."""
    network = farout.networks.create("lenet", 4, 32)
    farout.Panel(network, ["msp"]).fit(farout.load("toy", "train", limit=10)).save(folder / "panel.safetensors")
    with safe_open(folder / "panel.safetensors", framework="pt") as file:
        facts = json.loads(file.metadata()["farout"])
    params = {"function": {"of": str(folder / "x.py:f")}, "http": {"url": "http://host/"}, "onnx": {"path": "x.onnx"}}
    facts["detectors"]["msp"].update(name=name, params=params[name])
    save_file({"x": torch.zeros(1)}, folder / "panel.safetensors", {"farout": json.dumps(facts)})
    with pytest.raises(ValueError, match=f"holds post-hoc detectors only, got '{name}'"):
        farout.Panel.load(folder / "panel.safetensors", network)
