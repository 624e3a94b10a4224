"""`onnx`: a detector in an ONNX file."""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.adapters.catalog import Larger, adapter, sign_of
from farout.core import Detector
from farout.identity import Json
from farout.registry import unknown
from farout.tensors import chunks

FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
"""Output types that are accepted as scores."""
LARGEST = 2**28
"""Largest number of values in a batch of fixed size: a gigabyte."""
EXCERPT_LENGTH = 300
"""Number of characters shown of ONNX Runtime's error messages."""


@adapter
class ONNX(Detector):
    """Detector in an ONNX file, run by ONNX Runtime on the CPU.

    It takes float32 images [B, C, H, W] in [0, 1] and returns scores [B] or [B, 1]; for a fixed batch size, smaller
    batches are padded and the scores truncated.

    path: the file, weights included. output: name of the output with the scores, if it has several and none is "score".
    larger: meaning of a larger score, "outlying" or "inlying".
    """

    name = "onnx"

    def __init__(self, path: str | Path, *, output: str | None = None, larger: Larger = "outlying") -> None:
        self.path, self.sign, self.larger = Path(path).expanduser().resolve(), sign_of(larger), larger
        model = self._read()
        self.digest = hashlib.sha256(model).hexdigest()[:40]
        self._session: Any = _open(model, self.path)
        self.input, self.shape = _input(self._session, self.path)
        self.output = _output(self._session, output, self.path)
        sizes = [size for size in self.shape[1:] if size is not None]
        if len(sizes) == 3:
            self._run(np.full((self.shape[0] or 2, *sizes), 0.5, np.float32))

    def score(self, images: Tensor) -> Tensor:
        array = np.ascontiguousarray(images.detach().cpu().float().numpy())
        if array.ndim != 4:
            raise ValueError(f"{self.path.name} takes images {_format_shape(self.shape)}, got {list(array.shape)}")
        for size, expected in zip(array.shape[1:], self.shape[1:], strict=True):
            if isinstance(expected, int) and size != expected:
                raise ValueError(f"{self.path.name} takes images {_format_shape(self.shape)}, got {list(array.shape)}")
        size = self.shape[0] if isinstance(self.shape[0], int) else max(1, len(array))
        parts = [self._score_padded(array[part], size) for part in chunks(len(array), size)]
        return self.sign * torch.from_numpy(np.concatenate([np.empty(0), *parts])).to(images.device)

    def _score_padded(self, images: NDArray[np.float32], size: int) -> NDArray[np.float64]:
        """Score a batch, padded to `size` by repeating the last image."""
        missing = np.repeat(images[-1:], size - len(images), axis=0)
        return self._run(np.concatenate([images, missing]))[: len(images)]

    def _run(self, images: NDArray[np.float32]) -> NDArray[np.float64]:
        if self._session is None:
            model = self._read()
            if hashlib.sha256(model).hexdigest()[:40] != self.digest:
                raise ValueError(f"{self.path} has changed since it was opened; create the detector again")
            self._session = _open(model, self.path)
        try:
            (scores,) = self._session.run([self.output], {self.input: images})
        except Exception as error:  # ONNX Runtime's own, of many classes
            raise ValueError(
                f"{self.path.name} failed on images {list(images.shape)} in [0, 1]: {_excerpt(error)}"
            ) from error
        scores = np.asarray(scores)
        if scores.shape not in ((len(images),), (len(images), 1)) or not np.issubdtype(scores.dtype, np.floating):
            raise ValueError(
                f"output {self.output!r} of {self.path.name} is {scores.dtype} {list(scores.shape)} for {len(images)} "
                "images, expected floats [B] or [B, 1]"
            )
        return np.asarray(scores.reshape(-1), np.float64)

    def _read(self) -> bytes:
        try:
            if self.path.exists() and not self.path.is_file():
                raise ValueError(
                    f"cannot read the ONNX file {self.path}: it is a folder or a device, not a regular file"
                )
            return self.path.read_bytes()
        except OSError as error:
            raise ValueError(f"cannot read the ONNX file {self.path}: {error.strerror}") from error

    def identity(self) -> Json:
        """Return the digest of the file's content, the output and the sign."""
        return {"adapter": "onnx", "version": 1, "file": self.digest, "output": self.output, "larger": self.larger}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}  # sessions cannot be copied: each copy opens its own


