"""Ensembles: the mean softmax, members side by side, identity, and what is no ensemble."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import farout
from farout.networks import Ensemble, Network


def member(seed: int, classes: int = 4, name: str = "lenet") -> Network:
    return farout.networks.create(name, classes, 32, seed=seed)


def images(count: int = 5) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(3))


def test_logits_are_the_logarithm_of_the_mean_softmax() -> None:
    members = [member(seed) for seed in range(3)]
    seen = [one(images()) for one in members]
    joined = Ensemble(members)(images())
    for row in range(5):
        shares = [[math.exp(v) for v in one.logits[row].tolist()] for one in seen]
        shares = [[v / math.fsum(row_) for v in row_] for row_ in shares]
        expected = [math.log(math.fsum(column) / 3) for column in zip(*shares, strict=True)]
        assert joined.logits[row].tolist() == pytest.approx(expected, rel=1e-5)
    assert joined.logits.dtype == torch.float32
    torch.testing.assert_close(joined.members, torch.stack([one.logits for one in seen], 1))
    torch.testing.assert_close(joined.features, torch.cat([one.features for one in seen], 1))
    assert joined.head is None
    assert joined.members is not None
    some = joined[1:3]
    assert some.members is not None
    assert torch.equal(some.members, joined.members[1:3])


def test_blocks_and_their_statistics_are_numbered_by_member() -> None:
    members = [member(seed, name="resnet20") for seed in range(2)]
    joined = Ensemble(members)
    seen = joined(images(), needs=("blocks", "means", "grams"))
    assert joined.block_names == tuple(f"{i}.layer{j}" for i in range(2) for j in (1, 2, 3))
    assert tuple(seen.blocks) == tuple(seen.means) == tuple(seen.grams) == joined.block_names
    alone = members[1](images(), needs=("means",))
    torch.testing.assert_close(seen.means["1.layer3"], alone.means["layer3"])


def test_identity_tells_members_and_their_order() -> None:
    a, b, c = (member(seed) for seed in range(3))
    assert Ensemble([a, b]).digest == Ensemble([a, b]).digest
    assert len({Ensemble(members).digest for members in ([a, b], [b, a], [a, c], [a, b, c])}) == 4


def test_weights_come_back_in_an_ensemble_and_in_any_module_that_holds_one(tmp_path: Path) -> None:
    joined = Ensemble(member(seed, name="resnet20") for seed in range(2))
    other = Ensemble(member(seed, name="resnet20") for seed in range(2, 4))
    names = [f"{place}.{name}" for place in range(2) for name in member(0, name="resnet20").state_dict()]
    assert list(other.state_dict()) == names
    farout.networks.save_weights(joined, tmp_path / "joined.safetensors")
    farout.networks.load_weights(other, tmp_path / "joined.safetensors")
    assert other.digest == joined.digest
    holder, new = (nn.ModuleDict({"a": member(seed), "b": Ensemble([member(7), member(seed)])}) for seed in (4, 5))
    new.load_state_dict(holder.state_dict())
    for name in ("a", "b"):
        assert new[name].digest == holder[name].digest


def test_members_are_trained_one_by_one() -> None:
    joined, images = Ensemble([member(0), member(1)]), farout.load("toy", "val", limit=20)
    with pytest.raises(TypeError, match="train its members one by one"):
        farout.networks.train(joined, images, images, epochs=1)


def test_an_ensemble_has_no_module_to_lend() -> None:
    with pytest.raises(TypeError, match="an ensemble is already a network"):
        Network(Ensemble([member(0), member(1)]), mean=0.5, std=0.5)


@pytest.mark.parametrize("blocks", [None, ()], ids=["with blocks", "without"])
def test_statistics_are_told_of_what_their_names_say(blocks: tuple[str, ...] | None) -> None:
    networks = [Network(member(seed), mean=0.5, std=0.5, blocks=blocks) for seed in range(2)]
    for network in (*networks, Ensemble(networks), Ensemble([member(3), networks[0]])):
        seen = network(images(), needs=("means", "grams"))
        assert tuple(seen.means) == tuple(seen.grams) == network.statistics_names


def test_gradients_flow_to_the_images() -> None:
    given = images().requires_grad_()
    Ensemble([member(0), member(1)])(given).logits.sum().backward()
    assert given.grad is not None
    assert given.grad.abs().sum() > 0


def test_evaluation_mode_reaches_every_member_and_is_given_back() -> None:
    joined = Ensemble([member(0, name="resnet20"), member(1, name="resnet20")])
    joined.train()
    with joined.evaluating():
        assert not any(part.training for part in joined.modules())
    assert all(part.training for part in joined.modules())


def test_a_panel_on_an_ensemble_scores_fits_saves_and_loads(tmp_path: Path) -> None:
    joined = Ensemble([member(seed) for seed in range(3)])
    train, val = farout.load("toy", "train", limit=120), farout.load("toy", "val", limit=80)
    names = ["msp", "entropy", "ensemble", "knn", "mds", "gram"]
    panel = farout.Panel(joined, names).fit(train, val)
    scores = panel.score(images())
    panel.save(tmp_path / "panel.safetensors")
    again = farout.Panel.load(tmp_path / "panel.safetensors", copy.deepcopy(joined)).score(images())
    for name in names:
        torch.testing.assert_close(torch.from_numpy(scores[name]), torch.from_numpy(again[name]))
    torch.testing.assert_close(
        torch.from_numpy(scores["ensemble"]), torch.from_numpy(scores["entropy"]), rtol=1e-5, atol=0
    )


def test_one_that_reads_the_last_layer_says_that_there_is_none() -> None:
    joined = Ensemble([member(0), member(1)])
    with pytest.raises(ValueError, match="ash reads the network's last linear layer"):
        farout.Panel(joined, ["ash"]).score(images())


@pytest.mark.parametrize(
    ("members", "error", "words"),
    [
        (lambda: [member(0)], ValueError, "at least 2 networks, got 1"),
        (lambda: [], ValueError, "at least 2 networks, got 0"),
        (lambda: [member(0)] * 2, ValueError, "the same network occurs twice"),
        (lambda: [member(0), nn.Linear(2, 2)], TypeError, "got Linear; wrap"),
        (lambda: [member(0), member(1, classes=5)], ValueError, r"same number of classes, got \[4, 5\]"),
    ],
)
def test_what_is_no_ensemble(members: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Ensemble(members())  # type: ignore[operator]
