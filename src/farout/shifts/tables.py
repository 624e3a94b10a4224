"""Constants of the common corruptions by image side and severity (Hendrycks & Dietterich 2019).

The sets were published at three sizes with different constants: CIFAR-C (32 px), Tiny-ImageNet-C (64 px) and
ImageNet-C (224 px). The constants of 224 px are two to six times too strong for 32 px.
"""

from __future__ import annotations

Row = tuple[float, ...]
"""Constants of one severity."""
Rows = tuple[Row, ...]
"""Constants of severities 1 to 5."""


def _single(*values: float) -> Rows:
    return tuple((value,) for value in values)


def _times(side: float, *rows: Row) -> Rows:
    return tuple(tuple(side * value for value in row) for row in rows)


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
    "impulse_noise": {  # fraction of values replaced
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
    "defocus_blur": {  # radius of the disk, σ that smooths its edge
        32: ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        64: ((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
        224: ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    },
    "motion_blur": {  # radius, σ
        32: ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
        64: ((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
        224: ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    },
    "zoom_blur": {  # number of zoom factors from 1 on, step between them
        32: ((7, 0.01), (12, 0.01), (16, 0.01), (21, 0.01), (26, 0.01)),
        64: ((7, 0.01), (12, 0.01), (16, 0.01), (21, 0.01), (26, 0.01)),
        224: ((12, 0.01), (16, 0.01), (11, 0.02), (13, 0.02), (11, 0.03)),
    },
    "snow": {  # mean and σ of the flakes, zoom, threshold, radius and σ of the motion, weight of the image
        32: (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        64: (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
        ),
        224: (
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
    },
    "frost": {  # weights of the image and of the frost, scale of its texture
        32: ((1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
        64: ((1, 0.3, 0.3), (0.9, 0.4, 0.3), (0.8, 0.45, 0.3), (0.75, 0.5, 0.3), (0.7, 0.55, 0.3)),
        224: ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    },
    "fog": {  # strength, decay of the amplitude per octave
        32: ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        64: ((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
        224: ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    },
    "elastic": {  # in pixels: length of the displacements, σ that smooths them, jitter of the affine map's corners
        32: ((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
        64: _times(64, (0, 0, 0.08), (0.05, 0.3, 0.06), (0.1, 0.08, 0.06), (0.1, 0.03, 0.03), (0.16, 0.03, 0.02)),
        224: _times(244, (2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)),
    },
    "pixelate": {  # ratio of the smaller side to the side
        32: _single(0.95, 0.9, 0.85, 0.75, 0.65),
        64: _single(0.9, 0.8, 0.7, 0.6, 0.5),
        224: _single(0.6, 0.5, 0.4, 0.3, 0.25),
    },
    "jpeg": {  # quality
        32: _single(80, 65, 58, 50, 40),
        64: _single(65, 58, 50, 40, 25),
        224: _single(25, 18, 15, 10, 7),
    },
}


def nearest_size(side: int) -> int:
    """Return the published size whose constants are used for images with this shorter side."""
    return 32 if side < 48 else 64 if side < 128 else 224


def constants(name: str, severity: int, side: int) -> Row:
    """Return the constants of a corruption at a severity from 1 to 5, for images with this shorter side."""
    return TABLES[name][nearest_size(side)][severity - 1]
