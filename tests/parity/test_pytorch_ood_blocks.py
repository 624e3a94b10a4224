"""gram and mds_layers beside pytorch-ood 0.4: what is the same, and what has to be undone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from farout.core import Activations
from farout.detectors.posthoc.gram import Gram
from farout.detectors.posthoc.mds_layers import MDSLayers
from farout.networks.network import Network
from helpers.peer import images, load, same_order, small_network, worst

peers = load()
ORDERS = (1, 2, 3, 4, 5)


@pytest.fixture(scope="module")
def network() -> Network:
    return small_network()


@torch.no_grad()
def read(network: Network, count: int, seed: int) -> Activations:
    return network(images(count, seed), needs=("blocks", "means", "grams"))


@pytest.fixture(scope="module")
def train(network: Network) -> Activations:
    return read(network, 600, seed=0)


@pytest.fixture(scope="module")
def test(network: Network) -> Activations:
    return read(network, 100, seed=1)


def gram_peer(network: Network) -> object:
    module = network.module
    first, *others = (module.get_submodule(name) for name in network.block_names)
    stem = torch.nn.Sequential(module.conv1, module.bn1, torch.nn.ReLU(), first)
    return peers.Gram(lambda maps: module.linear(maps.mean((2, 3))), [stem, *others], 10, list(ORDERS)).to("cpu")


def loader(network: Network, train: Activations) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(TensorDataset(network.normalize(images(600, seed=0)), train.logits.argmax(1)), batch_size=200)


def scores(peer: object, seen: Activations) -> Tensor:
    return peer.predict_structured(seen.logits, list(seen.blocks.values()))


def test_row_sums_agree(test: Activations) -> None:
    for name, block in test.blocks.items():
        for order in ORDERS:
            assert worst(peers.Gram._gram_vector(block, order), test.grams[name][:, order - 1]) < 1e-5


def test_gram_agrees_given_the_bounds(network: Network, train: Activations, test: Activations) -> None:
    """With our bounds and expected deviations in its fields: deviations, their sum and their sign are the same."""
    ours = Gram().fit(train, None)
    peer = gram_peer(network)
    bounds = {side: [ours.state[f"{side}:{name}"].float() for name in train.grams] for side in ("low", "high")}
    peer.feature_min, peer.feature_max = ([list(one.unbind(1)) for one in bounds[side]] for side in ("low", "high"))
    peer.layer_norm = torch.stack([ours.state[f"expected:{name}"] for name in train.grams]).float()
    assert worst(scores(peer, test), ours.score(test)) < 1e-4


def test_gram_draws_without_a_seed(network: Network, train: Activations, test: Activations) -> None:
    """The tenth it holds out of every class comes from torch's global generator; ranks differ as between two seeds."""
    fits = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        fits.append(scores(gram_peer(network).fit(loader(network, train)), test))
    assert not torch.equal(*fits)
    ours = [Gram(seed=seed).fit(train, None).score(test) for seed in (1, 2)]
    assert all(0.8 < same_order(one, ours[0]) < 1 for one in (*fits, ours[1]))


def test_gram_takes_bounds_by_label(network: Network, train: Activations, test: Activations) -> None:
    """By what the network predicts, labels would not matter; permuted ones change its scores."""
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    permuted = Activations(train.logits[order], train.features)
    torch.manual_seed(1)
    other = scores(gram_peer(network).fit(loader(network, permuted)), test)
    ours = Gram().fit(train, permuted.logits.argmax(1)).score(test)
    assert torch.equal(ours, Gram().fit(train, None).score(test))
    assert same_order(other, ours) < 0.7


def test_distances_at_every_block_agree(train: Activations, test: Activations) -> None:
    """It adds up ½ d² / N; ours divides every block's d² by its mean over the training split."""
    classes = train.logits.argmax(1)
    ours = MDSLayers(epsilon=0).fit(train, classes)
    weights = (2 * len(train) * ours.state["weights"]).tolist()
    peer = peers.MultiMahalanobis([torch.nn.Identity()] * len(train.means), alpha=weights).to("cpu")
    peer.fit_structured([means.float() for means in train.means.values()], classes)
    theirs = peer.predict_structured([means.float() for means in test.means.values()])
    assert worst(theirs, ours.score(test)) < 1e-4
    peer.alpha = [1.0] * len(weights)
    plain = peer.predict_structured([means.float() for means in test.means.values()])
    assert worst(2 * len(train) * plain, sum(_unweighted(ours, test))) < 1e-4


def _unweighted(ours: MDSLayers, seen: Activations) -> list[Tensor]:
    distances: Tensor = ours._distances(seen)
    return list(distances.unbind(1))
