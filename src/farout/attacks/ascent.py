"""Ascent in a box that finds its own step size: Auto-PGD (Croce and Hein 2020, Algorithm 1) for many images at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from farout.attacks.gradients import fooled, gradient
from farout.attacks.victim import Victim

MOMENTUM = 0.75
"""α: how much of a move is the new step; the rest is the move before."""
RISING = 0.75
"""ρ: the share of steps that must raise the loss, or else the step is too long."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""From logits [B, C] and the places of their images in the batch [B] to what is to grow, [B]."""


class Reached(NamedTuple):
    """Where the ascent has led: to the first point at which the classifier errs, else to that of the highest loss."""

    images: Tensor
    loss: Tensor
    """[B]."""
    fooled: Tensor
    """[B] bool."""


class _State(NamedTuple):
    """The images that are still on their way, row by row."""

    at: Tensor
    """Their places in the batch."""
    low: Tensor
    high: Tensor
    size: Tensor
    """Of the next step, [B, 1, 1, 1]."""
    before: Tensor
    """The point before this one."""
    images: Tensor
    loss: Tensor
    uphill: Tensor
    """The sign of its gradient."""
    best: Tensor
    best_loss: Tensor
    best_uphill: Tensor
    rises: Tensor
    """Steps since the last checkpoint that raised the loss, [B] int64."""
    marked: Tensor
    """The highest loss at the last checkpoint."""
    halved: Tensor
    """Was the step halved there? [B] bool."""


def ascend(
    victim: Victim, loss: Loss, labels: Tensor, start: Tensor, low: Tensor, high: Tensor, size: float, steps: int
) -> Reached:
    """So many steps, the first of this size, between the bounds; images leave as soon as the classifier errs."""
    state = _begin(start, low, high, size)
    reached = Reached(start.clone(), state.loss.clone(), torch.zeros_like(state.halved))
    widths = {end: end - begin for begin, end in pairwise(checkpoints(steps))}
    for step in range(steps + 1):
        images = (_moved(state, 1 if step == 1 else MOMENTUM) if step else start).detach().requires_grad_()
        logits = victim.logits(images)
        values = loss(logits, state.at)
        wrong = fooled(logits, labels[state.at])
        _note(reached, state.at[wrong], images.detach()[wrong], values.detach()[wrong], wrong[wrong])
        if wrong.all():
            return reached
        uphill = gradient(values, images).sign_()
        state = _after(state, images.detach(), values.detach(), uphill)
        if wrong.any():
            state = _State(*(part[~wrong] for part in state))
        if step == 0:
            state = state._replace(marked=state.loss, rises=torch.zeros_like(state.rises))
        elif step in widths:
            state = _judged(state, widths[step])
    _note(reached, state.at, state.best, state.best_loss, torch.zeros_like(state.halved))
    return reached


def checkpoints(steps: int) -> list[int]:
    """Steps after which the step size is judged, from 0 on: w_j = ⌈p_j·steps⌉, section 3; p_j here in percent."""
    shares = [0, 22]
    while shares[-1] <= 100:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 3, 6))
    return sorted({-(-share * steps // 100) for share in shares[:-1]})


def _begin(start: Tensor, low: Tensor, high: Tensor, size: float) -> _State:
    lowest, none = start.new_full((len(start),), -torch.inf), torch.zeros_like(start)
    count = torch.zeros_like(lowest, dtype=torch.int64)
    sizes = torch.full_like(lowest, size)[:, None, None, None]
    places = torch.arange(len(start), device=start.device)
    return _State(places, low, high, sizes, start, start, lowest, none, start, lowest, none, count, lowest, count > 0)


def _moved(state: _State, momentum: float) -> Tensor:
    """The next point: a step uphill, mixed with the move before."""
    stepped = (state.images + state.size * state.uphill).clamp_(state.low, state.high)
    moved = stepped.sub_(state.images).mul_(momentum).add_(state.images)
    return moved.add_(state.images - state.before, alpha=1 - momentum).clamp_(state.low, state.high)


def _after(state: _State, images: Tensor, loss: Tensor, uphill: Tensor) -> _State:
    """The state at a new point."""
    better = loss > state.best_loss
    wide = better[:, None, None, None]
    return state._replace(
        before=state.images,
        images=images,
        loss=loss,
        uphill=uphill,
        best=torch.where(wide, images, state.best),
        best_loss=torch.where(better, loss, state.best_loss),
        best_uphill=torch.where(wide, uphill, state.best_uphill),
        rises=state.rises + (loss > state.loss),
    )


def _judged(state: _State, width: int) -> _State:
    """At a checkpoint: where conditions 1 or 2 hold the step is halved, and the ascent goes on from its best point.

    The algorithm takes one more step of the old size before it goes back to the best point; here that is saved.
    """
    stalled = state.rises < RISING * width
    idle = ~state.halved & (state.best_loss == state.marked)
    halve = stalled | idle
    wide = halve[:, None, None, None]
    return state._replace(
        size=torch.where(wide, state.size / 2, state.size),
        images=torch.where(wide, state.best, state.images),
        loss=torch.where(halve, state.best_loss, state.loss),
        uphill=torch.where(wide, state.best_uphill, state.uphill),
        rises=torch.zeros_like(state.rises),
        marked=state.best_loss,
        halved=halve,
    )


def _note(reached: Reached, places: Tensor, images: Tensor, loss: Tensor, wrong: Tensor) -> None:
    reached.images[places], reached.loss[places], reached.fooled[places] = images, loss, wrong
