"""FID beside torch-fidelity, the perceptual distance beside lpips on a VGG with seeded random weights."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farout.metrics import fid
from farout.networks.network import Network
from farout.optional import mend_torchvision


def peer(name: str) -> Any:
    """A package; the tests that ask are skipped where it cannot be imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if importlib.util.find_spec("torchvision"):
                mend_torchvision()  # which is broken on CPU builds of torch
            return importlib.import_module(name)
        except ImportError as error:
            pytest.skip(f"{name} cannot be imported ({error}); `make parity` installs what benchmarks/ names")


@pytest.mark.parametrize(("count", "dim"), [(500, 64), (300, 200), (100, 200)])
def test_fid_of_torch_fidelity(count: int, dim: int) -> None:
    """The last case has fewer images than dimensions: there the peer takes square roots of eigenvalues that rounding
    has moved off 0, and agrees to fewer digits."""
    package, rng = peer("torch_fidelity.metric_fid"), np.random.default_rng(dim)
    mixing = rng.normal(size=(dim, dim)) / dim**0.5
    a, b = rng.normal(size=(count, dim)) @ mixing, rng.normal(size=(count, dim)) @ mixing * 1.3 + 0.2
    statistics = [package.fid_features_to_statistics(torch.from_numpy(one)) for one in (a, b)]
    theirs = package.fid_statistics_to_metric(*statistics, verbose=False)["frechet_inception_distance"]
    assert fid(a, b) == pytest.approx(theirs, rel=1e-9 if count > dim else 1e-4)


class Slices(nn.Module):
    """The five parts of the VGG that lpips compares, with a last output of features [B, D]."""

    block_names = ("slice1", "slice2", "slice3", "slice4", "slice5")

    def __init__(self, trunk: Any) -> None:
        super().__init__()
        for name in self.block_names:
            self.add_module(name, getattr(trunk, name))

    def forward(self, x: Tensor) -> Tensor:
        for name in self.block_names:
            x = self.get_submodule(name)(x)
        return x.mean((2, 3))


@pytest.mark.parametrize("side", [32, 64])
def test_the_perceptual_distance_of_lpips_without_learned_weights(side: int) -> None:
    perceptual = peer("farout.generators.perceptual")
    package = peer("lpips")
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        theirs = package.LPIPS(net="vgg", lpips=False, pnet_rand=True, verbose=False)
    images = torch.rand(8, 3, side, side, generator=torch.Generator().manual_seed(1))
    network = Network(Slices(theirs.net), mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), head=False)
    with torch.no_grad():
        ours = perceptual.perceptual_distance(network(images[:4]), network(images[4:]))
        expected = theirs(images[:4], images[4:], normalize=True).flatten()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)
    assert expected.min() > 0.01
