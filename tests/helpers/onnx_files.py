"""Small ONNX files: the mean of an image, as scores of several shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SIZES = ("batch", 3, 8, 8)


def write_onnx(
    path: Path,
    shape: Any = SIZES,
    *,
    keep: bool = False,
    factor: float = 1.0,
    outputs: tuple[str, ...] = ("scores",),
    output_shape: Any = None,
    axes: tuple[int, ...] = (1, 2, 3),
    inputs: int = 1,
    kind: str = "FLOAT",
) -> Path:
    """A model that averages over `axes` and multiplies; `keep` gives [B, 1]; further outputs are the negative."""
    from onnx import TensorProto, checker, helper, save

    real = getattr(TensorProto, kind)
    names = ["images", *(f"more{i}" for i in range(inputs - 1))]
    given = [helper.make_tensor_value_info(name, real, shape) for name in names]
    numbers = np.array([factor], helper.tensor_dtype_to_np_dtype(real))
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [len(axes)], axes),
        helper.make_tensor("factor", real, [1], numbers.tobytes(), raw=True),
        helper.make_tensor("column", TensorProto.INT64, [2], [-1, 1]),
    ]
    nodes = [helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0)]
    nodes += [helper.make_node("Mul", ["mean", "factor"], [outputs[0] if not keep else "flat"])]
    if keep:
        nodes.append(helper.make_node("Reshape", ["flat", "column"], [outputs[0]]))
    nodes += [helper.make_node("Neg", [outputs[0]], [name]) for name in outputs[1:]]
    if output_shape is None:
        output_shape = [shape[0], 1] if keep else [shape[0]]
    made = [helper.make_tensor_value_info(name, real, output_shape) for name in outputs]
    graph = helper.make_graph(nodes, "mean", given, made, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    checker.check_model(model)
    save(model, str(path))
    return path
