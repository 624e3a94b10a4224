"""Identity: equal things have equal hashes wherever they lie, and whatever decides a result changes the hash."""

from __future__ import annotations

import copy
import hashlib
import struct
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from farout import Detector, Network, PostHoc, Shift
from farout.attacks import Attack
from farout.identity import canonical, describe, digest, digest_arrays, digest_module
from farout.plugins import load_plugin
from farout.search import Search

SEED = 0.25


def filled(module: nn.Module, value: float = 0.5) -> nn.Module:
    """The module with every parameter at `value`, so that nothing is drawn."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(value)
    return module


def linear(value: float = 0.5) -> nn.Module:
    return filled(torch.nn.utils.skip_init(nn.Linear, 2, 2), value)


class Holder(Detector):
    """Holds whatever it is given."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def test_one_spelling_for_one_value() -> None:
    assert canonical({"b": [1, 0.1, None, True], "a": {"é": "x"}}) == r'{"a":{"\u00e9":"x"},"b":[1,0.1,null,true]}'
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert canonical(np.float64(0.1)) == canonical(0.1) == "0.1"
    assert canonical(1e22) == "1e+22"
    assert canonical(-0.0) == "-0.0"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_cannot_say_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="is NaN or infinite, expected finite numbers"):
        digest({"a": value})


def test_a_digest_is_the_start_of_a_sha256() -> None:
    assert digest({"a": [1, 2.5]}) == hashlib.sha256(b'{"a":[1,2.5]}').hexdigest()[:40]


@pytest.mark.parametrize("pair", [(1, 1.0), (0.0, -0.0), (1, "1"), (1, True), (None, "null"), ([1, 2], [[1], 2])])
def test_different_values_have_different_digests(pair: tuple[Any, Any]) -> None:
    assert digest(pair[0]) != digest(pair[1])


def test_the_digest_of_arrays_is_that_of_their_bytes() -> None:
    expected = hashlib.sha256(b"x|<f4|(2, 1)|" + struct.pack("<2f", 1.5, -2) + b"y|<i8|()|" + struct.pack("<q", 7))
    assert digest_arrays([("x", np.array([[1.5], [-2]], np.float32)), ("y", np.int64(7))]) == expected.hexdigest()[:40]


def test_memory_layout_is_no_part_of_an_array() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert digest_arrays([("x", array)]) == digest_arrays([("x", np.asfortranarray(array))])
    assert digest_arrays([("x", array[:, ::2])]) == digest_arrays([("x", array[:, ::2].copy())])


def test_name_type_shape_values_and_order_are_part_of_arrays() -> None:
    array = np.arange(4.0)
    variants = [
        [("x", array)],
        [("y", array)],
        [("x", array.astype(np.float32))],
        [("x", array.reshape(2, 2))],
        [("x", -array)],
        [("x", array[:2]), ("x", array[2:])],
        [("x", array[:0])],
        [],
    ]
    assert len({digest_arrays(variant) for variant in variants}) == len(variants)


def test_a_module_is_its_weights_buffers_and_structure() -> None:
    class Shifted(nn.Linear):
        def __init__(self, shift: float) -> None:
            super().__init__(2, 2, device="meta")
            self.to_empty(device="cpu")
            self.register_buffer("shift", torch.tensor(shift), persistent=False)

    variants = [
        linear(),
        linear(0.6),
        linear().bfloat16(),
        nn.Sequential(linear()),
        filled(torch.nn.utils.skip_init(nn.Linear, 2, 2, bias=False)),
        filled(Shifted(1.0)),
        filled(Shifted(2.0)),
        *[filled(torch.nn.utils.skip_init(nn.Conv2d, 2, 2, 3, stride=stride)) for stride in (1, 2)],
        *[
            nn.Sequential(linear(), activation)
            for activation in (nn.ReLU(), nn.GELU(), nn.LeakyReLU(), nn.LeakyReLU(0.2))
        ],
    ]
    assert len({digest_module(module) for module in variants}) == len(variants)
    assert [digest_module(copy.deepcopy(module)) for module in variants] == [digest_module(m) for m in variants]


def test_memory_format_and_mode_are_no_part_of_a_module() -> None:
    convolution = filled(torch.nn.utils.skip_init(nn.Conv2d, 3, 4, 3))
    before = digest_module(convolution)
    assert digest_module(convolution.to(memory_format=torch.channels_last).eval()) == before  # type: ignore[call-overload]


