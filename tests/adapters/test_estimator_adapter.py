"""scikit-learn's and PyOD's estimators on features: their scores, their sign, what is stored of them."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, OneClassSVM

import farout
from farout.adapters import Estimator, estimator
from farout.core import Activations
from farout.identity import canonical

FOREST = "sklearn.ensemble.IsolationForest"


def activations(seed: int, total: int, dim: int = 5, shift: float = 0.0) -> Activations:
    draw = np.random.default_rng(seed).normal(shift, 1, (total, dim)).astype(np.float32)
    return Activations(torch.zeros(total, 3), torch.from_numpy(draw))


TRAIN, NEAR, FAR = activations(0, 120), activations(1, 30), activations(2, 30, shift=4.0)


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    estimator._cache.clear()


def numbers(part: Activations) -> np.ndarray:
    return part.features.double().numpy()


@pytest.mark.parametrize(
    "theirs",
    [
        IsolationForest(n_estimators=20, random_state=3),
        LocalOutlierFactor(n_neighbors=7, novelty=True),
        OneClassSVM(nu=0.2),
        EllipticEnvelope(random_state=0),
        KernelDensity(bandwidth=0.5),
        GaussianMixture(2, random_state=0),
        PCA(n_components=2),
        make_pipeline(StandardScaler(), MinMaxScaler(feature_range=(0, 2)), OneClassSVM(gamma=0.1)),
    ],
)
def test_scores_are_the_negative_of_scikit_learns(theirs: Any) -> None:
    mine = Estimator(copy.deepcopy(theirs)).fit(TRAIN, None)
    theirs.fit(numbers(TRAIN))
    for part in (NEAR, FAR):
        assert mine.score(part).numpy() == pytest.approx(-theirs.score_samples(numbers(part)), rel=1e-9, abs=1e-12)
    assert mine.score(FAR).mean() > mine.score(NEAR).mean()


def test_a_closed_form() -> None:
    """A Gaussian kernel density by hand: log mean of exp(-|x - t|² / 2h²) / (2πh²)^(d/2)."""
    mine = Estimator("sklearn.neighbors.KernelDensity", settings={"bandwidth": 0.8, "rtol": 0.0}).fit(TRAIN, None)
    scores, dim = mine.score(NEAR), TRAIN.features.shape[1]
    for row, score in zip(numbers(NEAR), scores, strict=True):
        kernels = (math.exp(-math.fsum((row - t) ** 2) / (2 * 0.8**2)) for t in numbers(TRAIN))
        density = math.fsum(kernels) / len(TRAIN) / (2 * math.pi * 0.8**2) ** (dim / 2)
        assert float(score) == pytest.approx(-math.log(density), rel=1e-9)


@pytest.mark.parametrize(
    ("of", "settings"),
    [
        ("pyod.models.ecod.ECOD", {}),
        ("pyod.models.knn.KNN", {"n_neighbors": 4, "method": "mean"}),
        ("pyod.models.iforest.IForest", {"n_estimators": 20, "random_state": 5}),
        ("pyod.models.lof.LOF", {"n_neighbors": 5}),
    ],
)
def test_scores_are_pyods(of: str, settings: dict[str, Any]) -> None:
    pytest.importorskip("pyod")
    mine = Estimator(of, settings=settings).fit(TRAIN, None)
    theirs = estimator.libraries.estimator_class(of)(**settings)
    theirs.fit(numbers(TRAIN))
    for part in (NEAR, FAR):
        rows = [theirs.decision_function(row[None])[0] for row in numbers(part)]
        assert mine.score(part).numpy() == pytest.approx(rows, rel=1e-9)
    assert mine.score(FAR).mean() > mine.score(NEAR).mean()


def test_a_pipeline_that_ends_in_one_of_pyods_keeps_its_sign() -> None:
    knn = pytest.importorskip("pyod.models.knn").KNN
    theirs = make_pipeline(StandardScaler(), knn())
    mine = Estimator(copy.deepcopy(theirs)).fit(TRAIN, None)
    theirs.fit(numbers(TRAIN))
    assert mine.score(FAR).numpy() == pytest.approx(theirs.decision_function(numbers(FAR)), rel=1e-9)
    assert mine.score(FAR).mean() > mine.score(NEAR).mean()
    assert str(mine.identity()["library"]).startswith("scikit-learn ")
    assert "pyod " in str(mine.identity()["library"])
    with pytest.raises(ValueError, match="larger='outlying' or"):
        Estimator(GridSearchCV(knn(), {"n_neighbors": [3, 5]}, scoring="accuracy"))


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("sos.SOS", "SOS scores images only by the others in their batch; choose another"),
        ("lmdd.LMDD", "LMDD scores images only by the others in their batch; choose another"),
        ("cof.COF", "COF cannot score few images at a time: .*; choose another"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # theirs divide by zero
def test_what_cannot_score_an_image_by_itself_is_refused(of: str, message: str) -> None:
    pytest.importorskip("pyod")
    with pytest.raises(ValueError, match=message):
        Estimator(f"pyod.models.{of}").fit(TRAIN, None)


def test_an_image_is_scored_alike_in_any_company() -> None:
    """ECOD ranks an image among those that are scored with it."""
    pytest.importorskip("pyod")
    mine = Estimator("pyod.models.ecod.ECOD").fit(TRAIN, None)
    together = mine.score(FAR)
    assert torch.equal(together[:3], mine.score(FAR[:3]))
    theirs = estimator.libraries.estimator_class("pyod.models.ecod.ECOD")()
    theirs.fit(numbers(TRAIN))
    assert not np.allclose(theirs.decision_function(numbers(FAR))[:3], theirs.decision_function(numbers(FAR)[:3]))


def test_a_name_and_an_object_are_one_thing() -> None:
    by_name = Estimator(FOREST, settings={"n_estimators": 20})
    by_object = Estimator(IsolationForest(n_estimators=20))
    assert by_name.identity() == by_object.identity() == Estimator("sklearn.ensemble._iforest.IsolationForest", settings={"n_estimators": 20}).identity()  # fmt: skip  # noqa: E501
    assert by_name.of == FOREST
    assert torch.equal(by_name.fit(TRAIN, None).score(FAR), by_object.fit(TRAIN, None).score(FAR))


def test_chance_depends_on_the_seed_alone() -> None:
    first = Estimator(FOREST).fit(TRAIN, None).score(NEAR)
    estimator._cache.clear()
    np.random.seed(99)  # noqa: NPY002
    assert torch.equal(Estimator(FOREST).fit(TRAIN, None).score(NEAR), first)
    assert not torch.equal(Estimator(FOREST, seed=1).fit(TRAIN, None).score(NEAR), first)
    fixed = {"random_state": 1}
    assert torch.equal(
        Estimator(FOREST, settings=fixed).fit(TRAIN, None).score(NEAR),
        Estimator(FOREST, settings=fixed, seed=1).fit(TRAIN, None).score(NEAR),
    )


def test_global_generators_are_left_alone() -> None:
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    expected = np.random.random(), torch.rand(1)  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    Estimator(FOREST).fit(TRAIN, None).score(NEAR)
    assert (np.random.random(), torch.rand(1)) == expected  # noqa: NPY002


def test_a_sample_of_the_training_images() -> None:
    mine = Estimator("sklearn.neighbors.KernelDensity", images=40).fit(TRAIN, None)
    kept = mine.state["features"]
    rows = [next(i for i, row in enumerate(TRAIN.features) if torch.equal(row, one)) for one in kept]
    assert len(set(rows)) == 40
    assert rows == sorted(rows)
    assert torch.equal(Estimator("sklearn.neighbors.KernelDensity", images=40).fit(TRAIN, None).state["features"], kept)
    other = Estimator("sklearn.neighbors.KernelDensity", images=40, seed=1).fit(TRAIN, None).state["features"]
    assert not torch.equal(other, kept)
    theirs = KernelDensity().fit(kept.double().numpy())
    assert mine.score(NEAR).numpy() == pytest.approx(-theirs.score_samples(numbers(NEAR)), rel=1e-9)
    whole = Estimator("sklearn.neighbors.KernelDensity", images=500).fit(TRAIN, None)
    assert torch.equal(whole.state["features"], TRAIN.features)


def test_local_outlier_factor_scores_new_images() -> None:
    plain = Estimator("sklearn.neighbors.LocalOutlierFactor", settings={"n_neighbors": 7}).fit(TRAIN, None)
    theirs = LocalOutlierFactor(n_neighbors=7, novelty=True).fit(numbers(TRAIN))
    assert plain.score(NEAR).numpy() == pytest.approx(-theirs.score_samples(numbers(NEAR)), rel=1e-9)
    with pytest.raises(ValueError, match="novelty=True only"):
        Estimator("sklearn.neighbors.LocalOutlierFactor", settings={"novelty": False})


def test_a_pipeline_from_a_file() -> None:
    steps = [["scale", {"of": "sklearn.preprocessing.StandardScaler"}], ["forest", {"of": FOREST, "settings": {"n_estimators": 20}}]]  # fmt: skip  # noqa: E501
    mine = Estimator("sklearn.pipeline.Pipeline", settings={"steps": steps}, seed=4).fit(TRAIN, None)
    theirs = make_pipeline(StandardScaler(), IsolationForest(n_estimators=20, random_state=4)).fit(numbers(TRAIN))
    assert mine.score(NEAR).numpy() == pytest.approx(-theirs.score_samples(numbers(NEAR)), rel=1e-9)


def panel(*members: Any) -> farout.Panel:
    network = farout.networks.create("lenet", 4, 32, seed=1)
    return farout.Panel(network, list(members))


def test_a_saved_panel_is_loaded_with_equal_scores(tmp_path: Path) -> None:
    pytest.importorskip("pyod")
    forest = Estimator(make_pipeline(MinMaxScaler(feature_range=(0, 2)), IsolationForest(n_estimators=20)), images=100)
    mine = panel("msp", forest, Estimator("pyod.models.ecod.ECOD"))
    mine.fit(farout.load("toy", "train", limit=150), farout.load("toy", "val", limit=80))
    images = farout.load("toy", "test/ood_cls", limit=70)
    expected = mine.score(images)
    assert list(expected) == ["msp", "Pipeline", "ECOD"]
    mine.save(tmp_path / "panel.safetensors")
    estimator._cache.clear()
    loaded = farout.Panel.load(tmp_path / "panel.safetensors", mine.network)
    for name, scores in loaded.score(images).items():
        assert np.array_equal(scores, expected[name])
    assert loaded.threshold() == mine.threshold()
    assert b"sklearn.pipeline.Pipeline" in (tmp_path / "panel.safetensors").read_bytes()


def test_another_version_of_the_library_is_another_detector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = panel(Estimator(FOREST, settings={"n_estimators": 5}))
    mine.fit(farout.load("toy", "train", limit=50))
    mine.save(tmp_path / "panel.safetensors")
    monkeypatch.setattr(estimator.libraries, "version", lambda _: "0.0.1")
    with pytest.raises(ValueError, match=r"scikit-learn 0\.0\.1.*fit it again"):
        farout.Panel.load(tmp_path / "panel.safetensors", mine.network)


def test_it_is_fitted_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[int] = []
    original = IsolationForest.fit
    monkeypatch.setattr(
        IsolationForest, "fit", lambda self, X, *rest: (fits.append(len(X)), original(self, X, *rest))[1]
    )
    mine = Estimator(FOREST).fit(TRAIN, None)
    copied, sent = copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))
    assert torch.equal(copied.score(NEAR), mine.score(NEAR))
    assert torch.equal(sent.score(NEAR), mine.score(NEAR))
    assert fits == [120]
    sent.fit(FAR, None)
    assert fits == [120, 30]
    assert not torch.equal(sent.score(NEAR), mine.score(NEAR))
    fits.clear()
    many = [
        Estimator(FOREST, settings={"n_estimators": 2 + i}).fit(TRAIN, None) for i in range(estimator.CACHE_SIZE + 2)
    ]
    for part in (NEAR, FAR):
        for one in many:
            one.score(part)
    assert len(fits) == len(many)


@pytest.mark.parametrize("theirs", [IsolationForest(n_estimators=10), LocalOutlierFactor(novelty=True)])
def test_it_passes_the_battery(theirs: Any) -> None:
    images = farout.load("toy", "train", limit=40)
    assert [finding for finding in farout.check(Estimator(theirs, images=30), images) if finding.problem] == []


def test_identity_is_plain_data() -> None:
    mine = Estimator(make_pipeline(MinMaxScaler(feature_range=(0, 2)), IsolationForest(max_features=np.float64(0.5))))
    assert '"feature_range":{"tuple":[0,2]}' in canonical(mine.identity())
    assert '"max_features":0.5' in canonical(mine.identity())
    differing = [{"seed": 1}, {"images": 10}, {"settings": {"n_estimators": 5}}, {"larger": "outlying"}, {}]
    assert len({canonical(Estimator(FOREST, **changes).identity()) for changes in differing}) == len(differing)


class Own(BaseEstimator):  # type: ignore[misc]
    """A user's own."""

    def __init__(self, power: float = 2.0) -> None:
        self.power = power

    def fit(self, X: Any, y: Any = None) -> Own:
        self.mean_ = X.mean(0)
        return self

    def decision_function(self, X: Any) -> Any:
        return (np.abs(X - self.mean_) ** self.power).sum(1)


