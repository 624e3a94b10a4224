"""OpenOOD's conventions: which net each of its post-processors runs on, and which ones cannot be adapted."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

Wrap = Callable[[nn.Module], nn.Module]

WRAPPERS = {
    "ReactPostprocessor": "react_net.ReactNet",
    "ASHPostprocessor": "ash_net.ASHNet",
    "ScalePostprocessor": "scale_net.ScaleNet",
    "AdaScalePostprocessor": {"adascale_a": "adascale_net.AdaScaleANet", "adascale_l": "adascale_net.AdaScaleLNet"},
}
"""The net of openood.networks that OpenOOD's evaluator puts around the classifier, where it depends on the settings by
the name in them. Each has a `forward_threshold` of its own."""

SPECIAL_NETS = {
    "CIDERPostprocessor": "a projection (cider_net.CIDERNet)",
    "ConfBranchPostprocessor": "a confidence branch (conf_branch_net.ConfBranchNet)",
    "DropoutPostProcessor": "dropout before the last layer (dropout_net.DropoutNet); without it the scores are msp's",
    "GodinPostprocessor": "a decomposed last layer (godin_net.GodinNet)",
    "MCDPostprocessor": "two classifiers (mcd_net.MCDNet)",
    "NPOSPostprocessor": "a projection (npos_net.NPOSNet)",
    "RTSPostprocessor": "a variance head (rts_net.RTSNet)",
    "ReweightOODPostprocessor": "a projection (cider_net.CIDERNet)",
    "RotPredPostprocessor": "a rotation head (rot_net.RotNet)",
    "T2FNormPostprocessor": "normalized features (t2fnorm_net.T2FNormNet)",
}
"""Post-processors that read another net than a classifier, which `wrap` can make, and the part that they need."""

REFUSED = {
    "CutPastePostprocessor": "its loaders give several cut-and-pasted copies of every image",
    "DRAEMPostprocessor": "it reads a generative and a discriminative net, no classifier",
    "DSVDDPostprocessor": "it reads a net trained for one class, and its confidence is a distance, larger for outliers",
    "EnsemblePostprocessor": "it loads networks from OpenOOD's checkpoints; use farout.networks.Ensemble",
    "GrOODPostprocessor": "in OpenOOD's main of 2025-12-01 its setup fails on an attribute that is never set",
    "MOSPostprocessor": "its groups of classes are set by OpenOOD's own evaluator",
    "OpenGanPostprocessor": "it reads a classifier and a discriminator that OpenOOD trains",
    "PatchcorePostprocessor": "it reads feature maps of OpenOOD's PatchcoreNet and writes its index to ./results",
    "Rd4adPostprocessor": "it reads an encoder and a decoder, no classifier",
    "SSDPostprocessor": "in OpenOOD it has no score of its own: it inherits msp's",
}
"""Post-processors that cannot be adapted, and why."""


def check_adaptable(postprocessor: Any, wrap: Wrap | None, name: str) -> None:
    """Raise an error that names the post-processor where its scores would not be OpenOOD's; warn of settings."""
    if found := _entry(postprocessor, REFUSED):
        raise ValueError(f"{name} of OpenOOD cannot be adapted: {found}")
    if wrap is None and (found := _entry(postprocessor, SPECIAL_NETS)):
        raise ValueError(
            f"{name} of OpenOOD reads a net with {found}, and a farout.Network is a plain classifier; give a function "
            "that makes such a net of a classifier: OpenOOD(…, wrap=lambda net: …)"
        )
    if getattr(postprocessor, "APS_mode", False) and not getattr(postprocessor, "hyperparam_search_done", False):
        warnings.warn(
            f"{name} has APS_mode on, by which OpenOOD's evaluator searches its settings on validation outliers; here "
            "it keeps those it was made with (postprocessor.APS_mode = False says that this is meant)",
            stacklevel=3,
        )


def wrapper_of(postprocessor: Any, name: str) -> Wrap | None:
    """Return the net that OpenOOD's evaluator wraps the classifier in for this post-processor; None if there is none.

    It is OpenOOD's own class, so that what it computes is OpenOOD's in any version.
    """
    found = _entry(postprocessor, WRAPPERS)
    if isinstance(found, dict):
        kind = postprocessor.config.postprocessor.name
        if kind not in found:
            raise ValueError(
                f"the configuration of {name} has the name {kind!r}, expected one of {', '.join(found)}, which decides "
                "the net it runs on; or give that net with wrap="
            )
        found = found[kind]
    if found is None:
        return None
    owner = next(part for part in type(postprocessor).__mro__ if part.__name__ in WRAPPERS and _is_openoods(part))
    file, _, wrapper = found.partition(".")
    package = owner.__module__.partition(".postprocessors")[0]
    try:
        made: Wrap = getattr(importlib.import_module(f"{package}.networks.{file}"), wrapper)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"{name} runs on {package}.networks.{found}, which cannot be imported ({error}); give it with wrap="
        ) from error
    return made


def settle(postprocessor: Any) -> None:
    """Finish what `setup` leaves to OpenOOD's search of settings: adascale's thresholds, with the settings it has."""
    if _entry(postprocessor, {"AdaScalePostprocessor": True}):
        postprocessor.set_hyperparam(postprocessor.get_hyperparam())


def _entry(postprocessor: Any, table: dict[str, Any]) -> Any:
    """Return the table's entry for the first class of OpenOOD's that this is; None where it has none."""
    names = (part.__name__ for part in type(postprocessor).__mro__ if _is_openoods(part))
    return next((table[name] for name in names if name in table), None)


def _is_openoods(cls: type) -> bool:
    return "openood" in cls.__module__.split(".")
