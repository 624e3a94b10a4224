"""Where pytorch-ood 0.4 computes something else than the paper, the difference is what docs/detectors.md says."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from farout.core import Activations
from farout.detectors import (
    ASH,
    GEN,
    KLM,
    MDS,
    MSP,
    ODIN,
    SHE,
    Entropy,
    GradNorm,
    NNGuide,
    ReAct,
    Scale,
    TempScaling,
    ViM,
)
from farout.detectors.posthoc.temp_scaling import cross_entropy
from farout.networks.network import Network
from farout.rng import numpy_generator
from helpers.peer import Case, images, load, network_case, random_case, same_order, small_network, worst

peers = load()


@pytest.fixture(scope="module")
def network() -> Network:
    return small_network()


@pytest.fixture(scope="module")
def case(network: Network) -> Case:
    return network_case(network)


def confident(*gaps: float) -> Activations:
    """Two images or more, the first class ahead of nine others by these logits."""
    logits = torch.zeros(len(gaps), 10)
    logits[:, 0] = torch.tensor(gaps)
    return Activations(logits, torch.zeros(len(gaps), 1))


@pytest.mark.parametrize("name", ["MaxSoftmax", "Entropy", "GEN"])
def test_softmax_in_float32_ties_confident_images(name: str) -> None:
    sure = confident(20.0, 40.0)
    ours = {"MaxSoftmax": MSP, "Entropy": Entropy, "GEN": GEN}[name]().score(sure)
    theirs = getattr(peers, name)(None).predict_logits(sure.logits)
    assert abs(theirs[0] - theirs[1]) <= 2**-23  # the last bit of gen depends on the place in memory
    assert ours[0] > 1.5 * ours[1] > 0


def test_entropy_clips_probabilities() -> None:
    """p is held in [1e-7, 1], so no entropy falls below nine times 1e-7·log 1e7."""
    sure = confident(14.0, 17.0, 40.0)
    clipped = sure.logits.double().softmax(1).clamp(1e-7, 1)
    undone = -(clipped * clipped.log()).sum(1)
    lost = 9 * 2**-24  # float32 may round each of nine small terms away, in an order that depends on the processor
    assert peers.Entropy(None).predict_logits(sure.logits).tolist() == pytest.approx(
        undone.tolist(), rel=1e-5, abs=lost
    )
    assert undone[2] == pytest.approx(9e-7 * np.log(1e7), rel=1e-6)
    assert Entropy().score(sure)[2] < 1e-14


def test_gen_clamps_probabilities() -> None:
    """p is held in [1e-7, 1 − 1e-7]; in float32 the upper end is 1 − 2⁻²³."""
    sure = confident(8.0, 14.0, 40.0)  # at 17 it depends on the processor whether float32 gives 1
    clamped = sure.logits.double().softmax(1).clamp(1e-7, 1 - 2**-23)
    undone = (clamped * (1 - clamped)).pow(0.1).sum(1)
    theirs = 10 * peers.GEN(None).predict_logits(sure.logits).double()
    assert theirs.tolist() == pytest.approx(undone.tolist(), rel=1e-3)  # 1 − p in float32, to the power .1
    ours = GEN().score(sure)
    assert ours[0] == pytest.approx(float(theirs[0]), rel=1e-4)
    assert theirs[2] > 10 * ours[2]


def test_temperature_stops_before_the_minimum(case: Case) -> None:
    """From T = 1, 50 steps of rate .01; with T put right the scores agree."""
    labels = noisy(case)
    theirs = peers.TemperatureScaling(None).fit_logits(case.val.logits, labels)
    ours = TempScaling().fit(case.val, labels)
    found, best = theirs.t.item(), ours.state["temperature"].item()
    assert 1.05 < found < 0.8 * best
    assert cross_entropy(case.val, labels, best)[0] < cross_entropy(case.val, labels, found)[0] - 0.01
    theirs.t = torch.nn.Parameter(torch.tensor(best, dtype=torch.float32))
    assert worst(1 + theirs.predict_logits(case.test.logits).detach(), ours.score(case.test)) < 1e-5


def test_temperature_of_openood(case: Case) -> None:
    """From T = 1.5 the same steps are OpenOOD's."""
    theirs = peers.TemperatureScaling(None)
    theirs.t = torch.nn.Parameter(torch.tensor(1.5))
    theirs.fit_logits(case.val.logits, noisy(case))
    ours = TempScaling(variant="openood").fit(case.val, noisy(case))
    assert theirs.t.item() == pytest.approx(ours.state["temperature"].item(), rel=1e-4)


