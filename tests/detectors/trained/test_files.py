"""Files of trained detectors: what is saved is loaded, and what does not fit is refused with its reason."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import farout
from farout.detectors import AE, CEDA
from farout.detectors.trained.detector import INPUTS
from farout.training import files
from helpers.tiny_detectors import Tiny

TRAIN = farout.load("toy", "train", limit=48)
IMAGES = TRAIN.batch(range(6))


def outliers() -> farout.ImageSet:
    return farout.load("noise", limit=32)


@pytest.fixture
def tiny() -> type[Tiny]:
    return farout.register(Tiny)


def trained(**params: object) -> Tiny:
    return Tiny(**params).fit(TRAIN, auxiliary_outliers=outliers())  # type: ignore[arg-type]


def test_a_saved_detector_gives_the_same_scores_however_it_is_loaded(tiny: type[Tiny], tmp_path: Path) -> None:
    detector = trained(width=4, training={"epochs": 1})
    detector.save(tmp_path / "tiny.safetensors")
    expected = detector.score(IMAGES)
    loaded = [
        farout.detectors.load(tmp_path / "tiny.safetensors"),
        farout.detectors.create("tiny", weights=tmp_path / "tiny.safetensors"),
        Tiny(width=4, training={"epochs": 1}).load(tmp_path / "tiny.safetensors"),
    ]
    for other in loaded:
        assert isinstance(other, Tiny)
        assert torch.equal(other.score(IMAGES), expected)
        assert other.label == "tiny (small, width=4, epochs=1)"


def test_with_weights_fit_measures_only_what_the_file_lacks(tmp_path: Path) -> None:
    detector, file = trained(), tmp_path / "tiny.safetensors"
    without = {key: value for key, value in detector.state_dict().items() if not key.startswith("statistics")}
    files.save(file, "detector", without, files.Header("tiny", 1, detector.stored_params))
    loaded = Tiny(weights=file)
    with pytest.raises(farout.NotFitted, match="tiny has weights without statistics of the training images: call fit"):
        loaded.score(IMAGES)
    loaded.fit(TRAIN.subset(range(7)))
    apart = loaded.modules["net"](TRAIN.batch(range(7))).double().mean()
    torch.testing.assert_close(loaded.statistics["mean"], apart)
    assert torch.equal(loaded.modules["net"](IMAGES), detector.modules["net"](IMAGES))
    detector.save(tmp_path / "whole.safetensors")
    whole = Tiny(weights=tmp_path / "whole.safetensors").fit(TRAIN.subset(range(7)))
    assert torch.equal(whole.score(IMAGES), detector.score(IMAGES))


def test_the_identity_is_that_of_the_content_and_of_the_settings_that_score(tmp_path: Path) -> None:
    detector = trained()
    for name in ("one", "other"):
        detector.save(tmp_path / f"{name}.safetensors")
    one, other = (Tiny(weights=tmp_path / f"{name}.safetensors") for name in ("one", "other"))
    assert one.identity() == other.identity() == detector.identity()
    assert Tiny(weights=tmp_path / "one.safetensors", power=2.0).identity() != one.identity()
    tensors = load_file(tmp_path / "other.safetensors")
    tensors["net.1.bias"][0] += 1
    files.save(tmp_path / "other.safetensors", "detector", tensors, files.Header("tiny", 1, detector.stored_params))
    assert Tiny(weights=tmp_path / "other.safetensors").identity() != one.identity()


def test_a_given_setting_holds_even_where_it_is_the_default_and_the_file_has_another(tmp_path: Path) -> None:
    trained(power=2.0).save(tmp_path / "tiny.safetensors")
    assert Tiny(weights=tmp_path / "tiny.safetensors").power == 2.0
    assert Tiny(weights=tmp_path / "tiny.safetensors", power=1.0).power == 1.0


def test_the_file_tells_which_outliers_were_learned_from(tmp_path: Path) -> None:
    few = {"epochs": 1, "batch": 16}
    learned = CEDA(training=few).fit(TRAIN, auxiliary_outliers=outliers())
    alone = CEDA(training=few).fit(TRAIN)
    for name, detector in (("learned", learned), ("alone", alone)):
        detector.save(tmp_path / f"{name}.safetensors")
    found = {name: CEDA(weights=tmp_path / f"{name}.safetensors").extra_data for name in ("learned", "alone")}
    assert found == {"learned": "noise", "alone": ""}
    files.save(
        tmp_path / "old.safetensors", "detector", alone.state_dict(), files.Header("ceda", 1, alone.stored_params)
    )
    assert CEDA(weights=tmp_path / "old.safetensors").extra_data is None


def test_before_training_the_identity_is_that_of_the_whole_recipe() -> None:
    assert Tiny().identity() == Tiny(training={"epochs": 2}).identity()
    assert Tiny().identity() != Tiny(training={"epochs": 3}).identity()
    assert Tiny().identity() != Tiny(preset="full").identity()


def test_a_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tiny.safetensors"
    trained().save(file)
    for params, message in [
        ({"preset": "full"}, "holds tiny with preset small, got full"),
        ({"training": {"epochs": 3}}, "holds a trained tiny: leave out training, got {'epochs': 3}"),
        ({"width": 5}, r"(?s)the weights do not fit tiny with .*'width': 5.*size mismatch"),
    ]:
        with pytest.raises(ValueError, match=message):
            Tiny(weights=file, **params)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"holds tiny, expected ae; farout\.detectors\.load reads any"):
        AE(weights=file)
    with pytest.raises(ValueError, match=r"with other settings: preset='small' \(expected 'full'\), width=2"):
        Tiny(preset="full").load(file)
    with pytest.raises(FileNotFoundError, match="no detector at"):
        AE(weights=tmp_path / "none.safetensors")
    save_file({INPUTS: torch.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="is damaged or holds no detector"):
        AE(weights=tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="tiny was trained on images of 3×32×32, got 1×28×28"):
        Tiny(weights=file).fit(farout.ImageSet.from_arrays(torch.zeros(4, 1, 28, 28).numpy()))
    with pytest.raises(farout.NotFitted, match="no weights to save"):
        Tiny().save(file)
