"""Files that are not what they should be: weights, panels, ONNX models, images, archives. One clear error each."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

import farout
from farout.networks import create, load_weights, save_weights
from helpers.command_line import refused
from helpers.onnx_files import write_onnx
from helpers.written_runs import lenet_weights


class Code:
    """What runs something when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("it-ran"),))


def _state(change: Callable[[Tensor], Tensor]) -> Callable[[Path], None]:
    return lambda path: torch.save(
        {key: change(value) for key, value in create("lenet", 4, 32).state_dict().items()}, path
    )


def _cut(size: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        save_weights(create("lenet", 4, 32), path)
        path.write_bytes(path.read_bytes()[:size])

    return write


def _saved(content: Any) -> Callable[[Path], None]:
    return lambda path: torch.save(content, path)


def _bytes(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


WEIGHTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "text.safetensors": (_bytes(b"hello"), "cannot be read as weights"),
    "empty.safetensors": (_bytes(b""), "cannot be read as weights"),
    "huge_header.safetensors": (_bytes(struct.pack("<Q", 2**62) + b"{}"), "cannot be read as weights"),
    "list.safetensors": (_bytes(struct.pack("<Q", 2) + b"[]"), "cannot be read as weights"),
    "cut.safetensors": (_cut(-100), "cannot be read as weights"),
    "cut_header.safetensors": (_cut(40), "cannot be read as weights"),
    "text.pt": (_bytes(b"hello"), "cannot be read as weights"),
    "empty.pt": (_bytes(b""), "cannot be read as weights"),
    "png.pt": (_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100)), "cannot be read as weights"),
    "zip.pt": (_bytes(b"PK\x03\x04" + bytes(100)), "cannot be read as weights"),
    "code.pt": (_bytes(pickle.dumps(Code())), "cannot be read as weights"),
    "code_in.pt": (_saved({"a": Code()}), "cannot be read as weights"),
    "module.pt": (_saved(torch.nn.Linear(2, 2)), "save its state_dict"),
    "list.pt": (_saved([1]), "no state_dict"),
    "number.pt": (_saved(3), "no state_dict"),
    "nothing.pt": (_saved(None), "no state_dict"),
    "words.pt": (_saved({"state_dict": {"a": 1}}), "no state_dict"),
    "none_of_it.pt": (_saved({}), "lacks"),
    "other_names.pt": (_saved({"a": torch.zeros(2)}), "lacks"),
    "other_network.pt": (lambda p: torch.save(create("resnet18", 4, 32).state_dict(), p), "lacks"),
    "other_classes.pt": (lambda p: torch.save(create("lenet", 7, 32).state_dict(), p), "other shapes"),
    "bool.pt": (_state(lambda value: value > 0), "another kind"),
    "int8.pt": (_state(lambda value: value.to(torch.int8)), "another kind"),
    "int64.pt": (_state(lambda value: value.long()), "another kind"),
    "complex.pt": (_state(lambda value: value.to(torch.complex64)), "another kind"),
    "sparse.pt": (_state(lambda value: value.to_sparse()), "another kind"),
    "nan.pt": (_state(lambda value: value * float("nan")), "NaN"),
    "folder.pt": (lambda path: path.mkdir(), "no weights at"),
    "missing.pt": (lambda path: None, "no weights at"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    make, words = WEIGHTS[name]
    make(tmp_path / name)
    with pytest.raises((ValueError, OSError), match=name) as raised:
        load_weights(create("lenet", 4, 32), tmp_path / name)
    assert words in str(raised.value)
    network = ("--network", "lenet", "--weights", tmp_path / name, "--workers", "0")
    assert name in refused("attack", "fgsm", "toy", "--limit", "4", "--out", tmp_path / "out", *network)
    assert not (tmp_path / "it-ran").exists()


def test_counters_stay_integers_and_half_precision_is_taken(tmp_path: Path) -> None:
    network = create("resnet18", 4, 32)
    torch.save(
        {k: v.half() if v.is_floating_point() else v for k, v in network.state_dict().items()}, tmp_path / "h.pt"
    )
    loaded = load_weights(create("resnet18", 4, 32, seed=1), tmp_path / "h.pt")
    assert all(v.dtype == network.state_dict()[k].dtype for k, v in loaded.state_dict().items())


def _facts(**change: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda facts: {**facts, **change}


PANELS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no format": lambda facts: {key: value for key, value in facts.items() if key != "format"},
    "no network": lambda facts: {key: value for key, value in facts.items() if key != "network"},
    "no detectors": lambda facts: {key: value for key, value in facts.items() if key != "detectors"},
    "a list": lambda facts: [],
    "a number": lambda facts: 3,
    "nothing": lambda facts: None,
    "format 9": _facts(format=9),
    "format x": _facts(format="x"),
    "network 3": _facts(network=3),
    "another network": _facts(network="0" * 40),
    "detectors []": _facts(detectors=[]),
    "detectors 3": _facts(detectors={"knn": 3}),
    "a detector without a name": _facts(detectors={"knn": {"params": {}}}),
    "an unknown detector": _facts(detectors={"knn": {"name": "none", "params": {}}}),
    "unknown parameters": _facts(detectors={"knn": {"name": "knn", "params": {"none": 1}}}),
    "parameters 3": _facts(detectors={"knn": {"name": "knn", "params": 3}}),
    "shared with nobody": _facts(shared={"knn/x": "knn/none"}),
    "shared 3": _facts(shared=3),
    "tuned 3": _facts(tuned={"knn": 3}),
    "learned 3": _facts(learned={"knn": {"none": 3}}),
    "states 3": _facts(states=3),
    "more states": _facts(states={"knn": ["bank", "more"]}),
    "states of nobody": _facts(states={"none": []}),
}


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> tuple[farout.Panel, Path]:
    made = farout.Panel(create("lenet", 4, 32), [farout.detectors.create("knn", k=3)])
    made.fit(farout.load("toy", "train", limit=20))
    path = tmp_path_factory.mktemp("panel") / "panel.safetensors"
    made.save(path)
    return made, path


@pytest.mark.parametrize("case", PANELS)
def test_odd_panels(panel: tuple[farout.Panel, Path], tmp_path: Path, case: str) -> None:
    from safetensors import safe_open

    with safe_open(str(panel[1]), "pt") as file:
        facts = json.loads(file.metadata()["farout"])
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    path = tmp_path / "odd.safetensors"
    save_file(tensors, str(path), {"farout": json.dumps(PANELS[case](facts))})
    with pytest.raises((ValueError, TypeError)) as raised:
        farout.Panel.load(path, panel[0].network)
    assert "odd.safetensors" in str(raised.value) or "unknown" in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"hello", struct.pack("<Q", 2**60), struct.pack("<Q", 2) + b"{}"])
