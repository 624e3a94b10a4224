"""OpenOOD's conventions: the net that each post-processor runs on, and the post-processors that cannot be adapted."""

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
"""Net of openood.networks that OpenOOD's evaluator wraps around the classifier; for AdaScale it depends on the name in
the settings. Each has its own `forward_threshold`."""

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
"""Post-processors that need another net than a classifier, which `wrap` can build, and the part that they need."""

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
"""Post-processors that cannot be adapted, and the reasons."""


def check_adaptable(postprocessor: Any, wrap: Wrap | None, name: str) -> None:
    """Raise if the post-processor's scores would not be OpenOOD's; warn about settings that are not searched."""
    if entry := _entry(postprocessor, REFUSED):
        raise ValueError(f"{name} of OpenOOD cannot be adapted: {entry}")
    if wrap is None and (entry := _entry(postprocessor, SPECIAL_NETS)):
        raise ValueError(
            f"{name} of OpenOOD reads a net with {entry}, and a farout.Network is a plain classifier; give a function "
            "that builds such a net from a classifier: OpenOOD(…, wrap=lambda net: …)"
        )
    if getattr(postprocessor, "APS_mode", False) and not getattr(postprocessor, "hyperparam_search_done", False):
        warnings.warn(
            f"{name} has APS_mode on, by which OpenOOD's evaluator searches its settings on validation outliers; here "
            "it keeps its current ones (set postprocessor.APS_mode = False to silence this warning)",
            stacklevel=3,
        )


def wrapper_of(postprocessor: Any, name: str) -> Wrap | None:
    """Return the net that OpenOOD's evaluator wraps the classifier in for this post-processor; None if there is none.

    It is OpenOOD's own class, so that the scores are OpenOOD's in any version.
    """
    entry = _entry(postprocessor, WRAPPERS)
    if isinstance(entry, dict):
        kind = postprocessor.config.postprocessor.name
        if kind not in entry:
            raise ValueError(
                f"the configuration of {name} has the name {kind!r}, expected one of {', '.join(entry)}, which decides "
                "the net it runs on; or give that net with wrap="
            )
        entry = entry[kind]
    if entry is None:
        return None
    owner = next(part for part in type(postprocessor).__mro__ if part.__name__ in WRAPPERS and _is_openoods(part))
    file, _, wrapper = entry.partition(".")
    package = owner.__module__.partition(".postprocessors")[0]
    try:
        wrapper_class: Wrap = getattr(importlib.import_module(f"{package}.networks.{file}"), wrapper)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"{name} runs on {package}.networks.{entry}, which cannot be imported ({error}); give it with wrap="
        ) from error
    return wrapper_class


def finish_setup(postprocessor: Any) -> None:
    """Finish the set-up that OpenOOD leaves to its hyper-parameter search: adascale's thresholds."""
    if _entry(postprocessor, {"AdaScalePostprocessor": True}):
        postprocessor.set_hyperparam(postprocessor.get_hyperparam())


def _entry(postprocessor: Any, table: dict[str, Any]) -> Any:
    """Return the table's entry for the first class of OpenOOD in the object's bases; None if there is none."""
    names = (part.__name__ for part in type(postprocessor).__mro__ if _is_openoods(part))
    return next((table[name] for name in names if name in table), None)


def _is_openoods(cls: type) -> bool:
    return "openood" in cls.__module__.split(".")
