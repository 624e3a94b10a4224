"""Modes of forward passes: reduced precision against float32, compilation against eager, identities."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import farout
from farout import Network, Panel
from farout.networks import Ensemble, Mode, create, restrict, save_weights
from farout.networks.mode import check_compiler
from farout.study.spec import StudySpec

BF16, FP16, COMPILED = Mode("bf16"), Mode("fp16"), Mode(compile=True)
UNITS = {"bf16": 2.0**-9, "fp16": 2.0**-12}
"""Largest relative error of rounding to these types."""


def batch(total: int = 32) -> Tensor:
    return torch.rand(total, 3, 32, 32, generator=torch.Generator().manual_seed(total))


def relative(values: Tensor, reference: Tensor) -> float:
    """The root mean square of the difference over that of the reference."""
    return float((values - reference).square().mean().sqrt() / reference.square().mean().sqrt())


@pytest.mark.parametrize("mode", [BF16, FP16])
def test_reduced_precision_differs_by_its_rounding(mode: Mode) -> None:
    network, images = create("resnet20", classes=4, side=32, seed=1), batch()
    with torch.no_grad():
        plain, reduced = (one(images, needs={"means", "grams"}) for one in (network, network.running(mode)))
    unit = UNITS[mode.precision]
    pairs = [(reduced.logits, plain.logits), (reduced.features, plain.features)]
    pairs += [(reduced.means[name], plain.means[name]) for name in plain.means]
    pairs += [(reduced.grams[name], plain.grams[name]) for name in plain.grams]
    errors = [relative(values, reference) for values, reference in pairs]
    assert max(errors) < 16 * unit  # twenty layers, each rounded once or twice
    assert errors[0] > unit / 16  # it did compute in reduced precision
    assert {values.dtype for values, _ in pairs} == {torch.float32, torch.float64}


def test_the_last_layer_is_computed_in_full_precision() -> None:
    network, images = create("resnet20", classes=4, side=32, seed=1).running(BF16), batch()
    activations = network(images)
    assert activations.head is not None
    exact = activations.features.double() @ activations.head.weight.double().T + activations.head.bias.double()
    torch.testing.assert_close(activations.logits.double(), exact, rtol=1e-5, atol=1e-5)


def test_passes_with_gradients_are_in_float32_at_fp16() -> None:
    network, images = create("lenet", classes=4, side=32), batch(4)
    assert torch.equal(network.running(FP16)(images).logits, network(images).logits)
    with torch.no_grad():
        assert not torch.equal(network.running(FP16)(images).logits, network(images).logits)


def test_gradients_at_bf16_point_the_same_way() -> None:
    network, images = create("lenet", classes=4, side=32, seed=3), batch(8).requires_grad_()

    def gradient(one: Network) -> Tensor:
        (found,) = torch.autograd.grad(one(images).logits[:, 0].sum(), images)
        return found.flatten()

    assert torch.cosine_similarity(gradient(network.running(BF16)), gradient(network), dim=0) > 0.99


def test_the_mode_is_part_of_the_digest_only_where_it_is_not_the_default() -> None:
    network = create("lenet", classes=4, side=32)
    digests = [network.running(mode).digest for mode in (Mode(), BF16, FP16)]
    assert digests[0] == network.digest
    assert len(set(digests)) == 3
    assert network.running(BF16).running(Mode()).digest == network.digest


def test_members_and_restricted_networks_keep_the_mode() -> None:
    first, second = (create("lenet", classes=4, side=32, seed=seed) for seed in (0, 1))
    joined = Ensemble([first, second]).running(BF16)
    assert isinstance(joined, Ensemble)
    assert [member.mode for member in joined.members] == [BF16, BF16]
    assert joined.digest != Ensemble([first, second]).digest
    assert restrict(first.running(BF16), [0, 1]).mode == BF16


def test_a_network_in_its_own_reduced_type_is_left_alone_by_default() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).bfloat16()
    network = Network(module, mean=0.5, std=0.5, head="1", blocks=(), side=2)
    network.mean, network.std = network.mean.bfloat16(), network.std.bfloat16()
    assert network(torch.rand(2, 3, 2, 2).bfloat16()).logits.dtype == torch.bfloat16


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match=r"precision must be .*fp32.*got 'int8'"):
        Mode("int8")  # type: ignore[arg-type]


def study(weights: Path, **settings: object) -> StudySpec:
    network = {"name": "lenet", "weights": str(weights), "classes": 4}
    data = {"name": "noise", "options": {"n": 96}}
    return StudySpec.model_validate(
        {
            "name": "modes",
            "inliers": {"test": data, "val": {**data, "options": {"n": 32}}},
            "outliers": [{**data, "options": {"n": 97}}],
            "networks": [network, *([{**network, **settings}] if settings else [])],
            "detectors": ["msp"],
        }
    )


def test_a_study_has_results_of_both_precisions(tmp_path: Path) -> None:
    weights = tmp_path / "lenet.safetensors"
    save_weights(create("lenet", classes=4, side=32), weights)
    plain = farout.run(study(weights), tmp_path / "plain")
    both = farout.run(study(weights, precision="bf16"), tmp_path / "both")
    ids = {row.cell for row in plain.results.rows}
    assert ids < {row.cell for row in both.results.rows}
    tables = both.results.rows
    labels = {row.tags.get("network") for row in tables} - {None}
    assert labels == {"lenet", "lenet (bf16)"}
    for row in plain.results.rows:
        assert np.array_equal(plain.results.store.scores(row.cell), both.results.store.scores(row.cell))


def test_a_panel_fitted_at_one_precision_is_not_loaded_at_another(tmp_path: Path) -> None:
    network = create("lenet", classes=4, side=32)
    Panel(network.running(BF16), ["msp"]).save(tmp_path / "panel.safetensors")
    Panel.load(tmp_path / "panel.safetensors", network.running(BF16))
    with pytest.raises(ValueError, match="fitted with another network"):
        Panel.load(tmp_path / "panel.safetensors", network)


def test_compilation_without_a_compiler_is_refused_before_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "lenet.safetensors"
    save_weights(create("lenet", classes=4, side=32), weights)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match=r"compile: true needs a C\+\+ compiler"):
        farout.run(study(weights, compile=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    check_compiler(torch.device("cuda"))


class Small(nn.Module):
    block_names = ("first", "second")

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(4, 4, 3), nn.GELU())
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.second(self.first(x)).mean((2, 3)))
        return logits


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="needs a C++ compiler")
def test_compiled_passes_agree_with_eager_ones() -> None:
    from torch._dynamo.utils import counters

    counters.clear()
    with torch.random.fork_rng(devices=[]):
        network = Network(Small(), mean=0.5, std=0.5)
    compiled = network.running(COMPILED)
    with torch.no_grad():
        for total in (32, 9, 32, 17):
            images = batch(32)[:total]
            plain, fast = network(images, needs={"grams"}), compiled(images, needs={"grams"})
            torch.testing.assert_close(fast.logits, plain.logits, rtol=1e-5, atol=1e-6)
            for name, grams in plain.grams.items():
                torch.testing.assert_close(fast.grams[name], grams, rtol=1e-5, atol=1e-6)
    assert counters["stats"]["unique_graphs"] >= 2  # both blocks were compiled
    assert compiled.digest not in (network.digest, network.running(BF16).digest)
    assert compiled.running(Mode()).digest == network.digest