def test_files_that_are_no_panels(panel: tuple[farout.Panel, Path], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"odd\.safetensors is not a saved panel"):
        farout.Panel.load(tmp_path / "odd.safetensors", panel[0].network)


ONNX: dict[str, Callable[[Path], Any]] = {
    "empty": _bytes(b""),
    "text": _bytes(b"hello, this is no model"),
    "zeros": _bytes(bytes(64)),
    "two inputs": lambda path: write_onnx(path, inputs=2),
    "rank 2": lambda path: write_onnx(path, ("batch", 8), axes=(1,)),
    "rank 5": lambda path: write_onnx(path, ("batch", 3, 8, 8, 8), axes=(1, 2, 3, 4)),
    "two channels": lambda path: write_onnx(path, ("batch", 2, 8, 8)),
    "doubles": lambda path: write_onnx(path, kind="DOUBLE"),
    "two outputs": lambda path: write_onnx(path, outputs=("a", "b")),
    "scores per pixel": lambda path: write_onnx(path, axes=(1,), output_shape=["batch", 8, 8]),
    "cut": lambda path: path.write_bytes(write_onnx(path).read_bytes()[:-20]),
    "words": lambda path: _string_model(path),
    "missing": lambda path: None,
    "folder": lambda path: path.mkdir(),
}


def _string_model(path: Path) -> None:
    from onnx import TensorProto, helper, save

    words = helper.make_tensor("words", TensorProto.STRING, [2], [b"a", b"b"])
    node = helper.make_node("Constant", [], ["scores"], value=words)
    given = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 8, 8])
    made = helper.make_tensor_value_info("scores", TensorProto.STRING, [2])
    graph = helper.make_graph([node], "words", [given], [made])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))


@pytest.mark.parametrize("case", ONNX)
def test_odd_onnx_models(tmp_path: Path, case: str) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    ONNX[case](path)
    with pytest.raises(ValueError, match=r"model\.onnx"):
        farout.adapters.ONNX(path)
    lenet_weights(tmp_path)
    (tmp_path / "study.yaml").write_text(
        "inliers: {test: toy}\noutliers: [noise]\ndetectors: [{name: onnx, path: model.onnx}]"
    )
    assert "model.onnx" in refused("plan", tmp_path / "study.yaml", "--out", tmp_path / "run")


PIXELS = np.zeros((4, 8, 8, 3), np.uint8)


def _npz(**arrays: Any) -> Callable[[Path], Any]:
    return lambda path: np.savez(path, **arrays)


def _damaged(place: int | None = None, size: int | None = None) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        np.savez_compressed(path, images=np.arange(768, dtype=np.uint8).reshape(4, 8, 8, 3), labels=[0, 1, 0, 1])
        content = bytearray(path.read_bytes()[:size])
        if place is not None:
            content[place] ^= 0xFF
        path.write_bytes(bytes(content))

    return write


def _other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as pack:
        pack.writestr("images.npy", b"no array")


def _png(content: bytes | None = None, size: int | None = None) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.mkdir()
        made = io.BytesIO()
        Image.fromarray(np.arange(3072, dtype=np.uint8).reshape(32, 32, 3)).save(made, "png")
        (path / "a.png").write_bytes(made.getvalue()[:size] if content is None else content)

    return write


def _two_sizes(path: Path) -> None:
    path.mkdir()
    for side in (8, 9):
        Image.new("RGB", (side, side)).save(path / f"{side}.png")


