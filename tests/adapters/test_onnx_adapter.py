"""A detector in an ONNX file: its scores, fixed and free shapes, what is found when it is opened."""

from __future__ import annotations

import copy
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import farout
from farout.adapters import ONNX
from farout.identity import describe
from farout.registry import UnknownName
from helpers.onnx_files import write_onnx

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

IMAGES = torch.rand(10, 3, 8, 8, generator=torch.Generator().manual_seed(0))
EXPECTED = IMAGES.double().mean((1, 2, 3))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("shape", [("batch", 3, 8, 8), (4, 3, 8, 8), (1, 3, 8, 8), (16, 3, 8, 8), ("b", "c", "h", "w")])
def test_scores_are_the_files_whatever_its_batch(tmp_path: Path, shape: Any, keep: bool) -> None:
    detector = ONNX(write_onnx(tmp_path / "mean.onnx", shape, keep=keep))
    for count in (0, 1, 4, 10):
        scores = detector.score(IMAGES[:count])
        assert scores.shape == (count,)
        assert scores.dtype == torch.float64
        assert torch.allclose(scores, EXPECTED[:count], rtol=1e-6)


def test_the_sign(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "mean.onnx")
    assert torch.equal(ONNX(path, larger="inlying").score(IMAGES), -ONNX(path).score(IMAGES))
    with pytest.raises(ValueError, match="larger must be 'outlying' or 'inlying'"):
        ONNX(path, larger="more")  # type: ignore[arg-type]


def test_one_of_several_outputs(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "two.onnx", outputs=("scores", "negative"))
    with pytest.raises(ValueError, match=r"two.onnx has the outputs scores, negative: say with output="):
        ONNX(path)
    assert torch.allclose(ONNX(path, output="negative").score(IMAGES), -EXPECTED, rtol=1e-6)
    with pytest.raises(UnknownName, match=r"unknown output of two.onnx: 'score'. Did you mean 'scores'"):
        ONNX(path, output="score")


def test_it_passes_the_battery(tmp_path: Path) -> None:
    for shape in (("batch", 3, "h", "w"), (7, 3, 32, 32)):
        detector = ONNX(write_onnx(tmp_path / "mean.onnx", shape))
        assert [finding for finding in farout.check(detector) if finding.problem] == []


def test_copies_open_the_file_again_and_find_it_changed(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "mean.onnx")
    detector = ONNX(path)
    for made in (copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))):
        assert torch.equal(made.score(IMAGES), detector.score(IMAGES))
    late = copy.deepcopy(detector)
    write_onnx(path, factor=2.0)
    with pytest.raises(ValueError, match="has changed since it was opened"):
        late.score(IMAGES)
    assert torch.allclose(detector.score(IMAGES), EXPECTED, rtol=1e-6)


