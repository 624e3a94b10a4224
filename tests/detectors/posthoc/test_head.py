"""The last layer on its way: from the network into activations, through cuts and tables, by reference."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from farout import Network
from farout.core import Activations, Head
from farout.detectors.panel.table import Table


def test_the_head_gives_logits_in_float64() -> None:
    head = Head(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0.5, -1.0]))
    found = head.logits(torch.tensor([[1.0, 10.0], [2.0, 0.1]]))
    assert found.dtype == torch.float64
    assert found[0].tolist() == [21.5, 42.0]
    assert found[1].tolist() == pytest.approx([2.7, 5.4], rel=1e-7)


@pytest.mark.parametrize("shape", [(3, 5), (2,), (3, 2, 2)])
def test_features_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    head = Head(torch.zeros(4, 2), torch.zeros(4))
    with pytest.raises(ValueError, match=r"the last layer takes features \[B, 2\], got shape"):
        head.logits(torch.zeros(shape))


def test_activations_carry_the_networks_own_layer() -> None:
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), mean=0.0, std=1.0, side=2)
    found = network(torch.rand(5, 3, 2, 2))
    for activations in (found, found[1:3], found.to(torch.device("cpu")), *found.chunks(2)):
        head = activations.last_layer("it")
        assert head.weight.data_ptr() == network.module[1].weight.data_ptr()
        assert head.bias.data_ptr() == network.module[1].bias.data_ptr()
        assert not head.weight.requires_grad
        assert not head.bias.requires_grad
    torch.testing.assert_close(found.last_layer("it").logits(found.features), found.logits.double())


def test_tables_carry_the_layer_without_a_copy() -> None:
    given = Head(torch.rand(2, 3), torch.rand(2))
    table = Table(4, given)
    table.put(0, {"features": torch.zeros(4, 3), "scores:it": torch.arange(4)})
    assert table.activations().last_layer("it").weight.data_ptr() == given.weight.data_ptr()
    assert table.column("scores:it").tolist() == [0, 1, 2, 3]


def test_activations_without_a_head_say_who_wanted_it() -> None:
    with pytest.raises(ValueError, match=r"vim reads the network's last linear layer, and there is none: .*add head="):
        Activations(torch.zeros(2, 3), torch.zeros(2, 4)).last_layer("vim")
