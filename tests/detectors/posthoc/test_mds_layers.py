"""mds_layers against autograd image by image with explicit inverses; its regression against scikit-learn; its cost."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from farout import ImageSet, Network, Panel
from farout.core import Activations, NotFitted
from farout.detectors import MDS, MDSLayers
from farout.detectors.math.regression import logistic_regression
from farout.detectors.panel.sweeps import draw_subset

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
TRAIN = 150


class Small(nn.Module):
    """Two stages; it counts the images that pass."""

    block_names = ("first", "second")

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Softplus())
        self.second = nn.Sequential(nn.Conv2d(5, 4, 3, 2), nn.Softplus())
        self.linear = nn.Linear(4, 3)
        self.passed = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passed += len(x)
        logits: Tensor = self.linear(self.second(self.first(x)).mean((2, 3)))
        return logits


def network() -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module = Small()
    net = Network(module, mean=MEAN, std=STD)
    module.passed = 0
    return net


def pixels(total: int, seed: int = 0, shift: float = 0.0) -> Tensor:
    """Images whose color is that of their class, i modulo 3; `shift` adds stripes."""
    source = torch.Generator().manual_seed(seed)
    colors = 0.3 * torch.eye(3)[torch.arange(total) % 3].view(total, 3, 1, 1)
    stripes = shift * (torch.arange(8) % 2).float()
    return 0.2 + colors + 0.3 * torch.rand(total, 3, 8, 8, generator=source) + stripes


def images(total: int, seed: int = 0, shift: float = 0.0) -> ImageSet:
    return ImageSet.from_arrays(pixels(total, seed, shift), np.arange(total) % 3, name="images")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def reading(**blocks: Tensor) -> Activations:
    total = len(next(iter(blocks.values())))
    return Activations(torch.zeros(total, 2), torch.zeros(total, 2), means=blocks)


class Slow:
    """Lee et al.'s algorithm in float64: blocks run one after another, explicit inverses, one image at a time."""

    def __init__(self, train: Tensor, labels: list[int]) -> None:
        self.module = copy.deepcopy(network().module).double()
        self.means, self.inverses = [], []
        self.typical = []
        rows = [self.blocks(x[None]) for x in train.double()]
        for block in range(2):
            features = np.stack([row[block].detach().numpy()[0] for row in rows])
            means = [np.mean([f for f, y in zip(features, labels, strict=True) if y == k], 0) for k in range(3)]
            total = np.zeros((features.shape[1], features.shape[1]))
            for f, y in zip(features, labels, strict=True):
                total += np.outer(f - means[y], f - means[y]) / len(features)
            self.means.append(torch.from_numpy(np.stack(means)))
            self.inverses.append(torch.from_numpy(np.linalg.inv(total)))
            self.typical.append(np.mean([self.distance(row[block][0], block).item() for row in rows]))

    def blocks(self, x: Tensor) -> list[Tensor]:
        mean, std = (torch.tensor(v).double().view(1, 3, 1, 1) for v in (MEAN, STD))
        first = self.module.first((x - mean) / std)
        return [first.mean((2, 3)), self.module.second(first).mean((2, 3))]

    def distance(self, feature: Tensor, block: int) -> Tensor:
        gaps = [feature - mean for mean in self.means[block]]
        return min((gap @ self.inverses[block] @ gap for gap in gaps), key=lambda d: d.item())

    def distances(self, image: Tensor, epsilon: float) -> list[float]:
        """M_l of one image, each at an image perturbed for it."""
        result = []
        for block in range(2):
            x = image.double()[None].requires_grad_()
            self.distance(self.blocks(x)[block][0], block).backward()
            assert x.grad is not None
            moved = (x - epsilon * x.grad.sign()).detach()
            result.append(self.distance(self.blocks(moved)[block][0], block).item())
        return result


@pytest.fixture(scope="module")
def slow() -> Slow:
    return Slow(pixels(TRAIN), [i % 3 for i in range(TRAIN)])


def fitted(net: Network, **params: Any) -> MDSLayers:
    detector = MDSLayers(**params)
    Panel(net, [detector]).fit(images(TRAIN))
    return detector


@pytest.mark.parametrize("epsilon", [0.0, 0.0014, 0.05])
def test_the_distances_are_those_of_perturbed_images(epsilon: float, slow: Slow) -> None:
    test = pixels(12, 1, shift=0.1)
    precise = network().double()
    detector = MDSLayers(epsilon=epsilon)
    with torch.no_grad():
        detector.fit(precise(pixels(TRAIN).double(), needs={"means"}), torch.arange(TRAIN) % 3)
        seen = detector.perturbed_pass(precise, test.double())
    expected = np.array([slow.distances(image, epsilon) for image in test])
    np.testing.assert_allclose(detector.score(seen), (expected / slow.typical).sum(1), rtol=1e-8)