def test_equal_objects_are_described_equally_and_others_differently() -> None:
    variants: list[Callable[[], dict[str, Any]]] = [
        lambda: {},
        lambda: {"a": 1},
        lambda: {"a": 1.0},
        lambda: {"a": "1.0"},
        lambda: {"a": True},
        lambda: {"a": float("nan")},
        lambda: {"a": "nan"},
        lambda: {"a": -float("inf")},
        lambda: {"a": np.float32(0.1)},
        lambda: {"a": [1, 2]},
        lambda: {"a": {1, 2}},
        lambda: {"a": {"1", "2"}},
        lambda: {"a": {1: "x"}},
        lambda: {"a": {"1": "x"}},
        lambda: {"a": {1: "x", "1": "y"}},
        lambda: {"a": {1: "z", "1": "y"}},
        lambda: {"a": np.arange(3)},
        lambda: {"a": np.arange(3.0)},
        lambda: {"a": torch.arange(3.0)},
        lambda: {"a": torch.arange(3.0).bfloat16()},
        lambda: {"a": linear()},
        lambda: {"a": linear(0.6)},
        lambda: {"a": torch.float16},
        lambda: {"a": None},
        lambda: {"a": Network(nn.Sequential(nn.Flatten(), linear()), mean=0.5, std=0.5, head="1")},
        lambda: {"a": Network(nn.Sequential(nn.Flatten(), linear()), mean=0.4, std=0.5, head="1")},
        lambda: {"a": Network(nn.Sequential(nn.Flatten(), linear()), mean=0.4, std=0.5, head="1", side=32)},
    ]
    described = [describe(Holder(**make())) for make in variants]
    assert None not in described
    assert [describe(Holder(**make())) for make in variants] == described
    assert len({digest(value) for value in described}) == len(variants)


def test_an_array_and_a_tensor_of_the_same_bytes_are_one() -> None:
    assert describe(Holder(a=np.arange(3.0))) == describe(Holder(a=torch.arange(3.0, dtype=torch.float64)))


def test_numpy_and_python_numbers_are_one() -> None:
    assert describe(Holder(a=np.int32(3), b=np.float64(0.5), c=np.bool_(True))) == describe(Holder(a=3, b=0.5, c=True))


def test_the_order_of_attributes_is_no_part_of_an_object() -> None:
    first, second = describe(Holder(a=1, b={"x": 1, "y": 2})), describe(Holder(b={"y": 2, "x": 1}, a=1))
    assert digest(first) == digest(second)


