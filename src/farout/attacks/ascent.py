"""Batched gradient ascent in a box with adaptive step sizes: Auto-PGD (Croce and Hein 2020, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from farout.attacks.gradients import Watch, gradient, misclassified
from farout.attacks.target import Target
from farout.devices import is_host

MOMENTUM = 0.75
"""α: weight of the new step in a move; 1 − α is that of the previous move."""
MIN_IMPROVING = 0.75
"""ρ: fraction of steps that must raise the loss; below it the step size is halved."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""Loss function: from logits [B, C] and the rows of their images in the batch [B] to the loss to maximize, [B]."""


class AscentResult(NamedTuple):
    """Result of the ascent: the first misclassified point of each image, or the point of the highest loss."""

    images: Tensor
    loss: Tensor
    """[B]."""
    misclassified: Tensor
    """[B] bool."""


class _State(NamedTuple):
    """State of the images that are not misclassified yet, row by row."""

    rows: Tensor
    """Rows of the images in the batch."""
    low: Tensor
    high: Tensor
    size: Tensor
    """Size of the next step, [B, 1, 1, 1]."""
    previous: Tensor
    """Previous point."""
    images: Tensor
    loss: Tensor
    sign: Tensor
    """Sign of the loss's gradient."""
    best: Tensor
    best_loss: Tensor
    best_sign: Tensor
    improvements: Tensor
    """Number of steps since the last checkpoint that raised the loss, [B] int64."""
    checkpoint_loss: Tensor
    """Highest loss at the last checkpoint."""
    halved: Tensor
    """True where the step was halved at the last checkpoint, [B] bool."""


def ascend(
    target: Target, loss: Loss, labels: Tensor, start: Tensor, low: Tensor, high: Tensor, size: float, steps: int
) -> AscentResult:
    """Take `steps` steps within the bounds, the first of length `size`; an image stops once it is misclassified.

    On the CPU, images that have stopped are left out of later passes. On a GPU they stay, since no step waits for it.
    """
    state, watch, host = _initial_state(start, low, high, size), Watch(), is_host(start.device)
    result = AscentResult(start.clone(), state.loss.clone(), torch.zeros_like(state.halved))
    widths = {end: end - begin for begin, end in pairwise(checkpoints(steps))}
    for step in range(steps + 1):
        images = (_next_point(state, 1 if step == 1 else MOMENTUM) if step else start).detach().requires_grad_()
        logits = target.logits(images)
        values = loss(logits, state.rows)
        wrong = misclassified(logits, labels[state.rows]) & ~result.misclassified[state.rows]
        _record(result, state.rows, wrong, images.detach(), values.detach())
        result.misclassified[state.rows] |= wrong
        if host and wrong.all():
            return result
        sign = gradient(values, images, watch).sign_()
        state = _update(state, images.detach(), values.detach(), sign)
        if host and wrong.any():
            state = _State(*(part[~wrong] for part in state))
        if step == 0:
            state = state._replace(checkpoint_loss=state.loss, improvements=torch.zeros_like(state.improvements))
        elif step in widths:
            state = _adapt_step_size(state, widths[step])
    watch.read()
    _record(result, state.rows, ~result.misclassified[state.rows], state.best, state.best_loss)
    return result


def checkpoints(steps: int) -> list[int]:
    """Return the steps at which the step size is checked, from 0 on: w_j = ⌈p_j·steps⌉, section 3; p_j in percent."""
    shares = [0, 22]
    while shares[-1] <= 100:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 3, 6))
    return sorted({-(-share * steps // 100) for share in shares[:-1]})


def _initial_state(start: Tensor, low: Tensor, high: Tensor, size: float) -> _State:
    lowest, none = start.new_full((len(start),), -torch.inf), torch.zeros_like(start)
    count = torch.zeros_like(lowest, dtype=torch.int64)
    sizes = torch.full_like(lowest, size)[:, None, None, None]
    rows = torch.arange(len(start), device=start.device)
    return _State(rows, low, high, sizes, start, start, lowest, none, start, lowest, none, count, lowest, count > 0)


def _next_point(state: _State, momentum: float) -> Tensor:
    """Return the next point: a step along the gradient's sign, mixed with the previous move."""
    stepped = (state.images + state.size * state.sign).clamp_(state.low, state.high)
    moved = stepped.sub_(state.images).mul_(momentum).add_(state.images)
    return moved.add_(state.images - state.previous, alpha=1 - momentum).clamp_(state.low, state.high)


def _update(state: _State, images: Tensor, loss: Tensor, sign: Tensor) -> _State:
    """Return the state after moving to a new point."""
    better = loss > state.best_loss
    wide = better[:, None, None, None]
    return state._replace(
        previous=state.images,
        images=images,
        loss=loss,
        sign=sign,
        best=torch.where(wide, images, state.best),
        best_loss=torch.where(better, loss, state.best_loss),
        best_sign=torch.where(wide, sign, state.best_sign),
        improvements=state.improvements + (loss > state.loss),
    )


def _adapt_step_size(state: _State, width: int) -> _State:
    """Halve the step where conditions 1 or 2 hold, and continue from the best point.

    The published algorithm takes one more step of the old size before it returns to the best point; that step is
    skipped.
    """
    stalled = state.improvements < MIN_IMPROVING * width
    idle = ~state.halved & (state.best_loss == state.checkpoint_loss)
    halve = stalled | idle
    wide = halve[:, None, None, None]
    return state._replace(
        size=torch.where(wide, state.size / 2, state.size),
        images=torch.where(wide, state.best, state.images),
        loss=torch.where(halve, state.best_loss, state.loss),
        sign=torch.where(wide, state.best_sign, state.sign),
        improvements=torch.zeros_like(state.improvements),
        checkpoint_loss=state.best_loss,
        halved=halve,
    )


def _record(result: AscentResult, rows: Tensor, selected: Tensor, images: Tensor, loss: Tensor) -> None:
    """Write the selected of these images to the result."""
    result.images[rows] = torch.where(selected[:, None, None, None], images, result.images[rows])
    result.loss[rows] = torch.where(selected, loss, result.loss[rows])