def test_a_panel_gives_these_distances_in_the_precision_of_its_network(slow: Slow) -> None:
    net, test = network(), pixels(40, 1, shift=0.1)
    scores = Panel(net, {"mds_layers": MDSLayers()}).fit(images(TRAIN)).score(test)["mds_layers"]
    assert scores.dtype == np.float64
    expected = [(np.array(slow.distances(image, 0.0014)) / slow.typical).sum() for image in test]
    np.testing.assert_allclose(scores, expected, rtol=1e-4)


def test_without_a_step_every_block_is_mds_on_its_means() -> None:
    net = network()
    with torch.no_grad():
        train, test = (net(x, needs={"means"}) for x in (pixels(TRAIN), pixels(20, 1, 0.2)))
    labels, expected = torch.arange(TRAIN) % 3, torch.zeros(20).double()
    for name in net.block_names:
        alone = MDS().fit(Activations(train.logits, train.means[name]), labels)
        typical = alone.score(Activations(train.logits, train.means[name])).mean()
        expected += alone.score(Activations(test.logits, test.means[name])) / typical
    detector = MDSLayers(epsilon=0.0).fit(train, labels)
    torch.testing.assert_close(detector.score(test), expected, rtol=1e-12, atol=0)
    assert detector.score(train).mean().item() == pytest.approx(len(net.block_names), rel=1e-12)


def test_long_tables_are_fitted_as_short_ones() -> None:
    rows, labels = draw(2600, 3) + 4, torch.arange(2600) % 4
    detector = MDSLayers(epsilon=0.0).fit(reading(block=rows), labels)
    whole = MDS().fit(Activations(rows, rows), labels).score(Activations(rows, rows))
    assert detector.fitted("weights").tolist() == pytest.approx([1 / whole.mean().item()], rel=1e-12)


def test_fewer_images_than_channels_leave_directions_out() -> None:
    rows, test, labels = draw(12, 20), draw(5, 20, seed=1), np.arange(12) % 3
    means = np.stack([rows.numpy()[labels == k].mean(0) for k in range(3)])
    gaps = rows.numpy() - means[labels]
    inverse = scipy.linalg.pinvh(gaps.T @ gaps / 12)
    expected = [min((q - m) @ inverse @ (q - m) for m in means) for q in test.numpy()]
    detector = MDSLayers(epsilon=0.0).fit(reading(block=rows), torch.from_numpy(labels))
    np.testing.assert_allclose(detector.score(reading(block=test)) / detector.state["weights"], expected, rtol=1e-7)


def test_every_block_sees_a_step_of_epsilon_towards_its_nearest_class() -> None:
    net, given = network(), pixels(20, 1)
    detector = fitted(net, epsilon=0.002)
    before = detector._distances(MDSLayers(epsilon=0.0).perturbed_pass(net, given))
    after = detector._distances(detector.perturbed_pass(net, given))
    assert (after < before).all()
    signs = detector.signs(net, given)
    assert set(signs) == {"first", "second"}
    assert set(torch.stack(list(signs.values())).unique().tolist()) <= {-1.0, 0.0, 1.0}
    assert not torch.equal(signs["first"], signs["second"])


@pytest.mark.parametrize(("epsilon", "passes"), [(0.0, 0), (0.0014, 3)])
def test_it_costs_a_pass_and_a_gradient_per_block_and_one_pass_more(epsilon: float, passes: int) -> None:
    net = network()
    panel = Panel(net, ["msp", MDSLayers(epsilon=epsilon)]).fit(images(TRAIN))
    assert net.module.passed == TRAIN
    panel.score(pixels(70, 1))
    assert net.module.passed == TRAIN + 70 * (1 + passes)
    assert panel.detectors["mds_layers"].perturbs == bool(passes)


@pytest.mark.parametrize(
    ("gap", "inliers", "outliers"), [(0.0, 50, 50), (0.7, 300, 200), (2.0, 1, 400), (50.0, 30, 30)]
)
def test_the_regression_is_that_of_scikit_learn(gap: float, inliers: int, outliers: int) -> None:
    scale, shift = torch.tensor([1e-3, 1.0, 1e5]), torch.tensor([5.0, 0.0, -2.0])
    near, far = (scale * (draw(n, 3, seed=n) + shift + gap * k) for n, k in ((inliers, 0), (outliers + 1, 1)))
    weights, constant = logistic_regression(near, far)
    rows = torch.cat([near, far]).numpy()
    mean, deviation = rows.mean(0), rows.std(0)
    theirs = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    theirs.fit((rows - mean) / deviation, [0] * len(near) + [1] * len(far))
    np.testing.assert_allclose(weights.numpy() * deviation, theirs.coef_[0], rtol=1e-6)
    odds = torch.from_numpy(rows) @ weights + constant
    np.testing.assert_allclose(odds, theirs.decision_function((rows - mean) / deviation), rtol=1e-6, atol=1e-7)


