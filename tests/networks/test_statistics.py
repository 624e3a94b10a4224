"""Block statistics against explicit loops and Gram matrices; the compiled and the differentiable form; found blocks."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farout import Network
from farout.networks import statistics
from farout.networks.statistics import GRID, ORDERS, by_place, grams, grids, means

SHAPES = {
    "map": (3, 5, 4, 6),
    "one pixel": (2, 4, 1, 1),
    "tokens": (3, 7, 5),
    "vectors": (4, 6),
    "one channel": (2, 1, 3, 3),
}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def maps(output: Tensor) -> list[np.ndarray]:
    """Every image's [C, places] in float64, from [B, C, H, W], [B, T, C] or [B, C]."""
    rows = output.detach().double().numpy()
    if rows.ndim == 4:
        return [row.reshape(len(row), -1) for row in rows]
    return [row.T if rows.ndim == 3 else row[:, None] for row in rows]


def slow_grams(output: Tensor) -> np.ndarray:
    """The matrices themselves, their rows added up, the signed roots."""
    result = np.empty((len(output), ORDERS, maps(output)[0].shape[0]))
    for image, places in enumerate(maps(output)):
        for order in range(1, ORDERS + 1):
            matrix = places**order @ (places**order).T
            for channel, row in enumerate(matrix):
                total = math.fsum(row)
                result[image, order - 1, channel] = math.copysign(abs(total) ** (1 / order), total)
    return result


@pytest.fixture(params=SHAPES)
def output(request: pytest.FixtureRequest) -> Tensor:
    return draw(*SHAPES[request.param])


def layouts(output: Tensor) -> list[Tensor]:
    others = [output.to(memory_format=torch.channels_last)] if output.ndim == 4 else []
    return [output, *others, output.transpose(0, 1).contiguous().transpose(0, 1)]


