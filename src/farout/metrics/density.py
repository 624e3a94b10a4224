"""Overlap of two score densities."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from farout.metrics.counts import FloatArray, as_scores

_STEPS = 24  # grid points per bandwidth
_REACH = 6  # the Gaussian kernel is cut at this many bandwidths
_POINT = 1e-12  # narrower than this on the [0, 1] scale, a density is a point mass


class _Density(NamedTuple):
    """Density given by its values on a regular grid; zero outside it."""

    grid: FloatArray
    values: FloatArray

    def __call__(self, at: FloatArray) -> FloatArray:
        return np.interp(at, self.grid, self.values, left=0.0, right=0.0)


def overlap(inliers: ArrayLike, outliers: ArrayLike) -> float:
    """Return the overlap coefficient of the SHAPES and CHARS paper, eq. 1: ∫ min(f, g) of the smoothed score densities.

    Both sides are min-max normalized together, which keeps their order and relative scale. f and g are Gaussian kernel
    estimates with Scott's bandwidth, n^(−1/5) times the standard deviation of that side; the paper states neither
    kernel nor bandwidth. The integral runs over the whole line, so equal samples give 1. A side of constant scores is
    a point mass: its overlap is 1 with an equal point mass and 0 with a density.
    """
    x, y = _normalize(as_scores(inliers, "inlier"), as_scores(outliers, "outlier"))
    h, k = _bandwidth(x), _bandwidth(y)
    if min(h, k) <= _POINT:
        return float(max(h, k) <= _POINT and abs(x[0] - y[0]) <= _POINT)
    return _shared_area(_smooth(x, h), _smooth(y, k))


def _normalize(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    if high / 2 - low / 2 > np.finfo(np.float64).max / 2:  # the span would overflow
        x, y, low, high = x / 2, y / 2, low / 2, high / 2
    span = high - low if high > low else 1.0
    return (x - low) / span, (y - low) / span


def _bandwidth(x: FloatArray) -> float:
    return float(x.std(ddof=1) * x.size**-0.2) if np.ptp(x) > 0 else 0.0


def _smooth(x: FloatArray, h: float) -> _Density:
    """Return the kernel estimate by linear binning and convolution (Wand 1994).

    The grid step is proportional to the bandwidth. No score is further than √n standard deviations from the mean, which
    bounds the grid by about 2 n^0.7 bandwidths, however long the tails.
    """
    step = h / _STEPS
    origin = x.min()
    cell, share = np.divmod((x - origin) / step, 1.0)
    left = cell.astype(np.int64)
    mass = np.bincount(left, 1 - share, left.max() + 2) + np.bincount(left + 1, share, left.max() + 2)
    reach = _REACH * _STEPS
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / _STEPS) ** 2)
    values = np.convolve(mass, kernel / (kernel.sum() * step * x.size))
    return _Density(origin + step * np.arange(-reach, values.size - reach), values)


def _shared_area(f: _Density, g: _Density) -> float:
    grid = np.sort(np.concatenate([f.grid, g.grid]), kind="stable")
    return min(1.0, float(np.trapezoid(np.minimum(f(grid), g(grid)), grid)))
