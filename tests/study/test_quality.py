"""Quality of generated sets: FID from stored features, and the rule for undertrained ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from farout import ImageSet
from farout.metrics import fid
from farout.study.cells.features import FeaturesCell, read_features
from farout.study.engines.run import run
from farout.study.generated import generated_from
from farout.study.quality import Quality, plan_quality
from farout.study.sources.images import LiveImages
from farout.study.sources.networks import StoredNetwork
from farout.study.spec import NearSpec, NetworkSpec, SampledSpec, StudySpec
from farout.study.store import Store
from farout.study.study import from_spec
from helpers.generated_sets import NEAR, PLAIN, study
from helpers.written_runs import lenet_weights


def test_features_are_those_of_the_network(tmp_path: Path) -> None:
    network = StoredNetwork(NetworkSpec(name="lenet", weights=str(lenet_weights(tmp_path))), "lenet", 4, 32, 3)
    pixels = np.random.default_rng(0).integers(0, 256, (70, 32, 32, 3), np.uint8)
    images, store = ImageSet.from_arrays(pixels), Store(tmp_path / "store").open()
    cell = FeaturesCell(network, LiveImages(images))
    assert not run([cell], store).failed
    with torch.no_grad():
        expected = network.build(store)(images.batch(np.arange(70))).features
    np.testing.assert_allclose(read_features(store, cell.id), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(store.arrays(cell.id, "examples.safetensors")["first_images"], pixels[:8])


def test_undertrained_is_nearer_to_noise_than_to_images() -> None:
    assert Quality("lenet", 100, fid=51.0, plain=10.0, noise=100.0).undertrained
    assert not Quality("lenet", 100, fid=49.0, plain=60.0, noise=100.0).undertrained


def test_quality_of_a_near_ood_set(tmp_path: Path) -> None:
    trial = from_spec(StudySpec.read(study(tmp_path, PLAIN))).trials[0]
    images = generated_from(NearSpec.model_validate({**NEAR, "interval": [0, 1]}), trial.inliers, "full")
    plan = plan_quality(images, trial.inliers)
    assert plan is not None
    store = Store(tmp_path / "store").open()
    assert not run(list(plan.cells.values()), store).failed
    quality = plan.measure(store)
    assert (quality.features, quality.images) == ("lenet", 100)
    features = {name: read_features(store, cell.id) for name, cell in plan.cells.items()}
    assert all(len(rows) == 100 for rows in features.values()), "equally many of every set"
    assert quality.noise == pytest.approx(fid(features["training"], features["noise"]))
    assert quality.plain == pytest.approx(fid(features["training"], features["plain"]))
    plain = plan.plain.cell.generators[0].requires[0]
    assert plain.identity["objective"] == "plain"
    assert plain.identity["recipe"] == images.cell.generators[0].requires[0].identity["recipe"]


def test_plain_samples_have_no_features_to_be_judged_by(tmp_path: Path) -> None:
    trial = from_spec(StudySpec.read(study(tmp_path, PLAIN))).trials[0]
    assert plan_quality(generated_from(SampledSpec.model_validate(PLAIN), trial.inliers, "full"), trial.inliers) is None