def test_means_are_averages_over_places(output: Tensor) -> None:
    expected = [[math.fsum(channel) / len(channel) for channel in places] for places in maps(output)]
    for laid in layouts(output):
        found = means(laid)
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def slow_grids(output: Tensor) -> np.ndarray:
    """Field by field: rows ⌊iH/4⌋ to ⌈(i + 1)H/4⌉, columns alike; of what is no map the mean over places."""
    rows = output.detach().double().numpy()
    if rows.ndim != 4:
        return np.array([places.mean(1) for places in maps(output)])
    height, width = rows.shape[2:]
    found = np.empty((*rows.shape[:2], GRID, GRID))
    for i in range(GRID):
        for j in range(GRID):
            across = slice(i * height // GRID, math.ceil((i + 1) * height / GRID))
            down = slice(j * width // GRID, math.ceil((j + 1) * width / GRID))
            found[:, :, i, j] = rows[:, :, across, down].mean((2, 3))
    return found.reshape(len(rows), -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_grids_are_averages_over_fields(output: Tensor, dtype: torch.dtype) -> None:
    for laid in layouts(output.to(dtype)):
        found = grids(laid)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, slow_grids(laid), rtol=1e-6 if dtype == torch.float32 else 1e-12, atol=1e-7)


@pytest.mark.parametrize("side", [1, 2, 3, 4, 7, 8, 14])
def test_grids_of_maps_of_any_side(side: int) -> None:
    output = draw(2, 3, side, side).double()
    np.testing.assert_allclose(grids(output), slow_grids(output), rtol=1e-12)
    assert grids(output).shape == (2, 3 * GRID**2)


@pytest.mark.parametrize("change", [torch.relu, torch.clone, torch.neg], ids=lambda change: change.__name__)
def test_grams_are_those_of_explicit_matrices(output: Tensor, change: Callable[[Tensor], Tensor]) -> None:
    for laid in layouts(change(output)):
        found = grams(laid)
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found, slow_grams(laid), rtol=1e-10)


@pytest.mark.parametrize("change", [torch.relu, torch.clone], ids=lambda change: change.__name__)
def test_the_compiled_and_the_differentiable_form_agree(output: Tensor, change: Callable[[Tensor], Tensor]) -> None:
    for laid in layouts(change(output)):
        differentiable = grams(laid.requires_grad_())
        assert differentiable.requires_grad
        np.testing.assert_allclose(grams(laid.detach()), differentiable.detach(), rtol=1e-12)


def test_a_network_in_float64_is_read_in_float64() -> None:
    output = draw(3, 5, 4, 4).double() + 1e-9
    np.testing.assert_allclose(grams(output), slow_grams(output), rtol=1e-12)


def test_gradients_of_statistics_are_those_of_finite_differences() -> None:
    output = draw(2, 3, 2, 2, seed=3).double().requires_grad_()
    assert torch.autograd.gradcheck(means, (output,))
    assert torch.autograd.gradcheck(grids, (output,))
    assert torch.autograd.gradcheck(grams, (output,))


def test_dead_channels_spoil_no_gradient() -> None:
    output = draw(2, 4, 3, 3).relu()
    output[:, 1] = 0
    found = grams(output.requires_grad_())
    assert (found[:, :, 1] == 0).all()
    (gradient,) = torch.autograd.grad(found.sum(), output)
    alone = output.detach()[:, [0, 2, 3]].requires_grad_()
    (expected,) = torch.autograd.grad(grams(alone).sum(), alone)
    torch.testing.assert_close(gradient[:, [0, 2, 3]], expected)
    torch.testing.assert_close(gradient[:, 1], alone.detach().sum(1))  # through the other rows of the first order


def test_the_order_of_images_and_the_batch_do_not_matter() -> None:
    output = draw(9, 6, 5, 5)
    for statistic in (means, grids, grams):
        one_by_one = torch.cat([statistic(output[i : i + 1]) for i in range(9)])
        torch.testing.assert_close(statistic(output.flip(0)).flip(0), one_by_one, rtol=1e-12, atol=0)
    assert means(output[:0]).shape == (0, 6)
    assert grids(output[:0]).shape == (0, 96)
    assert grams(output[:0]).shape == (0, ORDERS, 6)


def test_the_parts_that_a_large_output_is_read_in_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    for output in (draw(9, 6, 5, 5), draw(9, 5, 6), draw(9, 6)):
        whole, fields = means(output), grids(output)
        for at_once in (1, 150, 400):
            monkeypatch.setattr(statistics, "AT_ONCE", at_once)
            torch.testing.assert_close(means(output), whole, rtol=1e-15, atol=1e-16)
            assert torch.equal(grids(output), fields)
        monkeypatch.undo()


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4, 5, 6)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"a block must return \[B, C, H, W\], tokens \[B, T, C\] or \[B, C\], got shape"
    ):
        by_place(torch.zeros(shape))