def test_groups_that_are_perfectly_separable_have_finite_weights() -> None:
    near, far = torch.tensor([[1.0, 7.0], [1.1, 7.0]]).double(), torch.tensor([[1e9, 7.0]]).double()
    weights, constant = logistic_regression(near, far)
    assert torch.cat([weights, constant[None]]).isfinite().all()
    assert weights[0] > 0
    assert weights[1] == 0, "a column that does not vary says nothing"
    assert (near @ weights + constant).max() < 0 < (far @ weights + constant).min()


def test_supervised_scores_are_the_log_odds() -> None:
    net, detector = network(), MDSLayers()
    val, outliers = images(90, 1), images(60, 2, shift=0.12)
    panel = Panel(net, [detector]).fit(images(TRAIN), val, outliers)
    assert detector.state["supervised"].item() is True
    with torch.no_grad():
        learned = fitted(net)  # the same without outliers
        far, all_near = (learned._distances(learned.perturbed_pass(net, pixels(*a))) for a in ((60, 2, 0.12), (90, 1)))
    weights, constant = detector.state["weights"], detector.state["constant"]
    np.testing.assert_allclose(all_near @ weights + constant, panel.validation["mds_layers"], rtol=1e-4, atol=1e-5)
    numbers = ImageSet.from_arrays(np.zeros((90, 1, 1, 1), np.float32), np.arange(90), name="numbers")
    expected_weights, expected_constant = logistic_regression(all_near[draw_subset(numbers, 60).labels], far)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-4, atol=1e-8)
    torch.testing.assert_close(constant, expected_constant, rtol=1e-4, atol=1e-8)


def test_outliers_that_lie_closer_than_inliers_are_found_only_with_supervision() -> None:
    labels = torch.arange(300) % 3
    rows, near, far = draw(300, 4), draw(100, 4, seed=1), 0.05 * draw(100, 4, seed=2)
    detector = MDSLayers(epsilon=0.0).fit(reading(a=rows, b=draw(300, 2, seed=3)), labels)
    inliers, outliers = reading(a=near, b=draw(100, 2, seed=4)), reading(a=far, b=draw(100, 2, seed=5))

    def auroc() -> float:
        scores = torch.cat([detector.score(inliers), detector.score(outliers)])
        return float(roc_auc_score([0] * 100 + [1] * 100, scores))

    assert detector.state["supervised"].item() is False
    assert auroc() < 0.3
    detector.supervise(inliers, outliers)
    assert detector.state["supervised"].item() is True
    assert detector.state["weights"][0] < 0
    assert auroc() > 0.95
    detector.fit(reading(a=rows, b=draw(300, 2, seed=3)), labels)
    assert detector.state["supervised"].item() is False
    assert auroc() < 0.3


@pytest.mark.parametrize("learn", [False, True])
def test_mds_layers_finds_striped_images(learn: bool) -> None:
    panel = Panel(network(), [MDSLayers()])
    panel.fit(images(300), images(100, 5), images(100, 6, shift=0.15) if learn else None)
    scores = panel.score(torch.cat([pixels(150, 1), pixels(150, 2, shift=0.15)]))["mds_layers"]
    assert roc_auc_score([0] * 150 + [1] * 150, scores) > 0.95


@pytest.mark.parametrize("learn", [False, True])
def test_a_saved_mds_layers_is_the_same(learn: bool, tmp_path: Path) -> None:
    net, test = network(), pixels(30, 3, 0.1)
    panel = Panel(net, {"mine": MDSLayers(epsilon=0.01)})
    panel.fit(images(TRAIN), images(60, 1), images(60, 2, 0.1) if learn else None)
    panel.save(tmp_path / "panel.safetensors")
    loaded = Panel.load(tmp_path / "panel.safetensors", net)
    assert loaded.detectors["mine"] == panel.detectors["mine"]
    assert loaded.detectors["mine"].state["supervised"].item() is learn
    np.testing.assert_array_equal(loaded.score(test)["mine"], panel.score(test)["mine"])


