"""Table of the limits that each budget sets, from the numbers in the code."""

from __future__ import annotations

from typing import Any

from farout.protocols.attributes.plan import IMAGES as ATTRIBUTES
from farout.protocols.evasion.entries import EFFORT as EVASION
from farout.protocols.evg.entries import EFFORT as EVG
from farout.protocols.rood.entries import INLIERS as ROOD
from farout.protocols.shared.budgets import IMAGES
from farout.study.budget import LIMITS, SHARED
from farout.study.spec import BUDGETS
from generate.markdown import code, table

LINES: dict[str, dict[Any, Any]] = {
    "training images": {budget: SHARED[budget].train_images for budget in BUDGETS},
    "validation images": {budget: SHARED[budget].val_images for budget in BUDGETS},
    "epochs of a network": {budget: SHARED[budget].epochs for budget in BUDGETS},
    "networks that are trained": {budget: SHARED[budget].trained_networks for budget in BUDGETS},
    "seeds": {budget: SHARED[budget].seeds for budget in BUDGETS},
    "test images of a set": IMAGES,
    "attributes: images of a test split": ATTRIBUTES,
    "rood: inliers, each under every shift": ROOD,
    "evg: chains": {budget: EVG[budget].chains for budget in BUDGETS},
    "evg: steps of a chain": {budget: EVG[budget].steps for budget in BUDGETS},
    "evg: steps of the l_inf attack": {budget: EVG[budget].attack_steps for budget in BUDGETS},
    "evasion: images attacked on a classifier": {budget: EVASION[budget].images for budget in BUDGETS},
    "evasion: images attacked on a detector": {budget: EVASION[budget].adaptive for budget in BUDGETS},
    "evasion: steps of attacks on a detector": {budget: EVASION[budget].steps for budget in BUDGETS},
    "raised_bar: values of λs": {budget: LIMITS[budget].lambdas for budget in BUDGETS},
    "raised_bar: epochs of a generator": {budget: LIMITS[budget].epochs for budget in BUDGETS},
    "raised_bar: images of a set without count": {budget: LIMITS[budget].images for budget in BUDGETS},
}


def budgets() -> str:
    """Return the table; "all" is no limit beyond the study's own."""
    rows = ([what, *(_number(limits[budget]) for budget in BUDGETS)] for what, limits in LINES.items())
    return table(("largest number of", *map(code, BUDGETS)), rows)


def _number(limit: int | None) -> str:
    return "all" if limit is None else f"{limit:,}"
