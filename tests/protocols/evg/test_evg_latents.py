"""Latents of generators in `evg`: one generator per outlier set, worst cases from its latent, and flags for noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import farout
from farout.protocols import cuts, plan
from farout.protocols.evg.realism import nearest, read_generated, threshold
from farout.report.content import Sheet
from farout.study.cells.search import FOUND, SearchCell
from farout.study.cells.train_generator import TrainGeneratorCell
from farout.study.engines.run import closure
from farout.study.results import Results
from farout.study.sources.found import FoundImages
from farout.study.sources.variations import TrainedLatent
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import Study, from_spec
from helpers.generated_sets import GAN, study


def evg(folder: Path, generator: object = GAN, **changes: object) -> Path:
    """Write a study with two outlier sets, whose latents are searched in ten chains of three steps."""
    for seed, name in enumerate(("dark", "noisy")):
        images = np.random.default_rng(seed).integers(0, 50 + 205 * seed, (70, 16, 16), np.uint8)
        np.savez(folder / f"{name}.npz", images=images)
    searched = {"name": "evg", "variations": [{"name": "latent", "generator": generator}], "chains": 10, "steps": 3}
    outliers = [{"name": "dark.npz"}, {"name": "noisy.npz"}]
    return study(folder, *outliers, protocols=[{**searched, "transfer": False, **changes}])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("latents")
    result = farout.run(evg(folder, transfer=True), folder / "run")
    assert not result.outcome.failed, result.outcome.failed
    return folder


def planned(file: Path) -> tuple[Study, list[SearchCell]]:
    built = from_spec(StudySpec.read(file))
    return built, [entry.cell for entry in plan(built) if isinstance(entry.cell, SearchCell)]


def test_one_generator_is_trained_on_each_outlier_set(ran: Path) -> None:
    built, searches = planned(ran / "study.yaml")
    assert len(searches) == 2
    trained = [cell for cell in closure(searches) if isinstance(cell, TrainGeneratorCell)]
    used = {cell.label: cell.train.about.fingerprint for cell in trained}
    expected = {name: images.about.fingerprint for name, images in built.trials[0].outliers.items()}
    assert used == {f"latent of {name}": fingerprint for name, fingerprint in expected.items()}
    assert len({cell.variation.identity()["generator"]["trained"] for cell in searches}) == 2


def test_worst_cases_are_images_of_the_trained_generator(ran: Path) -> None:
    store, (_, searches) = Store(ran / "run"), planned(ran / "study.yaml")
    cell = searches[0]
    assert isinstance(cell.variation, TrainedLatent)
    latents = torch.from_numpy(store.arrays(cell.id, FOUND)["latents"])
    torch.testing.assert_close(latents.norm(dim=1), torch.ones(10), msg="on the unit sphere")
    images = FoundImages(cell, (1, 16, 16)).open(store).batch(np.arange(10))
    expected = cell.variation.source.build(store).decode(latents * 2)  # √4: the length of a normal latent
    torch.testing.assert_close(images, expected)


def test_tables_and_figures(ran: Path) -> None:
    document = farout.run(ran / "study.yaml", ran / "run").document
    tables = {table.name: table.frame for table in document.tables}
    lines = tables["evg_generated"]
    assert lines["outliers"].tolist() == ["dark", "noisy"]
    assert lines["chains"].tolist() == [10, 10]
    assert lines["images"].tolist() == [70, 70]
    assert lines["noise"].between(0, 1).all()
    assert tables["evg"]["chains_per_run"].tolist() == [2, 2], "MinRank over five runs"
    sheets = {figure.name: figure for figure in document.summaries["evg"].figures if isinstance(figure, Sheet)}
    assert [strip.title for strip in sheets["evg_generated_0"].strips] == ["real", "generated"]
    real = farout.load(ran / "dark.npz").batch(np.arange(8)).mul(255).byte().permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(sheets["evg_generated_0"].strips[0].images, real)


def test_flags_are_by_distance_to_the_training_images(ran: Path) -> None:
    generated = read_generated(Results(ran / "run"), "evg")
    one = generated["0", "dark", "latent"]
    slow = np.linalg.norm(one.samples[:, None] - one.real, axis=2).min(1)
    np.testing.assert_allclose(nearest(one.samples, one.real), slow, atol=1e-6)
    assert one.noise_samples == (slow > one.threshold).mean()


def test_threshold_of_known_distances() -> None:
    grid = np.arange(200.0)[:, None]
    assert threshold(grid) == 1.0, "every point is 1 away from its neighbors"
    assert threshold(np.vstack([grid, [[500.0]]])) == 1.0, "one outlier in 201 is below 1 %"
    np.testing.assert_allclose(nearest(np.array([[3.25], [1000.0]]), grid), [0.25, 801.0])


def test_generator_of_a_file(tmp_path: Path) -> None:
    train = farout.load("toy", "train", limit=64)
    generator = farout.generators.create("dcgan", 32, width=4, dim=4).fit(train, epochs=1, batch=32)
    generator.save(tmp_path / "gan.safetensors")
    file = evg(tmp_path, "gan.safetensors", detectors=["msp"])
    with pytest.raises(ValueError, match=r"makes images of shape \(3, 32, 32\), expected \(1, 16, 16\)"):
        planned(file)
    small = farout.generators.create("dcgan", 16, 1, width=4, dim=4)
    small.fit(farout.load(tmp_path / "dark.npz"), epochs=1, batch=32).save(tmp_path / "gan.safetensors")
    _, searches = planned(file)
    assert not any(isinstance(cell, TrainGeneratorCell) for cell in closure(searches))
    assert searches[0].variation.identity()["generator"]["weights"] == small.digest


def test_budget_says_what_it_leaves_out_of_the_training(tmp_path: Path) -> None:
    file = evg(tmp_path, {**GAN, "train": {"epochs": 30, "batch": 32}})
    built = from_spec(StudySpec.read(file).model_copy(update={"budget": "quick"}))
    assert "20 of 30 epochs of the generator of latent of dark" in cuts(built)


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        ({"name": "dcgn"}, "Did you mean 'dcgan'?"),
        ({"name": "pix2pix"}, "pix2pix has no latent; a search needs a generator with a single latent"),
        ({**GAN, "widht": 3}, "Did you mean 'width'?"),
        ({**GAN, "train": {"epoch": 3}}, "Did you mean 'epochs'?"),
        ("gone.safetensors", "no generator at"),
    ],
)
def test_errors_before_the_long_work(tmp_path: Path, generator: object, expected: str) -> None:
    with pytest.raises((ValueError, OSError)) as error:
        planned(evg(tmp_path, generator))
    assert expected in str(error.value)
