"""pytorch-ood's detectors, where the library is there; else those of a stand-in with its interface."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.adapters import PytorchOOD
from farout.identity import describe

TRAIN = farout.load("toy", "train", limit=90)
IMAGES = farout.load("toy").batch(range(20))


class RequiresFittingException(Exception):
    """As theirs."""


class Nearest:
    """With the interface of theirs: fitted on batches (images, labels), predicts on batches."""

    requires_fit = True

    def __init__(self, encoder: Any, k: int = 1) -> None:
        self.encoder, self.k, self.bank = encoder, k, None

    def fit(self, loader: Any) -> Nearest:
        self.bank = torch.cat([self.encoder(x) for x, y in loader if (y >= 0).all()])
        return self

    def predict(self, x: Tensor) -> Tensor:
        if self.bank is None:
            raise RequiresFittingException("You have to call fit() before predict()")
        return torch.cdist(self.encoder(x), self.bank).sort(1).values[:, self.k - 1]


class Around:
    """Holds the detector that holds the model, as MahalanobisODIN does."""

    requires_fit = True

    def __init__(self, inner: Any) -> None:
        self._base = inner

    def fit(self, loader: Any) -> Around:
        self._base.fit(loader)
        return self

    def predict(self, x: Tensor) -> Tensor:
        return self._base.predict(x)  # type: ignore[no-any-return]


class GradientDetector:
    """Needs gradients to predict."""

    requires_fit = False

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def fit(self, loader: Any) -> Any:
        return self

    def predict(self, x: Tensor) -> Tensor:
        x = x.requires_grad_()
        self.model(x).logsumexp(1).sum().backward()
        return x.grad.abs().sum((1, 2, 3))  # type: ignore[union-attr]


class Energy(GradientDetector):
    def predict(self, x: Tensor) -> Tensor:
        return -self.model(x).logsumexp(1)


@pytest.fixture
def network() -> farout.Network:
    return farout.networks.create("resnet20", 4, 32, mean=0.4, std=0.3, seed=2)


def encoder(network: farout.Network) -> Any:
    return nn.Sequential(network.module, nn.Flatten())


def test_scores_are_theirs_on_normalized_images(network: farout.Network) -> None:
    detector = PytorchOOD(Energy(network.module), normalize=network)
    panel = farout.Panel(network, ["ebo"])
    assert detector.score(IMAGES).numpy() == pytest.approx(panel.score(IMAGES)["ebo"], rel=1e-5)
    by_hand = PytorchOOD(Energy(network.module), normalize=lambda x: (x - 0.4) / 0.3)
    assert torch.allclose(by_hand.score(IMAGES), detector.score(IMAGES), rtol=1e-5)
    raw = PytorchOOD(Energy(network.module), normalize=None).score(IMAGES)
    with torch.no_grad():
        assert torch.allclose(raw, -network.module(IMAGES).logsumexp(1).double(), rtol=1e-5)
    assert not torch.allclose(raw, detector.score(IMAGES), rtol=1e-2)


def test_what_its_model_takes_must_be_said(network: farout.Network) -> None:
    for kind in (Energy, Nearest):
        with pytest.raises(
            TypeError, match=rf"normalize= is required for {kind.__name__}: normalize=network .*normalize=None"
        ):
            PytorchOOD(kind(network.module))


def test_draws_start_from_the_seed(network: farout.Network) -> None:
    class Drawing(Energy):
        def predict(self, x: Tensor) -> Tensor:
            return torch.rand(len(x))

    before = torch.get_rng_state()
    first, again, other = (
        PytorchOOD(Drawing(network.module), normalize=None, seed=seed).score(IMAGES) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_gradients_are_on_for_those_that_need_them(network: farout.Network) -> None:
    detector = PytorchOOD(GradientDetector(network.module), normalize=network)
    x = ((IMAGES - 0.4) / 0.3).requires_grad_()
    (gradient,) = torch.autograd.grad(network.module(x).logsumexp(1).sum(), x)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.allclose(detector.score(IMAGES), gradient.abs().sum((1, 2, 3)).double(), rtol=1e-4)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_it_is_fitted_in_a_copy_that_shares_the_model(network: farout.Network) -> None:
    theirs = Nearest(encoder(network), k=2)
    detector = PytorchOOD(theirs, normalize=network, name="mine")
    with pytest.raises(farout.NotFitted, match="mine is not fitted: call fit on inliers first"):
        detector.score(IMAGES)
    detector.fit(TRAIN)
    assert theirs.bank is None
    assert detector.fitted.encoder is theirs.encoder
    with torch.no_grad():
        bank = torch.cat([theirs.encoder((x - 0.4) / 0.3) for x in TRAIN])
        rows = theirs.encoder((IMAGES - 0.4) / 0.3)
    expected = [sorted(float((row - one).double().norm()) for one in bank)[1] for row in rows]
    assert detector.score(IMAGES).numpy() == pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    "kind", [Energy, GradientDetector, lambda model: Nearest(nn.Sequential(model, nn.Flatten()), 2)]
)
def test_it_passes_the_battery(kind: Any, network: farout.Network) -> None:
    detector = PytorchOOD(kind(network.module), normalize=network)
    assert [finding for finding in farout.check(detector, TRAIN.limit(30)) if finding.problem] == []


def test_the_model_of_a_detector_in_a_detector_is_found(network: farout.Network) -> None:
    plain, nested = (PytorchOOD(make(Nearest(encoder(network))), normalize=None) for make in (lambda x: x, Around))
    network.module.train()
    plain.fit(TRAIN)
    nested.fit(TRAIN)
    assert nested.fitted._base.encoder is nested.detector._base.encoder
    assert torch.equal(nested.score(IMAGES), plain.score(IMAGES))
    assert all(part.training for part in network.module.modules())


def test_modes_are_left_as_they_were(network: farout.Network) -> None:
    detector = PytorchOOD(Energy(network.module), normalize=network)
    expected = detector.score(IMAGES)
    network.module.train()
    assert torch.equal(detector.score(IMAGES), expected)
    assert all(part.training for part in network.module.modules())


def test_identity(network: farout.Network) -> None:
    base = describe(PytorchOOD(Nearest(network.module, 2), normalize=network))
    other = farout.networks.create("resnet20", 4, 32, mean=0.4, std=0.3, seed=3)
    assert base is not None
    assert base == describe(PytorchOOD(Nearest(network.module, 2), normalize=network, name="x"))
    fitted = PytorchOOD(Nearest(network.module, 2), normalize=network)
    fitted.fit(TRAIN)
    for different in (
        PytorchOOD(Nearest(network.module, 3), normalize=network),
        PytorchOOD(Nearest(other.module, 2), normalize=network),
        PytorchOOD(Nearest(network.module, 2), normalize=None),
        PytorchOOD(Nearest(network.module, 2), normalize=network, seed=1),
        PytorchOOD(Nearest(network.module, 2), normalize=F.relu),
        PytorchOOD(Nearest(network.module.forward, 2), normalize=network),
        fitted,
    ):
        assert describe(different) is not None
        assert describe(different) != base
    assert describe(PytorchOOD(Nearest(object()), normalize=network)) is None


def test_what_is_refused(network: farout.Network) -> None:
    with pytest.raises(TypeError, match=r"expected a detector object of pytorch-ood.* got the class Energy"):
        PytorchOOD(Energy)
    with pytest.raises(TypeError, match=r"expected a detector object .*got ResNet"):
        PytorchOOD(network.module)
    with pytest.raises(TypeError, match=r"normalize: expected a farout.Network, a function or None, got float"):
        PytorchOOD(Energy(network.module), normalize=0.5)  # type: ignore[arg-type]
    unlabeled = farout.load("noise", limit=10)
    with pytest.raises(ValueError, match="fits on labeled images, and 'noise' has no labels"):
        PytorchOOD(Nearest(network.module), normalize=None).fit(unlabeled)


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The library itself; skipped where it is absent."""
    if importlib.util.find_spec("pytorch_ood") is None or importlib.util.find_spec("torchvision") is None:
        pytest.skip("pytorch-ood is not installed")
    from farout.optional import mend_torchvision

    mend_torchvision()
    import pytorch_ood.detector

    return pytorch_ood.detector


