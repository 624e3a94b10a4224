"""A plain function as a detector: its scores, its sign, and what it is."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import farout
from farout.adapters import Function
from farout.identity import describe
from farout.plugins import load_plugin

IMAGES = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def bright(images: Tensor, factor: float = 1.0) -> Tensor:
    return factor * images.mean((1, 2, 3))


class Owner:
    """Holds what its method reads."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def rate(self, images: Tensor) -> Tensor:
        return self.factor * images.amax((1, 2, 3))


def times(factor: float) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        @wraps(function)
        def wrapped(images: Tensor) -> Any:
            return factor * function(images)

        return wrapped

    return decorate


def test_scores_are_the_functions() -> None:
    expected = [float(image.double().mean()) for image in IMAGES]
    assert Function(bright).score(IMAGES).tolist() == pytest.approx(expected, rel=1e-6)
    assert Function(bright, larger="inlying").score(IMAGES).tolist() == pytest.approx([-x for x in expected], rel=1e-6)
    assert Function(bright).score(IMAGES).dtype == torch.float64


@pytest.mark.parametrize(
    "answer", [lambda x: x.mean((1, 2, 3)).tolist(), lambda x: x.mean((1, 2, 3)).numpy(), lambda x: x.mean((1, 2, 3))]
)
def test_lists_arrays_and_tensors_are_scores(answer: Any) -> None:
    assert torch.equal(Function(answer).score(IMAGES), IMAGES.mean((1, 2, 3)).double())


def test_gradients_flow() -> None:
    images = IMAGES.clone().requires_grad_()
    Function(bright, larger="inlying").score(images).sum().backward()
    assert torch.allclose(images.grad, torch.full_like(images, -1 / (3 * 8 * 8)))  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [bright, partial(bright, factor=2.0), Owner(3.0).rate, lambda x: x.std((1, 2, 3))])
def test_it_passes_the_battery(function: Any) -> None:
    assert [finding for finding in farout.check(Function(function)) if finding.problem] == []


def test_a_function_is_checked_as_it_stands() -> None:
    assert farout.check(bright) == farout.check(Function(bright))
    crowd = farout.check(lambda images: images.mean((1, 2, 3)) - images.mean())
    assert next(finding.check for finding in crowd if finding.problem) == "gives an image the same score in any batch"


def test_a_name_in_a_file_runs_no_code_unless_the_file_is_a_plugin(tmp_path: Path) -> None:
    file = tmp_path / "its own.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef score(x): return x.mean((1, 2, 3))\n")
    with pytest.raises(ValueError, match=re.escape(f"only if you name its file: farout run … --plugin '{file}'")):
        Function(f"{file}:score")
    assert not (tmp_path / "ran").exists()
    load_plugin(file)
    assert torch.equal(Function(f"{file}:score").score(IMAGES), IMAGES.mean((1, 2, 3)).double())
    with pytest.raises(ValueError, match="Did you mean 'score'"):
        Function(f"{file}:scores")
    with pytest.raises(ValueError, match=r"expected file.py:Name, got 'score'"):
        Function("score")


def test_names() -> None:
    functions = [bright, partial(bright, factor=2.0), Owner(3.0).rate, lambda x: x]
    assert [Function(f).name for f in functions] == ["bright", "bright", "rate", "function"]  # type: ignore[arg-type]
    assert Function(bright, name="mine").name == "mine"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (nn.Linear(2, 1), "expected a function from images to scores, got Linear"),
        (Owner, "got the class Owner"),
        (3, "got int"),
    ],
)
def test_what_is_no_function_is_refused(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Function(given)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: x.mean((2, 3)), r"shape \(6, 3\) for 6 images"),
        (lambda x: None, "returned scores of shape"),
        (lambda x: ["a"] * 6, "expected real numbers"),
        (lambda x: x.mean(), r"shape \(\)"),
    ],
)
def test_what_is_no_score_per_image_is_refused(answer: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"function returned.*{message}|{message}"):
        Function(answer).score(IMAGES)
    with pytest.raises(ValueError, match="larger must be 'outlying' or 'inlying'"):
        Function(answer, larger="more")  # type: ignore[arg-type]


TEXT = """
import numpy as np
import torch
from functools import partial, wraps
{other}
FACTOR = {factor}
net = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
net.weight.fill_({weight})

def helper(x):
    return x + {shift}

def doubled(function):
    @wraps(function)
    def wrapped(images):
        return {twice} * function(images)
    return wrapped

@doubled
def score(images, power={power}):
    return FACTOR * helper(images.mean((1, 2, 3)) ** power) + net.weight.sum()

given = partial(score.__wrapped__, power={given})
nameless = lambda images: {nameless} * images.mean((1, 2, 3)); other = lambda images: 9 * images.mean((1, 2, 3))
"""