def _floats(path: Path) -> None:
    path.mkdir()
    Image.new("F", (8, 8)).save(path / "a.tif")


SETS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "no arrays": ("a.npz", _npz()),
    "other arrays": ("a.npz", _npz(x=PIXELS)),
    "too few labels": ("a.npz", _npz(images=PIXELS, labels=[0])),
    "labels in two dimensions": ("a.npz", _npz(images=PIXELS, labels=[[0, 1], [0, 1]])),
    "labels that are words": ("a.npz", _npz(images=PIXELS, labels=["a"] * 4)),
    "labels that are halves": ("a.npz", _npz(images=PIXELS, labels=[0.5] * 4)),
    "labels that are objects": ("a.npz", _npz(images=PIXELS, labels=np.array([{}] * 4))),
    "images that are words": ("a.npz", _npz(images=np.array(["a"]))),
    "images that are objects": ("a.npz", _npz(images=PIXELS.astype(object))),
    "images that are one number": ("a.npz", _npz(images=np.zeros(()))),
    "no images": ("a.npz", _npz(images=PIXELS[:0])),
    "four channels": ("a.npz", _npz(images=np.zeros((2, 8, 8, 4), np.uint8))),
    "floats above 1": ("a.npz", _npz(images=np.full((2, 3, 8, 8), 2.0))),
    "not a number": ("a.npz", _npz(images=np.full((2, 3, 8, 8), np.nan))),
    "64-bit integers": ("a.npz", _npz(images=PIXELS.astype(np.int64))),
    "severities too few": ("a.npz", _npz(images=PIXELS, severity=[1])),
    "an archive cut short": ("a.npz", _damaged(size=-30)),
    "half an archive": ("a.npz", _damaged(size=200)),
    "a changed byte at 60": ("a.npz", _damaged(60)),
    "a changed byte at 120": ("a.npz", _damaged(120)),
    "a changed byte at 300": ("a.npz", _damaged(300)),
    "a changed directory": ("a.npz", _damaged(-60)),
    "a zip of something else": ("a.npz", _other_zip),
    "text named .npz": ("a.npz", _bytes(b"hello")),
    "an empty .npz": ("a.npz", _bytes(b"")),
    "text named .npy": ("a.npy", _bytes(b"hello")),
    "an empty .npy": ("a.npy", _bytes(b"")),
    "an .npy cut short": ("a.npy", lambda p: (np.save(p, PIXELS), p.write_bytes(p.read_bytes()[:-5]))),
    "an .npy of a header": ("a.npy", lambda p: (np.save(p, PIXELS), p.write_bytes(p.read_bytes()[:40]))),
    "an .npy of objects": ("a.npy", lambda p: np.save(p, np.array([{}]))),
    "an .npy of words": ("a.npy", lambda p: np.save(p, np.array(["a"]))),
    "text named .parquet": ("a.parquet", _bytes(b"hello")),
    "an empty .parquet": ("a.parquet", _bytes(b"")),
    "a parquet without end": ("a.parquet", _bytes(b"PAR1" + bytes(50) + b"PAR1")),
    "a tar": ("a.tar", _bytes(b"hello")),
    "a text": ("a.txt", _bytes(b"hello")),
    "an empty folder": ("a", lambda path: path.mkdir()),
    "text named .png": ("a", _png(b"hello")),
    "an empty .png": ("a", _png(b"")),
    "half a .png": ("a", _png(size=100)),
    "a .png of its head": ("a", _png(size=40)),
    "a gif of its head": ("a", _png(b"GIF89a")),
    "float pixels": ("a", _floats),
    "two sizes": ("a", _two_sizes),
    "nothing": ("a.npz", lambda path: None),
}  # fmt: skip


@pytest.mark.parametrize("case", SETS)
def test_odd_image_sets(tmp_path: Path, case: str) -> None:
    name, make = SETS[case]
    path = tmp_path / name
    make(path)
    with pytest.raises((ValueError, OSError)) as raised:
        farout.load(path).fingerprint, farout.load(path).shape
    assert len(str(raised.value)) > 20
    said = refused("corrupt", path, "--out", tmp_path / "out", "--shift", "contrast", "--workers", "0")
    assert str(raised.value).splitlines()[0][:60] in said


@pytest.mark.parametrize(
    "facts",
    ["", "[]", "3", "{", "null", '{"shifts": 3}', '{"shifts": {"fog": 3}}', '{"shifts": {"fog": {}}}', "{}",
     '{"shifts": {"fog": {"place": "../x", "labels": ["a"], "images": 1, "severities": [1], "identities": [], '
     '"versions": [], "finished": true}}}'],
)  # fmt: skip
def test_odd_manifests(tmp_path: Path, facts: str) -> None:
    np.savez(tmp_path / "set.npz", images=np.zeros((2, 32, 32, 3), np.uint8))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text(facts)
    command = ("corrupt", tmp_path / "set.npz", "--out", tmp_path / "out", "--shift", "fog", "--workers", "0")
    assert "manifest.json" in refused(*command)
    assert (tmp_path / "out" / "manifest.json").read_text() == facts