def noisy(case: Case) -> Tensor:
    """Labels of the validation split, every other one wrong: a temperature well above 1 is best."""
    labels = case.val.logits.argmax(1)
    labels[::2] = (labels[::2] + 3) % 10
    return labels


def test_klm_leaves_out_classes_that_are_never_predicted() -> None:
    """The paper has a d_k for every class. An image that is surely of a class unseen in validation is close to ours."""
    val = Activations(torch.randn(300, 10, generator=torch.Generator().manual_seed(0)), torch.zeros(300, 1))
    val.logits[:, 9] = -5
    sure = Activations(60 * torch.eye(10)[9:], torch.zeros(1, 1))
    ours = KLM().fit(val, None).score(sure)
    theirs = peers.KLMatching(None).fit_logits(val.logits).predict_logits(sure.logits)
    assert ours < 1e-6
    assert theirs > 5


def test_klm_in_float32_runs_into_zeros() -> None:
    """A share of e^−110 is 0 in float32, and its logarithm then stands in as −3e38; in float64 it is −110."""
    val = confident(110.0, 110.0)
    doubtful = confident(4.0)
    theirs = peers.KLMatching(None).fit_logits(val.logits).predict_logits(doubtful.logits)
    shares = doubtful.logits.double().softmax(1)
    expected = (shares * shares.log()).sum() + 110 * (1 - shares[0, 0])
    one = peers.KLMatching(None).fit_logits(confident(60.0).logits).predict_logits(doubtful.logits)
    assert theirs > 1e36
    assert KLM().fit(val, None).score(doubtful).item() == pytest.approx(expected.item(), rel=1e-9)
    assert one.item() == pytest.approx(KLM().fit(confident(60.0), None).score(doubtful).item(), rel=1e-5)


def odin_scores(network: Network, detector: ODIN, given: Tensor) -> Tensor:
    return detector.score(detector.perturbed_pass(network, given)).detach()


@pytest.fixture(scope="module")
def double_network(network: Network) -> Network:
    """In float64 throughout, where signs of tiny gradients do not depend on the order of sums."""
    return copy.deepcopy(network).double()


def test_odin_agrees_in_pixels(double_network: Network) -> None:
    """With norm_std its step on normalized images is the paper's in pixels."""
    given = images(16, seed=5).double()
    theirs = peers.ODIN(double_network.module, norm_std=[0.25] * 3).predict(double_network.normalize(given))
    assert worst(1 + theirs, odin_scores(double_network, ODIN(), given)) < 1e-12


def test_odin_without_norm_std_steps_in_normalized_units(double_network: Network) -> None:
    """Its default: the step is ε·std pixels, a quarter here."""
    given = images(16, seed=5).double()
    theirs = 1 + peers.ODIN(double_network.module).predict(double_network.normalize(given))
    assert worst(theirs, odin_scores(double_network, ODIN(epsilon=0.0014 * 0.25), given)) < 1e-12
    assert worst(theirs, odin_scores(double_network, ODIN(), given)) > 1e-6


def test_odin_in_float32_ranks_alike(network: Network) -> None:
    """At T = 1000 max p is hardly more than 1/C, where float32 has steps of 7e-9: digits go, the order stays."""
    given = images(64, seed=5)
    ours = odin_scores(network, ODIN(), given)
    theirs = peers.ODIN(network.module, norm_std=[0.25] * 3).predict(network.normalize(given))
    assert same_order(theirs, ours) > 0.999
    assert float((1 + theirs.double() - ours).abs().max()) > 1e-9


def test_gradnorm_reads_every_parameter_unless_told(case: Case) -> None:
    """Its default filter takes the bias in too: Σ|C·p − 1| more on a single layer, the whole network otherwise."""
    theirs = 10 * peers.GradNorm(case.linear).predict(case.test.features).double()
    bias = (10 * case.test.logits.double().softmax(1) - 1).abs().sum(1)
    ours = GradNorm().score(case.test)
    assert worst(theirs + bias, ours) < 1e-5
    assert worst(theirs, ours) > 1e-3


def test_vim_decomposes_in_float32(case: Case) -> None:
    """Far from the origin u the small eigenvectors are lost in float32: digits go, the order nearly stays."""
    theirs = peers.ViM(None, 32, case.linear.weight, case.linear.bias)
    scores = theirs.fit_features(case.train.features, case.labels).predict_features(case.test.features)
    ours = case.ours(ViM(dim=32))
    assert 1e-3 < worst(scores, ours) < 0.1
    assert same_order(scores, ours) > 0.999


