"""Image sources stack freely, also on images that cells make, and records keep every image's own index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import farout
from farout import rng
from farout.attacks import ATTACKS
from farout.detectors import MSP
from farout.search import SEARCHES
from farout.study.cells.attack import AttackCell
from farout.study.cells.fit import FitCell
from farout.study.cells.fit_perturbed import PerturbedFitCell
from farout.study.cells.predict import PredictCell
from farout.study.cells.score import ScoreCell
from farout.study.cells.search import SearchCell
from farout.study.cells.train import TrainCell
from farout.study.engines import run as engine
from farout.study.results import positions
from farout.study.sources.attacked import AttackedImages
from farout.study.sources.found import FoundImages
from farout.study.sources.images import (
    BalancedImages,
    ClassImages,
    CutImages,
    FirstImages,
    LiveImages,
    MatchedImages,
    NamedImages,
    RepeatedImages,
    ShiftedImages,
    SoundImages,
    SubsetImages,
    UncorruptedImages,
)
from farout.study.sources.networks import StoredNetwork
from farout.study.sources.pending import NotComputed
from farout.study.spec import DataSpec, NetworkSpec
from farout.study.store import Store
from farout.study.subjects.posthoc import PostHocSubject
from farout.variations import VARIATIONS
from helpers.written_runs import lenet_weights

FOG = farout.shift("fog", severity=2)
TOY = NamedImages(DataSpec(name="toy", limit=150))


def network(folder: Path) -> StoredNetwork:
    return StoredNetwork(NetworkSpec(name="lenet", weights=str(lenet_weights(folder))), "lenet", 4, 32, 3)


def attacked(folder: Path) -> AttackedImages:
    """The first 140 toy images, attacked."""
    return AttackedImages(AttackCell(ATTACKS.create("fgsm"), FirstImages(TOY, 140), network(folder), None, 0))


def msp(folder: Path) -> PostHocSubject:
    return PostHocSubject("msp", FitCell(network(folder), MSP(), None, None))


def searched(folder: Path, images: NamedImages | SubsetImages, chains: int) -> SearchCell:
    subject = msp(folder)
    return SearchCell(
        subject, VARIATIONS.create("affine"), images, chains, SEARCHES.create("random"), 2, 0, ScoreCell(subject, TOY)
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_balanced_subset_of_corrupted_attacked_images_is_an_ordinary_source(tmp_path: Path, workers: int) -> None:
    source = BalancedImages(ShiftedImages(SubsetImages(attacked(tmp_path), 100), FOG, 3), 70)
    cell = ScoreCell(msp(tmp_path), source)
    assert source.about.total == 70
    assert source.portable
    store = Store(tmp_path / "run").open()
    outcome = engine.run([cell], store, workers=workers)
    assert not outcome.failed
    assert len(outcome.done) == 3, "the fit, the attack and the scores"

    images, net = farout.load("toy", limit=150), network(tmp_path).preview()
    labels = images.labels[:140]  # type: ignore[index]
    made = farout.attack("fgsm", net, images.batch(np.arange(140)), labels)
    chosen = rng.subset_indices(140, 100)
    shifted = FOG(made.images[torch.from_numpy(chosen)], 3)
    kept = rng.balanced_indices(2 * labels[chosen], 70)
    with torch.no_grad():
        expected = -net(shifted[torch.from_numpy(kept)]).logits.double().softmax(1).amax(1).numpy()
    np.testing.assert_allclose(store.scores(cell.id), expected - expected[0] + store.scores(cell.id)[0], atol=1e-6)
    np.testing.assert_array_equal(store.column(cell.id, "index"), images.index[:140][chosen][kept])
    np.testing.assert_array_equal(store.column(cell.id, "label"), labels[chosen][kept])
    success = store.column(cell.id, "attribute:success")
    np.testing.assert_array_equal(success, made.success.numpy()[chosen][kept])


def test_a_plan_knows_images_that_cells_are_yet_to_make(tmp_path: Path) -> None:
    """Preview and opened set agree in all but the pixels, whatever is stacked on them."""
    of_attacked, store = attacked(tmp_path), Store(tmp_path / "run").open()
    found = FoundImages(searched(tmp_path, SubsetImages(TOY, 20), 20), (3, 32, 32))
    stacks = [
        ClassImages(of_attacked, 2),
        CutImages(of_attacked, validation=True),
        MatchedImages(UncorruptedImages(SoundImages(of_attacked)), (1, 16, 16)),
        RepeatedImages(ClassImages(of_attacked, 1), 5),
        FirstImages(ShiftedImages(found, FOG, 0), 7),
    ]
    before = [(stack.about, stack.preview()) for stack in stacks]
    for stack, (_, preview) in zip(stacks, before, strict=True):
        assert of_attacked.attack in stack.requires or found.search in stack.requires
        with pytest.raises(NotComputed, match="the run has not computed these images yet"):
            preview.batch([0])
    assert not engine.run([need for stack in stacks for need in stack.requires], store).failed
    for stack, (about, preview) in zip(stacks, before, strict=True):
        images = stack.open(store)
        assert (images.name, images.fingerprint, len(images), images.shape, images.classes) == about[:5]
        assert images.batch([0]).shape == (1, *about.shape)
        np.testing.assert_array_equal(images.index, preview.index)
        np.testing.assert_array_equal(images.labels, preview.labels)  # type: ignore[arg-type]


def test_selecting_by_what_nobody_knows_is_a_clear_error(tmp_path: Path) -> None:
    found = FoundImages(searched(tmp_path, SubsetImages(TOY, 20), 20), (3, 32, 32))
    with pytest.raises(ValueError, match="have no labels, so one class cannot be selected"):
        ClassImages(found, 0).about  # noqa: B018


def test_an_attack_on_attacked_images_waits_for_the_first(tmp_path: Path) -> None:
    first = attacked(tmp_path)
    second = AttackedImages(
        AttackCell(ATTACKS.create("pgd", steps=1), SubsetImages(first, 30), network(tmp_path), None, 0)
    )
    store = Store(tmp_path / "run").open()
    assert second.requires == (first.attack, second.attack)
    assert not engine.run([PredictCell(network(tmp_path), second)], store).failed
    np.testing.assert_array_equal(second.open(store).index, TOY.preview().index[:140][rng.subset_indices(140, 30)])
    assert "success" not in second.preview().attributes, "that of the first attack is not that of the second"


def test_what_is_trained_or_fitted_on_images_requires_the_cells_that_make_them(tmp_path: Path) -> None:
    images, plain = FirstImages(attacked(tmp_path), 50), network(tmp_path)
    fit = FitCell(plain, farout.detectors.KNN(k=3), images, TOY)
    trained = TrainCell(NetworkSpec(name="lenet", train={"epochs": 1}), "lenet", 0, TOY, images)  # type: ignore[arg-type]
    for cell in (fit, PerturbedFitCell(plain, MSP(), TOY, TOY, fit, images), trained):
        assert images.requires[0] in cell.requires
    assert FitCell(plain, MSP(), images, None).requires == ()


def test_every_image_keeps_its_own_index() -> None:
    images = farout.load("toy", limit=60)
    part = images.subset([7, 3, 3, 50])
    assert images.subset(np.arange(60)[::-1]).subset([0, 2]).index.tolist() == [images.index[59], images.index[57]]
    assert part.index.tolist() == images.index[[7, 3, 3, 50]].tolist()
    assert FOG(part).subset([3, 1]).index.tolist() == images.index[[50, 3]].tolist()
    matched = MatchedImages(LiveImages(part), (1, 16, 16)).preview()
    assert matched.index.tolist() == part.index.tolist()
    assert RepeatedImages(LiveImages(part), 3).preview().index.tolist() == images.index[[7, 7, 7]].tolist()


def test_images_in_files_keep_their_index_too(tmp_path: Path) -> None:
    for number in range(6):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
    images = farout.load(str(tmp_path))
    assert images.subset([5, 1, 3]).subset([2, 0]).index.tolist() == [3, 5]
    assert images.limit(2).index.tolist() == [0, 1]


def test_the_validation_split_keeps_the_index_of_the_official_one() -> None:
    images = farout.ImageSet.from_arrays(np.zeros((40, 8, 8, 3), np.uint8), np.arange(40) % 4)
    held, kept = (CutImages(LiveImages(images), validation=validation).preview().index for validation in (True, False))
    assert len(held) == 4
    assert sorted([*held, *kept]) == list(range(40))


def test_positions_by_index() -> None:
    among = np.array([9, 4, 4, 7, 9])
    assert positions(np.array([7, 9, 4, 9, 4]), among).tolist() == [3, 0, 1, 4, 2]
    assert positions(np.array([], np.int64), among).tolist() == []
    for missing in ([5], [7, 7]):
        with pytest.raises(ValueError, match=f"images \\[{missing[0]}\\] are not among the 5"):
            positions(np.array(missing), among)
    with pytest.raises(ValueError, match="not among the 0"):
        positions(np.array([1]), among[:0])