class Staged(nn.Module):
    """Stages whose output the next one changes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.body = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(4, 6, 3), nn.ReLU(inplace=True))
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.body(self.stem(x)).mean((2, 3)))
        return logits


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        return logits


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 5, 8, 8)
        self.mix = nn.Linear(5, 5)
        self.out = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.mix(self.embed(x).flatten(2).transpose(1, 2)).mean(1))
        return logits


class TokensFirst(Tokens):
    """Gives [T, B, C] on the way, whose first dimension is not the images."""

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.mix(self.embed(x).flatten(2).permute(2, 0, 1)).mean(0))
        return logits


class Listed(nn.Module):
    """Keeps its parts in containers that are never run themselves."""

    def __init__(self) -> None:
        super().__init__()
        rest = nn.ModuleList([nn.Conv2d(4, 4, 3), nn.Conv2d(4, 5, 3)])
        self.parts = nn.ModuleDict({"first": nn.Conv2d(3, 4, 3), "rest": rest})
        self.out = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        for part in (self.parts["first"], *self.parts["rest"]):
            x = part(x)
        logits: Tensor = self.out(x.mean((2, 3)))
        return logits


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8), nn.ReLU(), nn.Linear(8, 3))


def network(module: nn.Module, **options: object) -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for part in module.modules():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()
    return Network(module, mean=0.5, std=0.25, **options)  # type: ignore[arg-type]


def images(total: int = 3) -> Tensor:
    return torch.rand(total, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (Staged(), ("stem", "body")),
        (Wrapped(Wrapped(Staged())), ("inner.inner.stem", "inner.inner.body")),
        (Tokens(), ("embed", "mix")),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)), ("0", "1")),
        (mlp(), ()),
        (TokensFirst(), ("embed",)),
        (Listed(), ("parts.first", "parts.rest.0", "parts.rest.1")),
    ],
    ids=["stages", "wrapped", "tokens", "sequence", "no maps", "tokens first", "lists"],
)
def test_blocks_are_found_where_none_are_named(module: nn.Module, names: tuple[str, ...]) -> None:
    assert network(module).block_names == names


@pytest.mark.parametrize("module", [Staged(), Tokens()], ids=["stages", "tokens"])
def test_statistics_of_a_pass_are_those_of_its_outputs(module: nn.Module) -> None:
    net = network(module)
    with torch.no_grad():
        kept = net(images(), needs={"blocks", "means", "grids", "grams"})
        alone = {kind: getattr(net(images(), needs={kind}), kind) for kind in ("means", "grids", "grams")}
    assert list(kept.blocks) == list(kept.means) == list(kept.grids) == list(kept.grams) == list(net.block_names)
    for name, output in kept.blocks.items():
        np.testing.assert_allclose(kept.grams[name], slow_grams(output), rtol=1e-9)
        np.testing.assert_allclose(kept.grids[name], slow_grids(output), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(kept.means[name], [places.mean(1) for places in maps(output)], rtol=1e-12)
        for kind, tables in alone.items():
            torch.testing.assert_close(tables[name], getattr(kept, kind)[name], rtol=0, atol=0)


def test_only_what_is_needed_is_kept() -> None:
    net = network(Staged())
    with torch.no_grad():
        kept = net(images(), needs={"means"})
    assert (len(kept.blocks), len(kept.means), len(kept.grids), len(kept.grams)) == (0, 2, 0, 0)


class Pausing(Staged):
    """Waits after its first block for another pass to be over, where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.paused, self.go_on = threading.Event(), threading.Event()
        self.body.register_forward_pre_hook(self._pause)

    def _pause(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if len(inputs[0]) == 3:
            self.paused.set()
            assert self.go_on.wait(60)


def test_passes_in_two_threads_do_not_meddle() -> None:
    """One goes through all of the network while the other is in the middle."""
    module, needs = Pausing(), {"blocks", "means", "grids", "grams"}
    net = network(module)
    with ThreadPoolExecutor(1) as pool, torch.no_grad():
        first = pool.submit(torch.no_grad()(net), images(3), needs=needs)
        assert module.paused.wait(60)
        net(images(5), needs=needs)
        module.go_on.set()
        kept, alone = first.result(60), net(images(3), needs=needs)
    for kind in needs:
        for name, rows in getattr(alone, kind).items():
            assert torch.equal(getattr(kept, kind)[name], rows)
    assert torch.equal(kept.features, alone.features)


def test_gradients_reach_images_through_every_statistic_also_where_layers_work_in_place() -> None:
    net = network(Staged())
    for kind in ("means", "grids", "grams"):
        given = images().requires_grad_()
        table = getattr(net(given, needs={kind}), kind)
        (gradient,) = torch.autograd.grad(sum(rows.sum() for rows in table.values()), given)
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0


@pytest.mark.parametrize("options", [{}, {"blocks": ()}], ids=["found", "named"])
def test_a_network_without_blocks_is_read_by_its_features(options: dict[str, object]) -> None:
    net = network(mlp(), **options)
    with torch.no_grad():
        kept = net(images(), needs={"means", "grids", "grams"})
    assert list(kept.means) == list(kept.grids) == list(kept.grams) == ["features"]
    torch.testing.assert_close(kept.grids["features"], kept.features, rtol=0, atol=0)
    torch.testing.assert_close(kept.means["features"], kept.features.double(), rtol=0, atol=0)
    np.testing.assert_allclose(kept.grams["features"], slow_grams(kept.features), rtol=1e-10)