def test_an_estimator_of_ones_own_says_what_its_scores_mean() -> None:
    with pytest.raises(ValueError, match=r"Own is not an outlier detector .* larger='outlying'"):
        Estimator(Own())
    mine = Estimator(Own(1.0), larger="outlying").fit(TRAIN, None)
    mean = numbers(TRAIN).mean(0)
    assert mine.score(NEAR).numpy() == pytest.approx(np.abs(numbers(NEAR) - mean).sum(1), rel=1e-9)
    assert "source" in mine.identity()["library"]
    assert torch.equal(Estimator(Own(1.0), larger="inlying").fit(TRAIN, None).score(NEAR), -mine.score(NEAR))


@pytest.mark.parametrize(
    ("of", "settings", "message"),
    [
        ("os.system", {}, "comes from sklearn or pyod.models"),
        ("pyod.cli.main", {}, "comes from sklearn or pyod.models"),
        ("sklearnx.ensemble.Forest", {}, "comes from sklearn or pyod.models"),
        ("sklearn.ensemble.os", {}, "not an estimator of scikit-learn"),
        ("sklearn.ensemble.IsolationForrest", {}, "not an estimator of scikit-learn"),
        ("sklearn.nothing.Forest", {}, "sklearn.nothing.Forest does not exist"),
        ("sklearn.base.np.ndarray", {}, "does not exist|not an estimator"),
        ("sklearn.model_selection.train_test_split", {}, "not an estimator of scikit-learn"),
        (FOREST, {"n_trees": 3}, "IsolationForest has no setting 'n_trees'; it has n_estimators"),
        ("sklearn.pipeline.Pipeline", {"steps": [["f", {"of": FOREST}]], "memory": "cache"}, "memory must be left out"),
        ("sklearn.pipeline.Pipeline", {"steps": [["f", {"of": "os.system"}]]}, "comes from sklearn or pyod.models"),
        ("pyod.models.embedding.EmbeddingOD", {"encoder": "someone/model"}, "encoder must be left out"),
        ("sklearn.preprocessing.StandardScaler", {}, "StandardScaler cannot score images it has not seen"),
        ("sklearn.cluster.DBSCAN", {}, "DBSCAN cannot score images it has not seen"),
    ],
)
def test_names_and_settings_that_are_refused(of: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Estimator(of, settings=settings)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (IsolationForest, TypeError, "got the class IsolationForest"),
        (3, TypeError, "got int"),
        (SVC(), ValueError, "SVC is not an outlier detector"),
        (RandomForestClassifier(), ValueError, "RandomForestClassifier cannot score"),
        (IsolationForest(random_state=np.random.RandomState(0)), TypeError, "give random_state a whole number"),
        (KernelDensity(metric=max), TypeError, "setting 'metric' must be numbers, text, lists or estimators"),
    ],
)
def test_objects_that_are_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Estimator(given)


@pytest.mark.parametrize(("field", "value"), [("seed", -1), ("seed", "a"), ("images", 0), ("larger", "more")])
def test_parameters_that_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        Estimator(FOREST, **{field: value})


def test_training_features_that_are_refused() -> None:
    broken = Activations(torch.zeros(3, 2), torch.tensor([[1.0], [math.nan], [2.0]]))
    with pytest.raises(ValueError, match="NaN or infinity"):
        Estimator(FOREST).fit(broken, None)
    with pytest.raises(ValueError, match="at least 2 training images, got 1"):
        Estimator(FOREST).fit(activations(0, 1), None)
    with pytest.raises(farout.NotFitted, match="IsolationForest is not fitted"):
        Estimator(FOREST).score(NEAR)


def test_settings_go_with_a_name() -> None:
    with pytest.raises(TypeError, match="settings must be a mapping, got list"):
        Estimator(FOREST, settings=[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="settings of IsolationForest must be a mapping, got int"):
        Estimator("sklearn.pipeline.Pipeline", settings={"steps": [["f", {"of": FOREST, "settings": 3}]]})
    with pytest.raises(ValueError, match="an estimator object has its own"):
        Estimator(IsolationForest(), settings={"n_estimators": 3})