def closure(value: int) -> Callable[[], int]:
    return lambda: value


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    "attribute",
    [
        lambda: 0,
        closure(3),
        object(),
        np.array([object()]),
        np.zeros(1, [("a", object)]),
        np.longdouble(1),
        _cycle(),
        Path("weights.pt"),
        torch.eye(2).to_sparse(),
        [1, {"deep": lambda: 0}],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_told_apart_is_not_described(attribute: Any) -> None:
    assert describe(Holder(a=attribute)) is None


def test_a_class_without_source_is_not_described() -> None:
    for names in ({"Detector": Detector}, {"Detector": Detector, "__name__": "somewhere"}):
        exec("class Mine(Detector):\n    def score(self, images): return images.mean((1, 2, 3))", names)
        assert describe(names["Mine"]()) is None  # type: ignore[operator]


def test_a_module_without_source_is_not_described() -> None:
    names: dict[str, Any] = {"nn": nn}
    exec("class Net(nn.Module):\n    def forward(self, x): return 2 * x", names)
    assert describe(Holder(net=names["Net"]())) is None
    assert describe(Holder(net=nn.Sequential(names["Net"]()))) is None


def test_a_declared_identity_is_taken_at_its_word() -> None:
    class Said(Holder):
        def identity(self) -> Any:
            return {"name": "said", "version": 3, "rate": 0.5}

    class Written(Holder):
        identity = "mine, second edition"

    assert describe(Said(a=lambda: 0)) == {"name": "said", "version": 3, "rate": 0.5}
    assert describe(Written(a=lambda: 0)) == "mine, second edition"


MINE = """
import torch
from farout import Detector
{top}
class Mine(Detector):
    def score(self, images):
        return {score}
"""


def mine(folder: Path, top: str = "", score: str = "images.mean((1, 2, 3))") -> Any:
    """The description of the class in a file of its own."""
    folder.mkdir()
    (folder / "mine.py").write_text(MINE.format(top=top, score=score))
    return describe(load_plugin(folder / "mine.py").Mine())


def test_the_source_decides_and_not_the_place(tmp_path: Path) -> None:
    first = mine(tmp_path / "a")
    assert first is not None
    assert digest(mine(tmp_path / "b")) == digest(first)
    assert digest(mine(tmp_path / "c", score="-images.mean((1, 2, 3))")) != digest(first)


NET = "net = torch.nn.utils.skip_init(torch.nn.Linear, 2, 2)\ntorch.nn.init.constant_(net.weight, {value})\n" + (
    "torch.nn.init.constant_(net.bias, 0.0)\n"
)


@pytest.mark.parametrize(
    ("top", "other", "score"),
    [
        (NET.format(value=1.0), NET.format(value=2.0), "net(images.flatten(1)).amax(1)"),
        ("K = 3\n", "K = 4\n", "images.mean((1, 2, 3)) * K"),
        ("K = 3\n", "K = 4\n", "torch.stack([image.mean() * K for image in images])"),
        ("def f(x): return x\n", "def f(x): return -x\n", "f(images).mean((1, 2, 3))"),
        ("K = 3\ndef f(x): return x * K\n", "K = 4\ndef f(x): return x * K\n", "f(images).mean((1, 2, 3))"),
        ("class C:\n    k = 3\n", "class C:\n    k = 4\n", "images.mean((1, 2, 3)) * C.k"),
        ("f = lambda x: x\n", "f = lambda x: -x\n", "f(images).mean((1, 2, 3))"),
    ],
    ids=["module", "number", "number in a loop", "function", "number in a function", "class", "lambda"],
)
def test_what_score_reads_from_outside_decides_too(top: str, other: str, score: str, tmp_path: Path) -> None:
    first, second, changed = (
        mine(tmp_path / name, text, score) for name, text in zip("abc", (top, top, other), strict=True)
    )
    assert first is not None
    assert changed is not None
    assert first == second
    assert first != changed


def test_what_nobody_reads_does_not_matter(tmp_path: Path) -> None:
    first = mine(tmp_path / "a", "OTHER = 3\nmean = object()\n")
    assert first is not None
    assert digest(first) == digest(mine(tmp_path / "b", "OTHER = 4\n"))


def test_reading_what_cannot_be_told_apart_is_not_described(tmp_path: Path) -> None:
    assert mine(tmp_path / "a", "net = object()\n", "net.score(images)") is None
    network = linear()

    class Closed(Detector):
        def score(self, images: torch.Tensor) -> Any:
            return network(images)

    assert describe(Closed()) is not None
    before = digest(describe(Closed()))
    filled(network, 0.7)
    assert digest(describe(Closed())) != before


def test_library_functions_are_taken_as_given(tmp_path: Path) -> None:
    top = "import math\nimport numpy as np\nfrom math import pi\nfrom numpy import exp\n"
    top += "from scipy.special import softmax\nfrom sklearn.neighbors import NearestNeighbors\n"
    top += "from torch.nn.functional import relu\n"
    score = "[exp, softmax, pi, NearestNeighbors, relu, np, math, len, torch.softmax]"
    assert mine(tmp_path / "a", top, score) is not None


@dataclass
class Settings:
    rate: float = SEED


def test_dataclasses_are_their_fields() -> None:
    assert describe(Holder(s=Settings())) == describe(Holder(s=Settings(0.25))) is not None
    assert describe(Holder(s=Settings())) != describe(Holder(s=Settings(0.5)))


def test_the_source_of_a_module_decides_its_digest(tmp_path: Path) -> None:
    text = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x): return {}\n"
    for name, forward in (("a", "x"), ("b", "x"), ("c", "2 * x")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(text.format(forward))
    a, b, c = (digest_module(load_plugin(tmp_path / name / "net.py").Net()) for name in "abc")
    assert a == b != c


class Plain(PostHoc):
    def __init__(self, factor: Any) -> None:
        super().__init__()
        self.factor = factor

    def score(self, activations: Any) -> Any:
        return self.factor * activations.logits.sum(1)


class Darker(Shift):
    random = False

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def apply(self, images: Any, params: Any) -> Any:
        return images * self.factor


class Painted(Attack):
    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def run(self, target: Any, images: Any, labels: Any, rngs: Any) -> Any:
        return images * 0 + self.factor


class Still(Search):
    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def init(self, space: Any, z: Any, score: Any) -> Any: ...

    def step(self, state: Any, space: Any, score: Any, rng: Any) -> Any: ...


@pytest.mark.parametrize("cls", [Plain, Darker, Painted, Still])
def test_what_an_object_holds_beside_its_fields_tells_it_from_others(cls: type[Any]) -> None:
    assert digest(cls(0.1).identity()) == digest(cls(0.1).identity())
    assert digest(cls(0.1).identity()) != digest(cls(0.9).identity())


@pytest.mark.parametrize("cls", [Plain, Darker, Painted, Still])
def test_an_object_that_holds_what_cannot_be_told_is_like_no_other(cls: type[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one warning a class, by whichever test comes first
        one, other = cls(threading.Lock()), cls(threading.Lock())
        assert digest(one.identity()) == digest(one.identity())
        assert digest(one.identity()) != digest(other.identity())
