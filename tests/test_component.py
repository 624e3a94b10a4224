"""The component base: names, parameters, labels and identities of every family."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
from torch import Tensor

import farout
from farout.component import Component
from farout.identity import digest
from farout.registry import KINDS, registry_of


@dataclasses.dataclass(kw_only=True)
class Fielded(Component):
    rate: float = 0.5
    hidden: int = dataclasses.field(default=3, init=False)


class Plain(Component):
    name, version = "plain", 4

    def __init__(self) -> None:
        self.rate = 0.25


def test_parameters_are_the_fields_that_can_be_given_or_all_attributes() -> None:
    assert (Fielded().name, Fielded(rate=2).params) == ("Fielded", {"rate": 2})
    assert (Plain().name, Plain().params) == ("plain", {"rate": 0.25})


def test_a_name_is_not_inherited_but_a_version_is() -> None:
    class Derived(Plain): ...

    assert (Derived.name, Derived.version, Derived().label) == ("Derived", 4, "Derived")


def test_the_identity_holds_name_version_parameters_and_the_users_code() -> None:
    identity = Fielded(rate=2).identity()
    assert {key: identity[key] for key in ("name", "version", "params")} == {
        "name": "Fielded", "version": 1, "params": {"rate": 2},
    }  # fmt: skip
    assert "code" in identity
    assert digest(farout.detectors.KNN(k=3).identity()) == digest({"name": "knn", **_of_knn(k=3)})


def _of_knn(k: int) -> dict[str, Any]:
    knn = farout.detectors.KNN(k=k)
    fields = [field.name for field in dataclasses.fields(knn) if field.init and field.name not in knn.added]
    return {"version": knn.version, "params": {name: getattr(knn, name) for name in fields}}


def test_a_field_that_was_added_is_in_the_identity_where_it_is_not_its_default() -> None:
    @dataclasses.dataclass(kw_only=True)
    class Grown(Fielded):
        added: ClassVar[frozenset[str]] = frozenset({"depth"})
        depth: int | None = None

    assert Grown(rate=2).identity()["params"] == {"rate": 2}
    assert Grown(rate=2, depth=3).identity()["params"] == {"rate": 2, "depth": 3}


@pytest.mark.parametrize("kind", ["detector", "shift", "attack", "variation", "search"])
def test_every_component_is_known_by_its_own_name(kind: str) -> None:
    registry = registry_of(kind)
    assert kind in KINDS
    for name in registry.names():
        maker: Any = registry[name]
        assert issubclass(maker, Component)
        assert maker.name == name


def test_attributes_of_a_detector_of_images_are_its_own() -> None:
    class Mine(farout.Detector):
        def __init__(self) -> None:
            self.params, self.label, self.version = {"k": 3}, "mine", "2"

        def score(self, images: Tensor) -> Tensor:
            return images.mean((1, 2, 3))

    assert (Mine().params, Mine().label, Mine().name) == ({"k": 3}, "mine", "Mine")
