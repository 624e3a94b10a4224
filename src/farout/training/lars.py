"""LARS: SGD with momentum whose learning rate is scaled for every layer, for training with large batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

SMALLEST = 1e-8
"""Added to the denominator of the local learning rate, so that vanishing gradients do not divide by 0."""


class LARS(Optimizer):
    """Layer-wise adaptive rate scaling (You et al. 2017, arXiv:1708.03888, eq. 6 and algorithm 1).

    Each parameter tensor w with gradient g takes the direction d = λ·(g + weight_decay·w), scaled by the local rate
    λ = trust·‖w‖ / (‖g‖ + weight_decay·‖w‖); where ‖w‖ or ‖g‖ is 0, λ = 1. Momentum then works as in `torch.optim.SGD`:
    v ← momentum·v + d and w ← w − lr·v, or w − lr·(d + momentum·v) with Nesterov's. Algorithm 1 puts lr into v; the
    two differ only while lr changes, and implementations around SGD (torchlars, which CSI trains with) do as here.

    exclude_1d: leave biases and the scales of norms, which have one dimension, without scaling (λ = 1) and without
        weight decay. CSI does not: set it to False for its training.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        nesterov: bool = False,
        exclude_1d: bool = True,
    ) -> None:
        if not (lr >= 0 and 0 <= momentum < 1 and weight_decay >= 0 and trust > 0):
            raise ValueError(
                "expected lr >= 0, 0 <= momentum < 1, weight_decay >= 0 and trust > 0, "
                f"got lr={lr}, momentum={momentum}, weight_decay={weight_decay} and trust={trust}"
            )
        if nesterov and not momentum:
            raise ValueError("nesterov needs a momentum above 0, got momentum=0")
        options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, options | {"nesterov": nesterov, "exclude_1d": exclude_1d})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move all parameters that have a gradient; return the loss of `closure` if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.add_(self._velocity(weight, group), alpha=-float(group["lr"]))
        return loss

    def _velocity(self, weight: Tensor, group: dict[str, Any]) -> Tensor:
        """Return the direction with momentum; a step subtracts it times the learning rate."""
        direction = _direction(weight, weight.grad, group)
        momentum: float = group["momentum"]
        if not momentum:
            return direction
        state = self.state[weight]
        if "momentum_buffer" in state:
            state["momentum_buffer"].mul_(momentum).add_(direction)
        else:
            state["momentum_buffer"] = direction.clone()
        velocity: Tensor = state["momentum_buffer"]
        return direction.add(velocity, alpha=momentum) if group["nesterov"] else velocity


def _direction(weight: Tensor, gradient: Tensor | None, group: dict[str, Any]) -> Tensor:
    """Return λ·(g + weight_decay·w); the gradient alone if the tensor is excluded."""
    assert gradient is not None
    if group["exclude_1d"] and weight.ndim <= 1:
        return gradient.clone()
    decay = group["weight_decay"]
    own, slope = torch.linalg.vector_norm(weight), torch.linalg.vector_norm(gradient)
    local = group["trust"] * own / (slope + decay * own + SMALLEST)
    return gradient.add(weight, alpha=decay) * torch.where((own > 0) & (slope > 0), local, 1.0)
