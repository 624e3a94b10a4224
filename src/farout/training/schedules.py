"""Schedules: the learning rate of every step, and scalars of a loss that change during training."""

from __future__ import annotations

import math
from collections.abc import Sequence


def learning_rate(
    step: int,
    steps: int,
    *,
    lr: float,
    schedule: str,
    milestones: Sequence[float] = (),
    factor: float = 0.1,
    final: float = 0.0,
    warmup: float = 0.0,
    warmup_from: float = 0.0,
    decay: float = 1.0,
) -> float:
    """Return the learning rate of step 0, 1, … of `steps`.

    constant: lr.
    cosine: Loshchilov & Hutter 2017, eq. 5, without restarts, from the end of the warm-up down to `final`.
    step: He et al. 2016, section 4.2: divided by 10 after one half of the steps and again after three quarters.
    milestones: multiplied by `factor` from each of these steps on.
    In the first `warmup` steps the rate is multiplied by warmup_from + (1 − warmup_from) · step / warmup; in all steps
    by decay^step.
    """
    rate = lr
    if schedule == "cosine":
        done = max(step - warmup, 0) / max(steps - warmup, 1)
        rate = final + (lr - final) / 2 * (1 + math.cos(math.pi * done))
    elif schedule == "step":
        rate = lr * (0.01 if 4 * step >= 3 * steps else 0.1 if 2 * step >= steps else 1.0)
    elif schedule == "milestones":
        rate = lr * factor ** sum(step >= milestone for milestone in milestones)
    if step < warmup:
        rate *= warmup_from + (1 - warmup_from) * step / warmup
    return rate * decay**step


def ramp(at: float, start: float, stop: float, low: float = 0.0, high: float = 1.0) -> float:
    """Return a scalar that is `low` until `start`, then rises (or falls) linearly, and is `high` from `stop` on."""
    if at >= stop:
        return high
    return low + (high - low) * max(at - start, 0.0) / (stop - start)


def ema_decay(decay: float, step: int, start: int = 0, ramp: float = 0.0) -> float:
    """Return the decay of a moving average after step 1, 2, …

    0, a copy, before `start` (Brock et al. 2019); with `ramp` the half-life is at most that fraction of the steps
    so far (Karras et al. 2020).
    """
    if step < start:
        return 0.0
    return min(decay, 0.5 ** (1 / (ramp * step))) if ramp else decay