def test_gradients_reach_images_with_their_steps_held_fixed() -> None:
    net, given = network(), pixels(3, 4, 0.1).requires_grad_()
    detector = MDSLayers(epsilon=0.02)
    score = Panel(net, [detector]).fit(images(TRAIN))["mds_layers"].score(given)
    (gradient,) = torch.autograd.grad(score.sum(), given)
    expected = torch.zeros_like(given)
    for weight, (name, sign) in zip(detector.state["weights"], detector.signs(net, given).items(), strict=True):
        moved = (given.detach() - 0.02 * sign).requires_grad_()
        (weight * detector._nearest(name, net(moved, needs={"means"}).means[name]).sum()).backward()
        assert moved.grad is not None
        expected += moved.grad
    torch.testing.assert_close(gradient, expected)
    assert gradient.abs().max() > 0


def test_mds_layers_leaves_network_and_images_as_they_were() -> None:
    net, given = network(), pixels(5)
    panel = Panel(net, [MDSLayers()]).fit(images(TRAIN))
    net.train()
    net.module.first[0].weight.requires_grad_(False)
    net.zero_grad(set_to_none=True)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    plain = panel.score(given)["mds_layers"]
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            np.testing.assert_array_equal(panel.score(given * 1)["mds_layers"], plain)
    np.testing.assert_array_equal(panel["mds_layers"].score(given), plain)
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert [parameter.requires_grad for parameter in net.parameters()] == [False] + [True] * 5
    assert all(part.training for part in net.modules())
    assert not given.requires_grad


def test_a_network_without_blocks_is_read_by_its_features() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.Tanh(), nn.Linear(6, 3))
    net = Network(module, mean=0.5, std=0.25, side=8)
    scores = Panel(net, [MDSLayers(epsilon=0.0), "mds", MDSLayers(epsilon=0.01)])
    plain, mds, moved = scores.fit(images(TRAIN)).score(pixels(20, 1)).values()
    np.testing.assert_allclose(plain / plain[0], mds / mds[0], rtol=1e-9)
    assert (moved < plain).all()


def test_no_images_give_no_scores() -> None:
    detector = MDSLayers(epsilon=0.0).fit(reading(a=draw(30, 4)), torch.arange(30) % 3)
    scores = detector.score(reading(a=draw(0, 4)))
    assert scores.shape == (0,)
    assert scores.dtype == torch.float64


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_block_that_does_not_vary_is_named(value: float) -> None:
    flat = torch.full((31, 4), value, dtype=torch.float64)  # sums of 0.1 are not exact, so its variance is not 0
    with pytest.raises(ValueError, match="the means of block 'b' do not vary within 3 classes on 31 training images"):
        MDSLayers().fit(reading(a=draw(31, 4), b=flat), torch.arange(31) % 3)


def test_one_image_per_class_is_too_few_and_one_class_of_one_is_not() -> None:
    with pytest.raises(ValueError, match="the means of block 'a' do not vary within 5 classes on 5 training images"):
        MDSLayers().fit(reading(a=draw(5, 3)), torch.arange(5))
    labels = torch.tensor([0] * 20 + [1])
    scores = MDSLayers(epsilon=0.0).fit(reading(a=draw(21, 3)), labels).score(reading(a=draw(21, 3)))
    assert scores[20].item() == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf])
def test_impossible_steps_are_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match=f"epsilon must be at least 0 and finite, got {epsilon}"):
        MDSLayers(epsilon=epsilon)


def test_what_mds_layers_cannot_work_with_is_said() -> None:
    rows, labels = draw(30, 4), torch.arange(30) % 3
    with pytest.raises(ValueError, match="mds_layers needs the class of every training image"):
        MDSLayers().fit(reading(a=rows), None)
    with pytest.raises(ValueError, match="reads the blocks' means, and these activations have none"):
        MDSLayers().fit(Activations(rows, rows), labels)
    with pytest.raises(NotFitted, match="mds_layers is not fitted: call fit on the inliers' train split"):
        MDSLayers().score(reading(a=rows))
    with pytest.raises(NotFitted):
        MDSLayers().supervise(reading(a=rows), reading(a=rows))
    with pytest.raises(NotFitted):
        MDSLayers().perturbed_pass(network(), pixels(2))
    detector = MDSLayers().fit(reading(a=rows), labels)
    with pytest.raises(ValueError, match="mds_layers got no outliers to learn from"):
        detector.supervise(reading(a=rows), reading(a=rows[:0]))
    rows = rows.clone()
    rows[3, 1] = math.nan
    with pytest.raises(ValueError, match="the blocks of the inliers to learn from gave NaN or infinity"):
        detector.supervise(reading(a=rows), reading(a=draw(5, 4)))
    assert detector.state["supervised"].item() is False
    with pytest.raises(ValueError, match="block 'a' gives NaN or infinity on training images"):
        MDSLayers().fit(reading(a=rows), labels)
