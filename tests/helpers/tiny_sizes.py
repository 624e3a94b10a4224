"""Sizes of trained detectors with which they train within a second."""

from __future__ import annotations

from typing import Any

DENSITY = {"blocks": 1, "width": 4, "mixtures": 2}
CHAINS = {"latent_steps": 1, "data_steps": 1, "buffer": 20}
SIZES: dict[str, dict[str, Any]] = {
    "acet": {"steps": 1},
    "ae": {"width": 2, "latent": 2},
    "atom": {"layers": 1, "width": 4, "steps": 1},
    "csi": {"width": 4},
    "glow": {"depth": 1, "width": 4},
    "input_complexity": {"density_params": DENSITY},
    "likelihood_ratio": {"density_params": DENSITY},
    "likelihood_regret": {"width": 4, "latent": 2, "updates": 1},
    "nae": {"width": 4, "latent": 2, **CHAINS, "energy": {"steps": 2, "batch": 16}},
    "oe": {"width": 4},
    "pixelcnn": DENSITY,
    "rowl": {"layers": 1, "width": 4, "steps": 1},
    "sngp": {"depth": 10, "factor": 1, "random_features": 16},
    "ssd": {"width": 4},
    "vit": {"depth": 1},
}
"""Settings by name of the detector; ceda and good have a small network anyway."""
