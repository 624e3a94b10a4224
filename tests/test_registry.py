"""Names -> things: what is known, what is taken, and what an unknown name is answered with."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from farout import registry
from farout.detectors import KNN
from farout.detectors.catalog import catalog
from farout.registry import Registry, UnknownName, unknown


@pytest.fixture
def colors() -> Registry[Any]:
    known: Registry[Any] = Registry("color")

    @known.register("red")
    def red(shade: float = 0.5, *, name: str = "r") -> tuple[str, float]:
        return name, shade

    @known.register("any")
    def anything(**params: Any) -> dict[str, Any]:
        return params

    return known


def test_a_name_makes_its_thing_with_these_parameters(colors: Registry[Any]) -> None:
    assert colors.create("red") == ("r", 0.5)
    assert colors.create("red", shade=0.1, name="x") == ("x", 0.1)
    assert colors.create("any", whatever=3) == {"whatever": 3}
    assert colors["red"](0.2) == ("r", 0.2)


def test_names_are_sorted_and_asked_for_with_in(colors: Registry[Any]) -> None:
    assert colors.names() == list(colors) == ["any", "red"]
    assert "red" in colors
    assert "blue" not in colors


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("redd", "unknown color 'redd'. Did you mean 'red'? Known: any, red."),
        ("zzzzzz", "unknown color 'zzzzzz'. Known: any, red."),
        (7, "unknown color 7. Known: any, red."),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(colors: Registry[Any], name: Any, message: str) -> None:
    with pytest.raises(UnknownName) as caught:
        colors[name]
    assert str(caught.value) == message
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)


def test_an_unknown_parameter_is_answered_alike(colors: Registry[Any]) -> None:
    with pytest.raises(UnknownName) as caught:
        colors.create("red", shape=1)
    assert str(caught.value) == "unknown parameter of color 'red': 'shape'. Did you mean 'shade'? Known: name, shade."
    with pytest.raises(UnknownName, match=r"unknown parameter of detector 'knn': 'kk'. Did you mean 'k'"):
        catalog.create("knn", kk=3)


def test_nothing_known_is_said() -> None:
    assert str(unknown("thing", "x", [])) == "unknown thing 'x'. Known: none."


def test_a_taken_name_is_refused_but_the_same_thing_may_come_again(colors: Registry[Any]) -> None:
    def make(text: str) -> Any:
        def red() -> str:
            return text

        return red

    colors.register("blue")(make("first"))
    colors.register("blue")(make("second"))  # a module that is imported again brings its things again
    assert colors.create("blue") == "second"
    with pytest.raises(ValueError, match=r"color name 'red' is taken by colors.<locals>.red; choose another name"):
        colors.register("red")(make("third"))
    assert colors.create("red") == ("r", 0.5)


def test_parameters_reach_the_detector() -> None:
    assert catalog.create("knn", k=3) == KNN(k=3)
    assert catalog["knn"] is KNN


class _Broken:
    name, value = "broken", "package.of:plugin"

    def load(self) -> None:
        raise ImportError("no such package")


def test_entry_points_are_loaded_once_and_only_when_a_name_is_missing(
    colors: Registry[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Plugin(EntryPoint):
        def load(self) -> None:
            asked.append(self.value)
            colors.register("green")(lambda: "green")

    monkeypatch.setattr(registry, "_loaded_entry_points", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin("p", f"{group}:x", group)])
    assert colors.create("red") == ("r", 0.5)
    assert asked == []
    assert colors.create("green") == "green"
    with pytest.raises(UnknownName):
        colors["violet"]
    assert asked == ["farout:x"]


def test_a_broken_plugin_is_named(colors: Registry[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded_entry_points", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [_Broken()])
    with pytest.raises(ImportError, match="no such package") as caught:
        colors["green"]
    assert caught.value.__notes__ == ["while loading the farout plugin broken = package.of:plugin"]


def test_a_thing_that_needs_more_than_its_name_says_what():
    registry: Registry[object] = Registry("thing")

    @registry.register("joined")
    def joined(of: list[str], *, glue: str = "-") -> object:
        return glue.join(of)

    assert registry.create("joined", of=["a", "b"]) == "a-b"
    with pytest.raises(TypeError, match="thing 'joined' cannot be had by its name alone: give of too"):
        registry.create("joined", glue="+")


def test_what_was_begun_is_nearer_than_what_looks_alike() -> None:
    assert "Did you mean 'epsilon'" in str(unknown("parameter", "eps", ["steps", "epsilon"]))