def test_vim_halves_a_dimension_that_does_not_fit(case: Case) -> None:
    theirs = peers.ViM(None, 256, case.linear.weight, case.linear.bias)
    assert theirs.fit_features(case.train.features, case.labels).d == 32
    with pytest.raises(ValueError, match="dim=256 leaves no residual of 64 features"):
        case.ours(ViM(dim=256))


def test_mds_adds_a_ridge() -> None:
    """1e-6 on the scatter's diagonal: a feature that is constant in training weighs 1e6, where ours leaves it out."""
    case = random_case()
    constant = torch.zeros(len(case.train), 1)
    theirs = peers.Mahalanobis(None).fit_features(torch.cat([case.train.features, constant], 1), case.labels)
    moved = torch.cat([case.test.features, torch.full((len(case.test), 1), 0.01)], 1)
    added = 0.5 * 0.01**2 / 1e-6
    undone = 2 * len(case.train) * (theirs.predict_features(moved).double() - added)
    assert worst(undone, case.ours(MDS())) < 1e-2  # 50 is taken off a float32 that is a thousandth of that
    train = Activations(case.train.logits, torch.cat([case.train.features, constant], 1))
    ours = MDS().fit(train, case.labels).score(Activations(case.test.logits, moved))
    assert worst(ours, case.ours(MDS())) < 1e-9


def test_defaults(case: Case, network: Network) -> None:
    """Its defaults that are not the papers' (or ours), and parameters without one."""
    assert peers.ASH(None, None).percentile == peers.SCALE(None, None).percentile == 0.65
    assert peers.NNGuide(None, None).k == 10
    assert list(peers.Gram(None, [network, network], 10).num_poles_list) == [1, 2]
    for make, missing in ((peers.DICE, "'p'"), (peers.ViM, "'d'")):
        with pytest.raises(TypeError, match=missing):
            make(encoder=None, w=case.linear.weight, b=case.linear.bias)


def test_scale_refuses_maps_with_channels_last(network: Network) -> None:
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        peers.SCALE(None, network.module.linear).predict_feature_maps(maps_of(network, images(2, seed=0)))


def maps_of(network: Network, given: Tensor) -> Tensor:
    return network(given, needs=("blocks",)).blocks["layer3"]


@torch.no_grad()
def test_shaping_maps_is_not_shaping_features(network: Network, case: Case) -> None:
    """Its examples shape the maps before pooling; the papers' (and OpenOOD's) pooled features rank otherwise."""
    linear, maps = network.module.linear, maps_of(network, images(200, seed=2))
    head = lambda shaped: linear(shaped.mean((2, 3)))  # noqa: E731
    react = peers.ReAct(None, head).fit_feature_maps(maps_of(network, images(400, seed=1)), torch.zeros(400))
    orders = {
        "react": same_order(react.predict_feature_maps(maps), case.ours(ReAct())),
        "ash": same_order(peers.ASH(None, head, "ash-s", 0.9).predict_feature_maps(maps), case.ours(ASH())),
        "scale": same_order(peers.SCALE(None, head, 0.85).predict_feature_maps(maps.contiguous()), case.ours(Scale())),
    }
    assert all(order < 0.999 for order in orders.values()), orders


def test_nnguide_takes_all_images_into_its_bank(case: Case) -> None:
    """The subset is left to the user: fitted on the images that ours draws, it gives ours."""
    train = Activations(*(torch.cat([part, part.flip(0)]) for part in (case.train.logits, case.train.features)))
    ours = NNGuide(k=10, seed=1).fit(train, None)
    chosen = np.sort(numpy_generator(1, "nnguide").choice(len(train), 1000, replace=False))
    assert len(train) > 1000
    labels = torch.zeros(len(train))
    subset = peers.NNGuide(None, case.head).fit_features(train.features[chosen], labels[chosen])
    everything = peers.NNGuide(None, case.head).fit_features(train.features, labels)
    assert worst(subset.predict_features(case.test.features), ours.score(case.test)) < 1e-5
    assert worst(everything.predict_features(case.test.features), ours.score(case.test)) > 1e-4


def test_she_refuses_a_class_without_correct_images(case: Case) -> None:
    labels = case.labels.clone()
    labels[labels == 0] = 1
    labels[0] = 0 if case.labels[0] != 0 else 1
    labels[1] = 0 if case.labels[1] != 0 else 1
    with pytest.raises(ValueError, match="No correct predictions for class 0"):
        peers.SHE(None, case.head).fit_features(case.train.features, labels)
    assert SHE().fit(case.train, labels).score(case.test).isfinite().all()
