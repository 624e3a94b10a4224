"""Logistic regression between two groups of rows, for detectors that learn from outliers."""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 100
"""Largest number of Newton steps; about ten are needed."""
PRECISE = 1e-12
"""Relative decrease of the loss below which the iteration stops."""


def logistic_regression(inliers: Tensor, outliers: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights [D] and constant of the log-odds that a row is an outlier: float64.

    Minimizes Σ log-loss + ½‖w‖² over the constant and the weights w of standardized columns (mean 0, variance 1 over
    both groups), so groups that are perfectly separable have finite weights. A column without variance weighs 0.
    """
    rows = torch.cat([inliers, outliers]).double()
    center, scale = rows.mean(0), rows.std(0, correction=0)
    scale = torch.where(scale > 1e-12 * rows.abs().amax(0), scale, torch.inf)
    design = torch.cat([torch.ones_like(rows[:, :1]), (rows - center) / scale], 1)
    signs = torch.cat([-torch.ones_like(inliers[:, 0]), torch.ones_like(outliers[:, 0])]).double()
    theta = _newton(design * signs[:, None])
    weights = theta[1:] / scale
    return weights, theta[0] - weights @ center


def _newton(design: Tensor) -> Tensor:
    """Return the θ that minimizes Σ log(1 + exp(−design·θ)) + ½ Σ_{d>0} θ_d², by Newton's method with line search."""
    penalty = torch.ones_like(design[0])
    penalty[0] = 0

    def loss(theta: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-(design @ theta)).sum() + (penalty * theta.square()).sum() / 2

    theta = torch.zeros_like(penalty)
    for _ in range(STEPS):
        wrong = torch.sigmoid(-(design @ theta))
        gradient = penalty * theta - design.T @ wrong
        curvature = (wrong * (1 - wrong)).clamp(min=1e-12)
        step: Tensor = torch.linalg.solve((design.T * curvature) @ design + penalty.diag(), gradient)
        gain, current, share = gradient @ step, loss(theta), 1.0
        if gain <= PRECISE * current:
            return theta - step
        while loss(theta - share * step) > current - share * gain / 4:
            share /= 2
        theta = theta - share * step
    raise RuntimeError(f"logistic regression did not converge in {STEPS} steps; are all rows finite?")
