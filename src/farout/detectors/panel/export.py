"""A fitted panel as one ONNX file: images in, scores and p-values out."""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farout.core import NotFitted
from farout.rng import numpy_generator

if TYPE_CHECKING:
    from farout.detectors.panel.panel import Panel

OPSET = 17
TOLERANCE = 1e-3
"""Largest difference of the file's scores from the panel's, as a share of the largest: float32 rounds differently."""


def export(panel: Panel, path: str | Path, side: int | None = None) -> None:
    """Write what `Panel.export` promises; an error names the detectors that cannot be written."""
    _library("onnx")  # torch's exporter needs it
    refused = {name: PERTURBS for name, detector in panel.detectors.items() if detector.perturbs}
    if not panel.fitted:
        raise NotFitted(f"{panel} is not fitted: call fit before export")
    size = side or getattr(panel.network, "side", None)
    if size is None:
        raise ValueError("the network takes images of any side: say which the file is to take, export(path, side=32)")
    model = None if refused else _attempt(panel, size)
    if not isinstance(model, bytes):
        refused |= {name: _reason(panel.only(name), size) for name in panel.detectors if name not in refused}
        raise ValueError(_refusal({name: why for name, why in refused.items() if why}, list(panel.detectors), model))
    partial = Path(path).with_name(f"{Path(path).name}.part")
    partial.write_bytes(model)
    partial.replace(path)


PERTURBS = "it needs gradients of passes of its own"


def _refusal(refused: dict[str, str], names: list[str], whole: str | None) -> str:
    if not refused:
        return f"the panel cannot be exported to ONNX: {whole}"
    others = [name for name in names if name not in refused]
    told = "; ".join(f"{name}: {why}" for name, why in refused.items())
    rest = f". Export a panel of the others: {', '.join(others)}" if others else ""
    return f"{', '.join(refused)} cannot be exported to ONNX ({told}){rest}"


def _reason(panel: Panel, side: int) -> str:
    """Why this panel cannot be exported; empty where it can."""
    model = _attempt(panel, side)
    return "" if isinstance(model, bytes) else model


def _attempt(panel: Panel, side: int) -> bytes | str:
    """The model, proven to give the panel's scores in batches of any size; or why there is none."""
    try:
        model = _traced(panel, side)
    except Exception as error:  # whatever an operator without a counterpart raises
        return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return _difference(panel, model, side) or model


class _Scorer(nn.Module):
    """The network, the detectors and their validation scores as one module."""

    def __init__(self, panel: Panel) -> None:
        super().__init__()
        self.network, self.detectors = panel.network, panel.detectors
        self.needs = panel.needs(None)
        self.validation = {name: torch.from_numpy(scores) for name, scores in panel.validation.items()}

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        activations = self.network(images, needs=self.needs)
        found: list[Tensor] = []
        for name, detector in self.detectors.items():
            scores = detector.score(activations).double()
            found.append(scores)
            if name in self.validation:
                known = self.validation[name].to(scores.device)
                found.append((1 + (known >= scores[:, None]).sum(1).double()) / (1 + len(known)))
        return tuple(found)


def output_names(panel: Panel) -> list[str]:
    """The names of the file's outputs: "score" and "p_value" of one detector, "knn_score" and so on of several."""
    prefixes = [f"{name}_" for name in panel.detectors] if len(panel.detectors) > 1 else [""]
    kinds = [["score", "p_value"] if name in panel.validation else ["score"] for name in panel.detectors]
    return [f"{prefix}{kind}" for prefix, several in zip(prefixes, kinds, strict=True) for kind in several]


def _traced(panel: Panel, side: int) -> bytes:
    file, names = io.BytesIO(), output_names(panel)
    images = torch.rand(3, panel.network.channels, side, side).to(panel.network.device)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), panel.network.evaluating():
        warnings.simplefilter("ignore")  # of shapes that a trace takes for constants; the result is tried afterwards
        with torch.no_grad():
            torch.onnx.export(
                _Scorer(panel), (images,), file, dynamo=False, opset_version=OPSET,  # type: ignore[arg-type]
                input_names=["images"], output_names=names,
                dynamic_axes={name: {0: "batch"} for name in ("images", *names)},
            )  # fmt: skip
    return file.getvalue()


def _difference(panel: Panel, model: bytes, side: int) -> str:
    """Why the model is not the panel; empty where it gives the same scores, alone and in a batch."""
    runtime = _library("onnxruntime")
    drawn = numpy_generator(0, "export").random((6, panel.network.channels, side, side), np.float32)
    for images in (drawn[:1], drawn[1:]):
        try:
            session: Any = runtime.InferenceSession(model, _quiet(runtime), providers=["CPUExecutionProvider"])
            found = session.run(None, {"images": images})
        except Exception as error:
            return f"ONNX Runtime does not run it: {str(error).splitlines()[0][:200]}"
        told = dict(zip(output_names(panel), found, strict=True))
        for name, scores in panel.score(images).items():
            given = told["score" if len(panel.detectors) == 1 else f"{name}_score"]
            if not _close(given, scores):
                return "its steps depend on the images, which a file cannot hold"
    return ""


def _close(given: NDArray[Any], scores: NDArray[np.float64]) -> bool:
    scale = max(1e-6, float(np.abs(scores).max(initial=0)))
    return given.shape == scores.shape and bool(np.abs(given - scores).max(initial=0) <= TOLERANCE * scale)


def _quiet(runtime: Any) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    return options


def _library(name: str) -> Any:
    """An optional library, imported when first needed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f'a panel is exported with {name}: pip install "farout[onnx]"') from error