def _open(model: bytes, path: Path) -> Any:
    try:
        onnxruntime = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise ImportError(f'{path.name} needs ONNX Runtime: pip install "farout[onnx]"') from error
    _refuse_other_files(model, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ValueError(
            f"{path} cannot be opened as an ONNX model in one file, weights included: {_excerpt(error)}"
        ) from error


def _excerpt(error: Exception) -> str:
    """Return the end of an error message of ONNX Runtime; it starts with places in its own source."""
    line = " ".join(str(error).split())
    return line if len(line) <= EXCERPT_LENGTH else "…" + line[-EXCERPT_LENGTH:]


PARTS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "elsewhere"},
}
"""Field numbers of onnx.proto that lead to the external data of tensors."""


def _refuse_other_files(model: bytes, path: Path) -> None:
    """Raise if weights are in another file: ONNX Runtime would read it, and it is not part of the identity."""
    pending: list[tuple[str, memoryview]] = [("model", memoryview(model))]
    try:
        while pending:
            kind, message = pending.pop()
            if kind == "elsewhere":
                raise ValueError("it keeps weights in another file")
            pending += [(PARTS[kind][number], part) for number, part in _fields(message) if number in PARTS[kind]]
    except (IndexError, ValueError) as error:
        raise ValueError(f"{path} cannot be opened as an ONNX model in one file, weights included: {error}") from None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the fields of a protobuf message that hold bytes, with their numbers."""
    offset = 0

    def varint() -> int:
        nonlocal offset
        value = shift = 0
        while True:
            byte = message[offset]
            offset, value, shift = offset + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while offset < len(message):
        number, wire = divmod(varint(), 8)
        if wire == 0:
            varint()
            continue
        if wire not in (1, 2, 5):
            raise ValueError("it is not a protobuf file")
        size = varint() if wire == 2 else 8 if wire == 1 else 4
        if size > len(message) - offset:
            raise ValueError("it is truncated")
        if wire == 2:
            yield number, message[offset : offset + size]
        offset += size


def _input(session: Any, path: Path) -> tuple[str, tuple[int | None, ...]]:
    """Return the name and shape of the only input; None for a free size."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = f"the inputs {', '.join(i.name for i in inputs)}" if inputs else "no input"
        raise ValueError(f"{path.name} has {names}; expected images alone")
    shape = tuple(size if isinstance(size, int) and size >= 0 else None for size in inputs[0].shape or ())
    if inputs[0].type != "tensor(float)" or len(shape) != 4 or shape[1] not in (None, 1, 3):
        raise ValueError(
            f"input {inputs[0].name!r} of {path.name} is {inputs[0].type} {_format_shape(shape)}, "
            "expected float32 images [B, C, H, W] with 1 or 3 channels"
        )
    values = math.prod(1 if size is None else size for size in shape)
    if not 1 <= values <= LARGEST:
        raise ValueError(
            f"input {inputs[0].name!r} of {path.name} is {_format_shape(shape)}, expected sizes from 1 on and at most "
            f"{LARGEST:,} values in a batch; export it with a free batch size"
        )
    return inputs[0].name, shape


def _output(session: Any, requested: str | None, path: Path) -> str:
    """Return the name of the output with the scores."""
    outputs = {output.name: output for output in session.get_outputs()}
    if requested is None and "score" in outputs:  # `Panel.export` also writes p-values
        requested = "score"
    if requested is None and len(outputs) > 1:
        raise ValueError(f"{path.name} has the outputs {', '.join(outputs)}: say with output= which one is the scores")
    if not outputs:
        raise ValueError(f"{path.name} has no output, expected scores [B] or [B, 1]")
    name = requested or next(iter(outputs))
    if name not in outputs:
        raise unknown(f"output of {path.name}:", name, outputs)
    if outputs[name].type not in FLOATS:
        raise ValueError(
            f"output {name!r} of {path.name} is {outputs[name].type}, expected scores: {', '.join(FLOATS)}"
        )
    shape = outputs[name].shape
    if shape and (len(shape) > 2 or (len(shape) == 2 and isinstance(shape[1], int) and shape[1] != 1)):
        raise ValueError(
            f"output {name!r} of {path.name} has shape {_format_shape(shape)}, expected scores [B] or [B, 1]"
        )
    return str(name)


def _format_shape(shape: Any) -> str:
    return f"[{', '.join(str(size) if isinstance(size, int) else '?' for size in shape)}]"
