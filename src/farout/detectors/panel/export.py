"""Export of a fitted panel to one ONNX file: images in, scores and p-values out."""

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
"""Largest allowed difference between the file's and the panel's scores, relative to the largest score (float32)."""


def export(panel: Panel, path: str | Path, side: int | None = None) -> None:
    """Write the panel to an ONNX file; see `Panel.export`. An error names the detectors that cannot be exported."""
    _import_optional("onnx")  # torch's exporter needs it
    failed = {name: PERTURBS for name, detector in panel.detectors.items() if detector.perturbs}
    if not panel.fitted:
        raise NotFitted(f"{panel} is not fitted: call fit before export")
    size = side or getattr(panel.network, "side", None)
    if size is None:
        raise ValueError(
            "the network takes images of any side; give the side of the exported model: export(path, side=32)"
        )
    model = None if failed else _try_export(panel, size)
    if not isinstance(model, bytes):
        failed |= {name: _reason(panel.only(name), size) for name in panel.detectors if name not in failed}
        raise ValueError(
            _error_message({name: why for name, why in failed.items() if why}, list(panel.detectors), model)
        )
    partial = Path(path).with_name(f"{Path(path).name}.part")
    partial.write_bytes(model)
    partial.replace(path)


PERTURBS = "it needs gradients, which an ONNX model does not compute"


def _error_message(failed: dict[str, str], names: list[str], whole: str | None) -> str:
    if not failed:
        return f"the panel cannot be exported to ONNX: {whole}"
    others = [name for name in names if name not in failed]
    reasons = "; ".join(f"{name}: {why}" for name, why in failed.items())
    rest = f". Export a panel of the others: {', '.join(others)}" if others else ""
    return f"{', '.join(failed)} cannot be exported to ONNX ({reasons}){rest}"


def _reason(panel: Panel, side: int) -> str:
    """Return the reason why this panel cannot be exported; empty if it can."""
    model = _try_export(panel, side)
    return "" if isinstance(model, bytes) else model


def _try_export(panel: Panel, side: int) -> bytes | str:
    """Return the exported model after checking its scores on two batch sizes, or the reason for the failure."""
    try:
        model = _trace(panel, side)
    except Exception as error:  # an operator that ONNX does not have may raise anything
        return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return _difference(panel, model, side) or model


class _Scorer(nn.Module):
    """Module of the network, the detectors and their validation scores."""

    def __init__(self, panel: Panel) -> None:
        super().__init__()
        self.network, self.detectors = panel.network, panel.detectors
        self.needs = panel.needs(None)
        self.validation = {name: torch.from_numpy(scores) for name, scores in panel.validation.items()}

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        activations = self.network(images, needs=self.needs)
        outputs: list[Tensor] = []
        for name, detector in self.detectors.items():
            scores = detector.score(activations).double()
            outputs.append(scores)
            if name in self.validation:
                reference = self.validation[name].to(scores.device)
                outputs.append((1 + (reference >= scores[:, None]).sum(1).double()) / (1 + len(reference)))
        return tuple(outputs)


def output_names(panel: Panel) -> list[str]:
    """Return the names of the model's outputs: "score" and "p_value" of one detector, "knn_score" etc. of several."""
    prefixes = [f"{name}_" for name in panel.detectors] if len(panel.detectors) > 1 else [""]
    kinds = [["score", "p_value"] if name in panel.validation else ["score"] for name in panel.detectors]
    return [f"{prefix}{kind}" for prefix, several in zip(prefixes, kinds, strict=True) for kind in several]


def _trace(panel: Panel, side: int) -> bytes:
    file, names = io.BytesIO(), output_names(panel)
    images = torch.rand(3, panel.network.channels, side, side).to(panel.network.device)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), panel.network.evaluating():
        warnings.simplefilter("ignore")  # about shapes traced as constants; the result is checked afterwards
        with torch.no_grad():
            torch.onnx.export(
                _Scorer(panel), (images,), file, dynamo=False, opset_version=OPSET,  # type: ignore[arg-type]
                input_names=["images"], output_names=names,
                dynamic_axes={name: {0: "batch"} for name in ("images", *names)},
            )  # fmt: skip
    return file.getvalue()


def _difference(panel: Panel, model: bytes, side: int) -> str:
    """Return how the model differs from the panel; empty if it gives the same scores, for one image and for a batch."""
    runtime = _import_optional("onnxruntime")
    drawn = numpy_generator(0, "export").random((6, panel.network.channels, side, side), np.float32)
    for images in (drawn[:1], drawn[1:]):
        try:
            session: Any = runtime.InferenceSession(model, _quiet(runtime), providers=["CPUExecutionProvider"])
            outputs = session.run(None, {"images": images})
        except Exception as error:
            return f"ONNX Runtime does not run it: {str(error).splitlines()[0][:200]}"
        reasons = dict(zip(output_names(panel), outputs, strict=True))
        for name, scores in panel.score(images).items():
            exported = reasons["score" if len(panel.detectors) == 1 else f"{name}_score"]
            if not _is_close(exported, scores):
                return "its computation depends on the images, which a traced model cannot express"
    return ""


def _is_close(exported: NDArray[Any], scores: NDArray[np.float64]) -> bool:
    scale = max(1e-6, float(np.abs(scores).max(initial=0)))
    return exported.shape == scores.shape and bool(np.abs(exported - scores).max(initial=0) <= TOLERANCE * scale)


def _quiet(runtime: Any) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    return options


def _import_optional(name: str) -> Any:
    """Import an optional library when it is first needed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f'a panel is exported with {name}: pip install "farout[onnx]"') from error