def test_identity_is_the_content_and_how_it_is_read(tmp_path: Path) -> None:
    first, same = (write_onnx(tmp_path / name, outputs=("a", "b")) for name in ("first.onnx", "same.onnx"))
    other = write_onnx(tmp_path / "other.onnx", outputs=("a", "b"), factor=2.0)
    base = describe(ONNX(first, output="a"))
    assert base == describe(ONNX(same, output="a"))
    for different in (ONNX(other, output="a"), ONNX(first, output="b"), ONNX(first, output="a", larger="inlying")):
        assert describe(different) != base


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": ("b", 192), "axes": (1,)}, r"input 'images' .* is tensor\(float\) \[\?, 192\], expected float32"),
        ({"shape": ("b", 8, 8, 3)}, r"\[\?, 8, 8, 3\], expected float32 images \[B, C, H, W\] with 1 or 3 channels"),
        ({"kind": "DOUBLE"}, r"is tensor\(double\)"),
        ({"inputs": 2}, "has the inputs images, more0; expected images alone"),
        ({"axes": (2, 3), "output_shape": ["b", 3]}, r"output 'scores' .* has shape \[\?, 3\], expected scores \[B\]"),
    ],
)
def test_what_takes_or_gives_something_else_is_found_when_opened(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write_onnx(tmp_path / "wrong.onnx", **changes)
    with pytest.raises(ValueError, match=message):
        ONNX(path)


def test_images_of_another_shape_are_refused(tmp_path: Path) -> None:
    detector = ONNX(write_onnx(tmp_path / "mean.onnx"))
    with pytest.raises(ValueError, match=r"mean.onnx takes images \[\?, 3, 8, 8\], got \[2, 3, 16, 16\]"):
        detector.score(torch.zeros(2, 3, 16, 16))


def test_scores_of_another_shape_are_refused(tmp_path: Path) -> None:
    """The file does not say how many channels there are, so it cannot be known when it is opened."""
    path = write_onnx(tmp_path / "wrong.onnx", ("b", "c", 8, 8), axes=(2, 3), output_shape=["b", "c"])
    with pytest.raises(ValueError, match=r"is float32 \[10, 3\] for 10 images, expected floats \[B\] or \[B, 1\]"):
        ONNX(path).score(IMAGES)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read the ONNX file .*missing.onnx: No such file"):
        ONNX(tmp_path / "missing.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(ValueError, match=r"text.onnx cannot be opened as an ONNX model in one file"):
        ONNX(tmp_path / "text.onnx")


MEAN = ("ReduceMean", ["images", "axes"], ["scores"], {"keepdims": 0})
BATCH = ["b", 3, 8, 8]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": ("FLOAT", None)}, r"input 'images' of odd.onnx is tensor\(float\) \[\], expected float32 images"),
        (
            {
                "input": ("FLOAT", ["b", 8, 8]),
                "node": ("ReduceMean", ["images"], ["scores"], {}),
                "output": ("FLOAT", None),
            },
            r"\[\?, 8, 8\], expected float32 images",
        ),
        ({"input": None, "node": ("Constant", [], ["scores"], {"value_floats": [1.0]})}, "odd.onnx has no input; "),
        ({"input": ("FLOAT", [0, 3, 8, 8])}, r"is \[0, 3, 8, 8\], expected sizes from 1 on"),
        ({"input": ("FLOAT", [2**40, 3, 8, 8])}, r"is \[1099511627776, 3, 8, 8\], .* export it with a free batch size"),
        ({"input": ("FLOAT", ["b", 3, 2**20, 2**20])}, "and at most 268,435,456 values in a batch"),
        ({"output": None}, r"odd.onnx has no output, expected scores \[B\] or \[B, 1\]"),
        (
            {"output": ("STRING", ["b"]), "node": ("Constant", [], ["scores"], {"value_strings": ["a", "b"]})},
            r"output 'scores' of odd.onnx is tensor\(string\), expected scores: tensor\(float\)",
        ),
        (
            {"output": ("sequence", None), "node": ("SequenceConstruct", ["images"], ["scores"], {})},
            r"output 'scores' of odd.onnx is seq\(tensor\(float\)\), expected scores",
        ),
        (
            {"output": ("BFLOAT16", None), "node": ("Cast", ["images"], ["scores"], {"to": 16})},
            r"is tensor\(bfloat16\), expected scores",
        ),
        (
            {"node": ("Squeeze", ["images", "axes"], ["scores"], {}), "input": ("FLOAT", ["b", "c", "h", "w"])},
            r"odd.onnx failed on images \[10, 3, 8, 8\] in \[0, 1\]: .*Dimension of input 1 must be 1 instead of 3",
        ),
        ({"opset": 99}, r"odd.onnx cannot be opened as an ONNX model .*opset"),
        ({"ir": 99}, r"odd.onnx cannot be opened as an ONNX model .*IR version"),
        ({"node": ("Foo", ["images"], ["scores"], {})}, r"odd.onnx cannot be opened as an ONNX model .*Foo"),
    ],
)
def test_odd_models_are_errors_that_name_the_file(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    from onnx import TensorProto, helper

    def values(name: str, given: Any) -> list[Any]:
        if given is None:
            return []
        if given[0] == "sequence":
            return [helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)]
        return [helper.make_tensor_value_info(name, getattr(TensorProto, given[0]), given[1])]

    kind, inputs, outputs, attributes = change.get("node", MEAN)
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, outputs, **attributes)],
        "odd",
        values("images", change.get("input", ("FLOAT", BATCH))),
        values("scores", change.get("output", ("FLOAT", ["b"]))),
        [helper.make_tensor("axes", TensorProto.INT64, [3], [1, 2, 3])],
    )
    opset = [helper.make_opsetid("", change.get("opset", 18))]
    model = helper.make_model(graph, opset_imports=opset, ir_version=change.get("ir", 9))
    (tmp_path / "odd.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=message) as caught:
        ONNX(tmp_path / "odd.onnx").score(IMAGES)
    assert len(str(caught.value)) < 600


def test_what_is_cut_off_or_no_file_is_refused(tmp_path: Path) -> None:
    whole = write_onnx(tmp_path / "mean.onnx").read_bytes()
    for kept in (0, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.onnx").write_bytes(whole[:kept])
        with pytest.raises(ValueError, match=r"cut.onnx cannot be opened as an ONNX model in one file"):
            ONNX(tmp_path / "cut.onnx")
    os.mkfifo(tmp_path / "pipe.onnx")
    for name in ("pipe.onnx", "."):
        with pytest.raises(
            ValueError, match=r"cannot read the ONNX file .*: it is a folder or a device, not a regular file"
        ):
            ONNX(tmp_path / name)
    with pytest.raises(ValueError, match=r"mean.onnx takes images \[\?, 3, 8, 8\], got \[3, 8, 8\]"):
        ONNX(tmp_path / "mean.onnx").score(IMAGES[0])


@pytest.mark.parametrize("inner", [False, True])
def test_weights_in_another_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: bool) -> None:
    """What is not in the file would be no part of what the detector is, though ONNX Runtime reads it."""
    import onnxruntime
    from onnx import TensorProto, external_data_helper, helper, save

    weight = helper.make_tensor("weight", TensorProto.FLOAT, [192, 1], b"\0\0\0\x40" * 192, raw=True)
    rows = helper.make_tensor("rows", TensorProto.INT64, [2], [0, -1])
    nodes = [helper.make_node("Reshape", ["images", "rows"], ["flat"])]
    nodes += [helper.make_node("Constant", [], ["weight"], value=weight)] if inner else []
    nodes += [helper.make_node("MatMul", ["flat", "weight"], ["scores"])]
    given = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["b", 3, 8, 8])
    made = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["b", 1])
    graph = helper.make_graph(nodes, "g", [given], [made], [rows] if inner else [rows, weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    save(model, str(tmp_path / "whole.onnx"))
    assert torch.allclose(ONNX(tmp_path / "whole.onnx").score(IMAGES), 2 * 192 * EXPECTED, rtol=1e-5)
    kept = model.graph.node[1].attribute[0].t if inner else model.graph.initializer[1]
    (tmp_path / "weights.bin").write_bytes(kept.raw_data)
    external_data_helper.set_external_data(kept, "weights.bin")
    kept.ClearField("raw_data")
    (tmp_path / "split.onnx").write_bytes(model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    if not inner:
        onnxruntime.InferenceSession((tmp_path / "split.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    with pytest.raises(ValueError, match="in one file, weights included: it keeps weights in another file"):
        ONNX(tmp_path / "split.onnx")


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_onnx(tmp_path / "mean.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r'mean.onnx needs ONNX Runtime: pip install "farout\[onnx\]"'):
        ONNX(path)
