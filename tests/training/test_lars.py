"""LARS beside its formula in float64."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from farout.training.lars import LARS

Array = NDArray[np.float64]
X = np.random.default_rng(0).normal(size=(12, 5))
Y = np.random.default_rng(1).normal(size=(12, 3))
START: dict[str, Array] = {
    "weight": np.random.default_rng(2).normal(size=(3, 5)),
    "bias": np.array([0.5, -1.0, 2.0]),
}


def model(dtype: torch.dtype = torch.float64) -> nn.Linear:
    linear = nn.Linear(5, 3, dtype=dtype)
    linear.load_state_dict({name: torch.from_numpy(value) for name, value in START.items()})
    return linear


def loss_of(linear: nn.Linear) -> torch.Tensor:
    dtype = linear.weight.dtype
    return (linear(torch.from_numpy(X).to(dtype)) - torch.from_numpy(Y).to(dtype)).square().sum() / 24


def run(linear: nn.Linear, optimizer: torch.optim.Optimizer, rates: list[float]) -> None:
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss_of(linear).backward()
        optimizer.step()


def by_hand(
    rates: list[float], *, momentum: float, decay: float, trust: float, nesterov: bool, exclude: bool
) -> dict[str, Array]:
    """The least-squares problem by the formulas of the docstring."""
    weights = {name: value.copy() for name, value in START.items()}
    moving: dict[str, Array] = {name: np.zeros_like(value) for name, value in START.items()}
    for rate in rates:
        error = (X @ weights["weight"].T + weights["bias"] - Y) / 12
        gradients = {"weight": error.T @ X, "bias": error.sum(0)}
        for name, gradient in gradients.items():
            own = np.sqrt((weights[name] ** 2).sum())
            local = trust * own / (np.sqrt((gradient**2).sum()) + decay * own)
            plain = exclude and name == "bias"
            direction = gradient if plain else local * (gradient + decay * weights[name])
            moving[name] = momentum * moving[name] + direction
            weights[name] -= rate * (direction + momentum * moving[name] if nesterov else moving[name])
    return weights


@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.9, False), (0.9, True), (0.0, False)])
@pytest.mark.parametrize(("decay", "trust"), [(0.0, 0.001), (1e-6, 0.001), (0.05, 0.02)])
def test_steps_by_hand(decay: float, trust: float, momentum: float, nesterov: bool, exclude: bool) -> None:
    rates, linear = [10.0, 10.0, 4.0, 1.0, 0.3], model()
    options: dict[str, Any] = {"momentum": momentum, "trust": trust, "nesterov": nesterov}
    run(linear, LARS(linear.parameters(), 10.0, weight_decay=decay, exclude_1d=exclude, **options), rates)
    expected = by_hand(rates, decay=decay, exclude=exclude, **options)
    for name, value in linear.state_dict().items():
        np.testing.assert_allclose(value.numpy(), expected[name], rtol=1e-6)  # SMALLEST moves the eighth digit
        assert not np.allclose(value.numpy(), START[name], rtol=1e-4)


def test_the_length_of_a_step_does_not_depend_on_the_gradients_scale() -> None:
    """Without decay a step is lr·trust·‖w‖ long (You et al. 2017, section 4)."""
    for scale in (1e-3, 1.0, 1e4):
        weight = nn.Parameter(torch.from_numpy(START["weight"]).clone())
        before = weight.detach().clone()
        weight.grad = torch.from_numpy(START["weight"][::-1].copy()) * scale
        LARS([weight], lr=2.0, trust=0.01).step()
        torch.testing.assert_close((weight.detach() - before).norm(), 0.02 * before.norm(), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("weight", "gradient"), [(0.0, 1.0), (1.0, 0.0)])
def test_without_a_norm_the_local_rate_is_1(weight: float, gradient: float) -> None:
    parameter = nn.Parameter(torch.full((2, 2), weight))
    parameter.grad = torch.full((2, 2), gradient)
    LARS([parameter], lr=0.5, weight_decay=0.1).step()
    torch.testing.assert_close(parameter.detach(), torch.full((2, 2), weight - 0.5 * (gradient + 0.1 * weight)))


def test_excluded_tensors_go_as_under_sgd() -> None:
    lars, sgd = (nn.Parameter(torch.tensor([1.0, -2.0, 3.0])) for _ in range(2))
    optimizers = [
        LARS([lars], 0.1, momentum=0.8, weight_decay=0.3, nesterov=True),
        torch.optim.SGD([sgd], 0.1, momentum=0.8, nesterov=True),
    ]
    for _ in range(4):
        for parameter, optimizer in zip((lars, sgd), optimizers, strict=True):
            parameter.grad = parameter.detach().cos()
            optimizer.step()
    assert torch.equal(lars, sgd)


def test_parameters_without_a_gradient_stay() -> None:
    used, unused = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    used.grad = torch.ones(2, 2)
    LARS([used, unused], 0.1, weight_decay=0.1).step()
    assert torch.equal(unused, torch.ones(2, 2))
    assert not torch.equal(used, torch.ones(2, 2))


def test_training_goes_on_to_the_bit_from_a_saved_state() -> None:
    rates: list[float] = [10.0, 8.0, 6.0, 4.0, 2.0, 1.0]
    whole, first = model(torch.float32), model(torch.float32)
    run(whole, LARS(whole.parameters(), 10.0, weight_decay=1e-3), rates)
    optimizer, kept = LARS(first.parameters(), 10.0, weight_decay=1e-3), io.BytesIO()
    run(first, optimizer, rates[:3])
    torch.save({"weights": first.state_dict(), "optimizer": optimizer.state_dict()}, kept)
    kept.seek(0)
    state, second = torch.load(kept, weights_only=True), model(torch.float32)
    second.load_state_dict(state["weights"])
    resumed = LARS(second.parameters(), 1.0)
    resumed.load_state_dict(state["optimizer"])
    assert resumed.param_groups[0]["weight_decay"] == 1e-3
    run(second, resumed, rates[3:])
    assert all(torch.equal(second.state_dict()[name], value) for name, value in whole.state_dict().items())


def test_a_closure_gives_its_loss() -> None:
    linear = model()
    optimizer = LARS(linear.parameters(), 0.1)

    def closure() -> float:
        optimizer.zero_grad()
        loss = loss_of(linear)
        loss.backward()
        return loss.item()

    before = loss_of(linear).item()
    assert optimizer.step(closure) == before
    assert loss_of(linear).item() < before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lr": -1}, "got lr=-1"),
        ({"momentum": 1.0}, "0 <= momentum < 1.*got .*momentum=1.0"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
        ({"trust": 0.0}, "trust=0.0"),
        ({"momentum": 0.0, "nesterov": True}, "nesterov needs a momentum above 0"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LARS([nn.Parameter(torch.ones(1))], **{"lr": 0.1, **options})
