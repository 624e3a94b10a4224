"""Fitted state of detectors: what is kept, what cannot be, and that a restored detector scores alike."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from torch import nn

import farout
from farout.detectors.fitted_state import NotSerializable, accepted_arguments, capture, restore

IMAGES = torch.rand(8, 3, 4, 4, generator=torch.Generator().manual_seed(0))


class Plain(farout.Detector):
    """Holds all that can be kept."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 1))
        self.net.eval()
        self.settings = {"power": 2}
        self.temporary = "before"

    def fit(self, images: object) -> None:
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            self.net[1].running_mean.normal_(generator=generator)
            self.net[2].weight.normal_(generator=generator)
        self.shift = np.float64(0.25)
        self.bank = [torch.arange(3.0), (np.arange(2), {"a": None, 1: float("inf")})]
        self.settings["power"] = 3
        del self.temporary

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images)[:, 0] ** self.settings["power"] + float(self.shift) + self.bank[0].sum()


def fitted(make: type[farout.Detector]) -> farout.Detector:
    detector = make()
    detector.fit(None)  # type: ignore[arg-type]
    return detector


def test_a_restored_detector_holds_and_scores_the_same() -> None:
    detector = fitted(Plain)
    again = restore(Plain(), capture(detector, Plain, IMAGES))
    assert torch.equal(again.score(IMAGES), detector.score(IMAGES))
    assert torch.equal(again.net[1].running_mean, detector.net[1].running_mean)
    assert again.settings == {"power": 3}
    assert not hasattr(again, "temporary")
    tensor, (array, pairs) = again.bank
    assert torch.equal(tensor, torch.arange(3.0))
    assert isinstance(array, np.ndarray)
    assert pairs == {"a": None, 1: float("inf")}


class WithStateDict(farout.Detector):
    """Says itself what is to be kept."""

    def fit(self, images: object) -> None:
        self.net = nn.Linear(3, 1)  # made by fit, which only a state_dict can help

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images.mean((2, 3)))[:, 0]

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {} if not hasattr(self, "net") else self.net.state_dict()

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.net = nn.Linear(3, 1)
        self.net.load_state_dict(state)


class Arrays(farout.Detector):
    """Holds arrays of unusual layouts and types, and a module that fit() puts into eval mode."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.5))

    def fit(self, images: object) -> None:
        self.net.eval()
        self.reversed = np.arange(6.0)[::-1]
        self.transposed = torch.arange(6.0).reshape(2, 3).T
        self.big_endian = np.array([1.5, 2.5], ">f4")
        self.names = np.array([["cat", "dog\u2028"], ["", "bird"]])
        self.nothing = np.empty((0, 2), "<U3")
        self.scalars = np.float32(0.1), np.float64(0.1), np.int64(7)
        self.parameter = nn.Parameter(torch.ones(3))

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images).mean((2, 3)) @ self.parameter + float(self.reversed[0])


def test_values_come_back_with_their_types() -> None:
    detector = fitted(Arrays)
    again = vars(restore(Arrays(), capture(detector, Arrays, IMAGES)))
    for name, value in vars(detector).items():
        assert type(again[name]) is type(value), name
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(again[name], value)
            assert (again[name].dtype, again[name].shape) == (value.dtype.newbyteorder("="), value.shape)
    assert [type(one) for one in again["scalars"]] == [np.float32, np.float64, np.int64]
    assert again["scalars"] == detector.scalars
    assert torch.equal(again["transposed"], detector.transposed)
    assert not any(part.training for part in again["net"].modules())


def test_a_state_dict_comes_first() -> None:
    detector = fitted(WithStateDict)
    again = restore(WithStateDict(), capture(detector, WithStateDict, IMAGES))
    assert torch.equal(again.score(IMAGES), detector.score(IMAGES))


class MadeByFit(WithStateDict):
    state_dict = load_state_dict = property()  # type: ignore[assignment]  # as if there were none


class HoldsAnObject(Plain):
    def fit(self, images: object) -> None:
        self.model = iter([])


class HoldsADefault(Plain):
    def fit(self, images: object) -> None:
        self.counts = defaultdict(float, a=1.0)


class HoldsComplexNumbers(Plain):
    def fit(self, images: object) -> None:
        self.spectrum = np.ones(2, complex)


class RegistersABuffer(Plain):
    def fit(self, images: object) -> None:
        self.net.register_buffer("center", torch.ones(3))  # repr() does not show buffers


class ModuleThatGrows(farout.Detector, nn.Module):
    def __init__(self) -> None:
        nn.Module.__init__(self)

    def fit(self, images: object) -> None:
        self.head = nn.Linear(48, 1)

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(images.flatten(1))[:, 0]


class NeedsMoreImages(Plain):
    def score(self, images: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"need at least 16 images, got {len(images)}")


HIDDEN: list[float] = []


class HoldsOutside(farout.Detector):
    """Its state is in a global of another module, so that a fresh object knows nothing of it."""

    def fit(self, images: object) -> None:
        HIDDEN.append(1.0)
        self.me = len(HIDDEN)
        type(self).last = id(self)  # type: ignore[attr-defined]

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((1, 2, 3)) + (type(self).last == id(self))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (MadeByFit, "attribute net is a module that fit\\(\\) creates"),
        (HoldsAnObject, "attribute model is a list_iterator"),
        (HoldsADefault, "attribute counts is a defaultdict"),
        (HoldsComplexNumbers, "attribute spectrum is an array of complex128"),
        (RegistersABuffer, "raised RuntimeError: Error.* in loading state_dict for Sequential"),
        (ModuleThatGrows, "raised RuntimeError: Error.* in loading state_dict for ModuleThatGrows"),
        (NeedsMoreImages, "raised ValueError: need at least 16 images, got 8"),
        (HoldsOutside, "holds state outside its attributes"),
    ],
)
def test_what_cannot_be_kept_is_said(make: type[farout.Detector], why: str) -> None:
    with pytest.raises(NotSerializable, match=why):
        capture(fitted(make), make, IMAGES)


def test_fit_gets_what_it_names() -> None:
    class All(farout.Detector):
        def fit(self, train, *, val=None, outliers=None, seed=0):  # type: ignore[no-untyped-def, override]
            pass

    assert accepted_arguments(All()) == ("val", "outliers", "seed")
    assert accepted_arguments(Plain()) == ()