@pytest.mark.parametrize(("name", "ours"), [("MaxSoftmax", "msp"), ("EnergyBased", "ebo"), ("MaxLogit", "mls")])
def test_logit_detectors_agree_with_ours(theirs: Any, network: farout.Network, name: str, ours: str) -> None:
    detector = PytorchOOD(getattr(theirs, name)(network.module), normalize=network)
    expected = farout.Panel(network, [ours]).score(IMAGES)[ours]
    shift = float(detector.score(IMAGES).mean()) - expected.mean()  # theirs may differ by a constant
    assert detector.score(IMAGES).numpy() - shift == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert describe(detector) is not None


def test_knn_agrees_with_ours(theirs: Any, network: farout.Network) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: Tensor) -> Tensor:
            return self.network(x).features

    detector = PytorchOOD(theirs.KNN(Encoder(), k=5), normalize=None)
    detector.fit(TRAIN)
    expected = farout.Panel(network, [farout.detectors.KNN(k=5)]).fit(TRAIN).score(IMAGES)["knn"]
    assert detector.score(IMAGES).numpy() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", ["MaxSoftmax", "ODIN", "Entropy", "KLMatching"])
def test_the_librarys_pass_the_battery(theirs: Any, network: farout.Network, name: str) -> None:
    detector = PytorchOOD(getattr(theirs, name)(network.module), normalize=network)
    assert [finding for finding in farout.check(detector) if finding.problem] == []
