"""The table of activations: what goes in comes out, in memory and in a temporary file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from farout.core import Activations
from farout.detectors.panel.memory import Memory
from farout.detectors.panel.table import Table, columns_of


def some(rows: int) -> Activations:
    rng = torch.Generator().manual_seed(rows)
    maps = torch.randn(rows, 2, 4, 4, generator=rng)
    return Activations(torch.randn(rows, 3, generator=rng), torch.randn(rows, 5, generator=rng), {"stage": maps})


@pytest.mark.parametrize("in_memory", [1 << 30, 0])
def test_chunks_in_any_order_come_out_in_place(in_memory: int, tmp_path: Path) -> None:
    whole, table = some(10), Table(10, memory=Memory(lambda: tmp_path, in_memory))
    for part in (slice(7, 10), slice(0, 4), slice(4, 7)):
        table.put(part.start, columns_of(whole[part], frozenset({"logits", "features", "blocks"})))
    found = table.activations()
    assert torch.equal(found.logits, whole.logits)
    assert torch.equal(found.features, whole.features)
    assert list(found.blocks) == ["stage"]
    assert torch.equal(found.blocks["stage"], whole.blocks["stage"])
    assert not list(tmp_path.iterdir()), "the file has no name and goes with the table"


@pytest.mark.parametrize(
    ("needs", "columns"),
    [
        ({"logits"}, {"logits"}),
        ({"features"}, {"features"}),
        ({"blocks", "logits"}, {"logits", "blocks:stage"}),
        (set(), set()),
    ],
)
def test_only_what_is_read_is_kept(needs: set[str], columns: set[str]) -> None:
    assert set(columns_of(some(3), frozenset(needs))) == columns


def test_a_column_nobody_reads_has_no_width_but_every_row() -> None:
    table = Table(4)
    table.put(0, columns_of(some(4), frozenset({"features"})))
    found = table.activations()
    assert found.logits.shape == (4, 0)
    assert len(found) == 4
    assert torch.equal(found.features, some(4).features)


def test_the_table_holds_values_and_no_graph() -> None:
    logits = torch.ones(2, 3, requires_grad=True)
    columns = columns_of(Activations(logits * 2, logits), frozenset({"logits"}))
    assert not columns["logits"].requires_grad
    assert columns["logits"].tolist() == [[2.0] * 3] * 2


def test_too_many_rows_are_an_error() -> None:
    table = Table(4)
    with pytest.raises(RuntimeError, match="must match"):
        table.put(2, {"logits": torch.zeros(3, 2)})
