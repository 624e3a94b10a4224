"""Saved panels: every bit comes back, and no other panel takes it over."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from farout import Network, NotFitted, Panel
from farout.detectors import ASH, KNN
from farout.detectors.panel.saving import state_digest
from helpers.panels import ALL, PERTURBING, OnVal, fitted, images, network, pixels


def test_saving_and_loading_keeps_every_bit(tmp_path: Path) -> None:
    panel = fitted([*ALL, *PERTURBING, KNN(k=3), ASH(kind="B")])
    panel.save(tmp_path / "panel.safetensors")
    loaded = Panel.load(tmp_path / "panel.safetensors", network())
    assert list(loaded.detectors) == list(panel.detectors)
    assert list(loaded.detectors)[-2:] == ["knn(k=3)", "ash(kind=B)"]
    assert set(loaded.detectors) > {detector.name for detector in PERTURBING} >= {"odin"}
    assert {name: state_digest(d) for name, d in loaded.detectors.items()} == {
        name: state_digest(d) for name, d in panel.detectors.items()
    }
    assert loaded.fitted
    assert loaded.threshold(0.9) == panel.threshold(0.9)
    before, after = panel.score(pixels(50, 3)), loaded.score(pixels(50, 3))
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])


def test_the_file_is_tensors_and_json(tmp_path: Path) -> None:
    panel = fitted(["knn"])
    panel.save(tmp_path / "panel")
    with safe_open(str(tmp_path / "panel"), framework="np") as file:
        facts = json.loads(file.metadata()["farout"])
        assert sorted(file.keys()) == ["knn//validation", "knn/bank", "knn/lengths"]
        np.testing.assert_array_equal(file.get_tensor("knn//validation"), panel.validation["knn"])
    assert facts["detectors"] == {"knn": KNN(k=50).identity()}
    assert (facts["format"], facts["shared"], facts["tuned"]) == (2, {}, {})
    assert facts["network"] == panel.network.digest


def test_an_unfitted_panel_comes_back_unfitted(tmp_path: Path) -> None:
    Panel(network(), ["knn", "msp"]).save(tmp_path / "panel")
    loaded = Panel.load(tmp_path / "panel", network())
    assert not loaded.fitted
    with pytest.raises(NotFitted, match="knn is not fitted"):
        loaded.score(pixels(2, 3))


def test_a_panel_does_not_load_onto_another_network(tmp_path: Path) -> None:
    panel = fitted(["knn"])
    panel.save(tmp_path / "panel")
    for other in (network(seed=1), network(mean=0.1)):
        with pytest.raises(ValueError, match=f"another network .*{panel.network.digest[:12]}.*{other.digest[:12]}"):
            Panel.load(tmp_path / "panel", other)


@pytest.mark.parametrize("members", [[KNN(k=4)], ["mds"], ["knn", "msp"]])
def test_other_parameters_do_not_take_over_what_was_fitted(members: Any, tmp_path: Path) -> None:
    fitted(["knn"]).save(tmp_path / "panel")
    with pytest.raises(ValueError, match=r"holds .*'k': 50.*this panel is .*fit it again"):
        Panel(network(), members).load_state(tmp_path / "panel")


def test_a_detector_of_another_version_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted(["knn"]).save(tmp_path / "panel")
    monkeypatch.setattr(KNN, "version", 2)
    with pytest.raises(ValueError, match=r"'version': 1.*'version': 2.*fit it again"):
        Panel.load(tmp_path / "panel", network())


def test_loading_replaces_what_was_fitted_before(tmp_path: Path) -> None:
    Panel(network(), ["knn"]).fit(images(130, 1)).save(tmp_path / "panel")
    panel = fitted(["knn"])
    panel.load_state(tmp_path / "panel")
    with pytest.raises(NotFitted, match="thresholds need"):
        panel.threshold()


def test_parameters_that_are_tuples_load_too(tmp_path: Path) -> None:
    @dataclass(kw_only=True)
    class Weighted(OnVal):
        name: ClassVar[str] = "weighted"
        weights: tuple[float, ...] = (1.0, 2.0)

    panel = Panel(network(), [Weighted()]).fit(val=images(70, 2))
    panel.save(tmp_path / "panel")
    other = Panel(network(), [Weighted()])
    other.load_state(tmp_path / "panel")
    np.testing.assert_array_equal(other.score(pixels(9, 3))["weighted"], panel.score(pixels(9, 3))["weighted"])


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"{}" * 100])
def test_a_file_of_something_else_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "panel").write_bytes(content)
    with pytest.raises(ValueError, match="panel is not a saved panel"):
        Panel.load(tmp_path / "panel", network())


def test_other_tensors_and_later_formats_are_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "tensors")
    with pytest.raises(ValueError, match="tensors is not a saved panel"):
        Panel.load(tmp_path / "tensors", network())
    save_file({"a": torch.zeros(1)}, tmp_path / "later", metadata={"farout": '{"format": 3}'})
    with pytest.raises(ValueError, match="has format 3, this version reads formats up to 2"):
        Panel.load(tmp_path / "later", network())


SEVERAL = {1: "one", 10: "ten", 50: "fifty"}


def several(total: int = 1300) -> Panel:
    """Three knn on one bank."""
    members = {label: KNN(k=k) for k, label in SEVERAL.items()}
    return Panel(network(), members).fit(images(total, 1), images(70, 2))


def test_what_detectors_share_is_written_once_and_shared_again(tmp_path: Path) -> None:
    panel = several()
    panel.save(tmp_path / "three")
    panel.only("ten").save(tmp_path / "one")
    bank = panel.detectors["ten"].state["bank"]
    assert bank.shape == (1300, 24)
    three, one = ((tmp_path / name).stat().st_size for name in ("three", "one"))
    assert one > bank.nbytes
    assert three - one < bank.nbytes / 20, "two sets of validation scores, names and the record"
    loaded = Panel.load(tmp_path / "three", network())
    for key in bank_keys(panel):
        assert len({id(detector.state[key]) for detector in loaded.detectors.values()}) == 1
    expected, found = panel.score(pixels(40, 3)), loaded.score(pixels(40, 3))
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
        np.testing.assert_array_equal(loaded.validation[name], panel.validation[name])
    assert len({tuple(values) for values in expected.values()}) == 3, "each scores by its own k"


def bank_keys(panel: Panel) -> list[str]:
    (keys,) = {tuple(detector.state) for detector in panel.detectors.values()}
    return list(keys)


def test_equal_tensors_in_different_places_are_shared_and_nearly_equal_ones_are_not(tmp_path: Path) -> None:
    panel = Panel(network(), {name: OnVal() for name in "abcdef"})
    values = [torch.tensor([0.0, 1.0, torch.nan]) for _ in range(3)]
    values += [torch.tensor([-0.0, 1.0, torch.nan]), torch.tensor([0.0, 1.0, torch.nan]).double(), torch.zeros(3, 1)]
    for detector, value in zip(panel.detectors.values(), values, strict=True):
        detector.state = {"mean": value}
    panel.save(tmp_path / "panel")
    with safe_open(str(tmp_path / "panel"), framework="pt") as file:
        assert sorted(file.keys()) == ["a/mean", "d/mean", "e/mean", "f/mean"]
        assert json.loads(file.metadata()["farout"])["shared"] == {"b/mean": "a/mean", "c/mean": "a/mean"}
    other = Panel(network(), {name: OnVal() for name in "abcdef"})
    other.load_state(tmp_path / "panel")
    for name, detector in panel.detectors.items():
        assert state_digest(other.detectors[name]) == state_digest(detector)


def test_files_of_format_1_are_read(tmp_path: Path) -> None:
    """They write every tensor and say neither what is shared nor what was tuned."""
    panel = several(130)
    panel.save(tmp_path / "new")
    tensors = {f"{name}/{key}": v.clone() for name, d in panel.detectors.items() for key, v in d.state.items()}
    tensors |= {f"{name}//validation": torch.from_numpy(scores) for name, scores in panel.validation.items()}
    with safe_open(str(tmp_path / "new"), framework="pt") as file:
        facts = json.loads(file.metadata()["farout"])
    old = {"format": 1, "network": facts["network"], "detectors": facts["detectors"]}
    save_file(tensors, tmp_path / "old", metadata={"farout": json.dumps(old)})
    loaded, expected = Panel.load(tmp_path / "old", network()), panel.score(pixels(40, 3))
    for name, values in loaded.score(pixels(40, 3)).items():
        np.testing.assert_array_equal(values, expected[name])
    assert loaded.threshold() == panel.threshold()
    assert loaded.tuned == {}


def test_the_network_is_hashed_once_to_save_and_once_to_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Network] = []
    digest = Network.digest.fget  # type: ignore[attr-defined]

    def counted(self: Network) -> str:
        hashed.append(self)
        value: str = digest(self)
        return value

    monkeypatch.setattr(Network, "digest", property(counted))
    panel = several(130)
    panel.save(tmp_path / "panel")
    assert hashed == [panel.network]
    Panel.load(tmp_path / "panel", panel.network)
    assert hashed == [panel.network] * 2
