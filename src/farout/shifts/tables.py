"""Constants of the common corruptions by image side and severity (Hendrycks & Dietterich 2019).

The sets were published at three sizes, each with constants of its own: CIFAR-C (32 px), Tiny-ImageNet-C (64 px) and
ImageNet-C (224 px). The constants of 224 px are two to six times too strong for 32 px.
"""

from __future__ import annotations

Row = tuple[float, ...]
"""The constants of one severity."""
Rows = tuple[Row, ...]
"""Severities 1 to 5."""


def _single(*values: float) -> Rows:
    return tuple((value,) for value in values)


TABLES: dict[str, dict[int, Rows]] = {
    "gaussian_noise": {  # σ
        32: _single(0.04, 0.06, 0.08, 0.09, 0.10),
        64: _single(0.04, 0.08, 0.12, 0.15, 0.18),
        224: _single(0.08, 0.12, 0.18, 0.26, 0.38),
    },
    "shot_noise": {  # photons at white
        32: _single(500, 250, 100, 75, 50),
        64: _single(250, 100, 50, 30, 15),
        224: _single(60, 25, 12, 5, 3),
    },
    "impulse_noise": {  # share of numbers replaced
        32: _single(0.01, 0.02, 0.03, 0.05, 0.07),
        64: _single(0.01, 0.02, 0.05, 0.08, 0.14),
        224: _single(0.03, 0.06, 0.09, 0.17, 0.27),
    },
    "speckle_noise": {  # σ
        32: _single(0.06, 0.1, 0.12, 0.16, 0.2),
        64: _single(0.15, 0.2, 0.25, 0.3, 0.35),
        224: _single(0.15, 0.2, 0.35, 0.45, 0.6),
    },
    "gaussian_blur": {  # σ
        32: _single(0.4, 0.6, 0.7, 0.8, 1),
        64: _single(0.5, 0.75, 1, 1.25, 1.5),
        224: _single(1, 2, 3, 4, 6),
    },
    "glass_blur": {  # σ, largest offset, rounds
        32: ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        64: ((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
        224: ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    },
    "spatter": {  # mean and σ of the noise, σ of its blur, threshold, strength (of mud: σ of its blur), mud?
        32: (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        64: (
            (0.62, 0.1, 0.7, 0.7, 0.6, 0),
            (0.65, 0.1, 0.8, 0.7, 0.6, 0),
            (0.65, 0.3, 1, 0.69, 0.6, 0),
            (0.65, 0.1, 0.7, 0.68, 0.6, 1),
            (0.65, 0.1, 0.5, 0.67, 0.6, 1),
        ),
        224: (
            (0.65, 0.3, 4, 0.69, 0.6, 0),
            (0.65, 0.3, 3, 0.68, 0.6, 0),
            (0.65, 0.3, 2, 0.68, 0.5, 0),
            (0.65, 0.3, 1, 0.65, 1.5, 1),
            (0.67, 0.4, 1, 0.65, 1.5, 1),
        ),
    },
    "contrast": {  # gain about the mean
        32: _single(0.75, 0.5, 0.4, 0.3, 0.15),
        64: _single(0.4, 0.3, 0.2, 0.1, 0.05),
        224: _single(0.4, 0.3, 0.2, 0.1, 0.05),
    },
    "brightness": {  # added to V
        32: _single(0.05, 0.1, 0.15, 0.2, 0.3),
        64: _single(0.1, 0.2, 0.3, 0.4, 0.5),
        224: _single(0.1, 0.2, 0.3, 0.4, 0.5),
    },
    "saturate": {  # gain and offset of S
        32: ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
        64: ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
        224: ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    },
}


def nearest_size(side: int) -> int:
    """The size whose constants suit images with this shorter side."""
    return 32 if side < 48 else 64 if side < 128 else 224


def constants(name: str, severity: int, side: int) -> Row:
    """The constants of a corruption at a severity from 1 to 5, for images with this shorter side."""
    return TABLES[name][nearest_size(side)][severity - 1]