@pytest.fixture
def functions(tmp_path: Path) -> Callable[..., Any]:
    """A module of functions from a file of its own that differs by some changes only."""

    def load(**changes: Any) -> Any:
        facts = {"other": "", "factor": 1, "weight": 1, "shift": 0, "twice": 2, "power": 1, "given": 2, "nameless": 3}
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "mine.py").write_text(TEXT.format(**facts | changes))
        return load_plugin(folder / "mine.py")

    return load


@pytest.mark.parametrize("name", ["score", "given", "nameless", "other"])
def test_the_same_function_is_the_same_wherever_it_lies(functions: Callable[..., Any], name: str) -> None:
    first, second = (describe(Function(getattr(functions(), name))) for _ in range(2))
    assert first is not None
    assert first == second == describe(Function(getattr(functions(other="UNREAD = 3"), name)))


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        *(("score", part) for part in ("factor", "weight", "shift", "twice", "power")),
        *(("given", part) for part in ("factor", "weight", "shift", "given")),
        ("nameless", "nameless"),
    ],
)
def test_a_change_of_what_decides_scores_is_told(functions: Callable[..., Any], name: str, changed: str) -> None:
    before = describe(Function(getattr(functions(), name)))
    after = describe(Function(getattr(functions(**{changed: 7}), name)))
    assert None not in (before, after)
    assert before != after


def test_two_nameless_functions_of_one_line_differ(functions: Callable[..., Any]) -> None:
    module = functions()
    assert describe(Function(module.nameless)) != describe(Function(module.other))


@pytest.mark.parametrize(
    "text",
    [
        "import scipy.ndimage\ndef f(x): return scipy.ndimage.sobel(x)\n",
        "from scipy.ndimage import sobel\ndef f(x): return sobel(x)\n",
        "def f(x):\n    from scipy import ndimage\n    return ndimage.sobel(x)\n",
    ],
)
def test_another_version_of_a_library_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    import scipy

    (tmp_path / "uses.py").write_text(text)
    function = load_plugin(tmp_path / "uses.py").f
    before = describe(Function(function))
    assert before is not None
    assert before == describe(Function(function))
    monkeypatch.setattr(scipy, "__version__", "0.0.1")
    assert describe(Function(function)) != before


def test_files_that_a_file_reads_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(factor: int) -> Any:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "near_one.py").write_text("import far_one\ndef f(x):\n    return far_one.FACTOR * x\n")
        (folder / "far_one.py").write_text(f"FACTOR = {factor}\n")
        (folder / "mine.py").write_text(
            "import near_one\ndef score(x):\n    return near_one.f(x.mean((1, 2, 3)))\n"
            "def late(x):\n    import far_one\n    return far_one.FACTOR * x.mean((1, 2, 3))\n"
        )
        monkeypatch.syspath_prepend(folder)
        for name in ("near_one", "far_one"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        module = load_plugin(folder / "mine.py")
        assert describe(Function(module.late)) is None
        return describe(Function(module.score))

    first = told(1)
    assert first is not None
    assert first == told(1) != told(2)


def test_sign_bound_object_and_decorator_are_told() -> None:
    assert describe(Function(bright)) != describe(Function(bright, larger="inlying"))
    one, same, two = (describe(Function(Owner(factor).rate)) for factor in (1.0, 1.0, 2.0))
    assert one is not None
    assert one == same != two
    one, same, two = (describe(Function(times(factor)(bright))) for factor in (1.0, 1.0, 2.0))
    assert one is not None
    assert one == same != two


def test_the_name_is_no_part_of_what_it_is() -> None:
    assert describe(Function(bright, name="a")) == describe(Function(bright, name="b"))


def test_what_cannot_be_told_is_none() -> None:
    space: dict[str, Any] = {}
    exec("def score(images): return images.mean((1, 2, 3))", space)
    assert describe(Function(space["score"])) is None
    thing = object()
    assert describe(Function(lambda images: (thing, images.mean((1, 2, 3)))[1])) is None
    for hidden in (random.Random(1), np.random.default_rng(0), object()):
        assert describe(Function(Owner(hidden).rate)) is None  # type: ignore[arg-type]
        assert describe(Function(partial(bright, factor=hidden))) is None


def test_stress_takes_a_function_a_method_and_a_partial() -> None:
    draw = np.random.default_rng(0)
    dark = farout.ImageSet.from_arrays(draw.uniform(0, 0.5, (40, 3, 8, 8)).astype(np.float32), name="dark")
    light = farout.ImageSet.from_arrays(draw.uniform(0.4, 1, (40, 3, 8, 8)).astype(np.float32), name="light")
    for function in (bright, partial(bright, factor=2.0), Owner(1.0).rate):
        table = farout.stress(function, dark, light).table()
        assert table["auroc"].tolist() == [1.0]
        assert table["detector"].tolist() == [Function(function).name]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (nn.Linear(2, 1), "a farout.Panel, got Linear; a function of images works too"),
        (Owner, re.escape("got the class Owner; create one: Owner(…)")),
        ("msp", "got str"),
    ],
)
def test_stress_still_refuses_what_is_no_detector(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        farout.stress(given, inliers="toy")
