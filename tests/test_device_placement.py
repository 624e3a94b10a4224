"""Devices: errors, the GPU of every worker, pinned copies, and loops that wait for no GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from farout import attacks, devices, search, variations
from farout.attacks import deepfool, gradients, score_descent
from farout.attacks.ascent import ascend
from farout.attacks.estimates import DifferentiableTarget
from farout.attacks.target import Target
from farout.cli.options import worker_count
from farout.detectors.posthoc.ebo import EBO
from farout.devices import as_device, to_device, worker_device
from farout.networks import create
from farout.networks.passes import with_gradients
from farout.rng import generator
from farout.search import objective
from farout.search.walk import walk
from farout.study.engines import local, worker
from farout.study.engines.executor import Context
from farout.study.store import Store

READS = {"cpu", "numpy", "item", "tolist", "__bool__", "__float__", "__int__", "nonzero", "masked_select", "__array__"}


class Waits(AssertionError):
    """The host has read a tensor."""


class _Methods(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in READS:
            raise Waits(func.__name__)
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masks = (args[1] or ()) if str(func).startswith(("aten.index.", "aten.index_put")) else ()
        if any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in masks):
            raise Waits(f"{func} by a mask")
        if str(func).startswith(("aten._local_scalar_dense", "aten.nonzero", "aten.masked_select", "aten.is_nonzero")):
            raise Waits(str(func))
        return func(*args, **(kwargs or {}))


@contextmanager
def pretend_gpu() -> Iterator[None]:
    """A device whose tensors raise when the host reads them."""
    with _Methods(), _Operations():
        yield


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops take the CPU for a GPU."""
    for module in (devices, gradients, deepfool, objective):
        monkeypatch.setattr(module, "is_host", lambda device: False)
    monkeypatch.setattr("farout.attacks.ascent.is_host", lambda device: False)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: x.numpy(), lambda x: x[x > 0], lambda x: bool(x.any()),
        lambda x: x.nonzero(), lambda x: float(x.sum()), lambda x: x.tolist(), lambda x: x.masked_select(x > 0),
    ],
)  # fmt: skip
def test_the_pretended_gpu_raises_when_it_is_read(read: Callable[[Tensor], object]) -> None:
    values = torch.arange(4.0)
    read(values.clone())
    with pretend_gpu(), pytest.raises(Waits):
        read(values)


def images(total: int = 6) -> Tensor:
    return torch.rand(total, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def target(detector: bool = False) -> Target:
    return Target(create("lenet", classes=4, side=32, seed=1), EBO() if detector else None)


@pytest.mark.parametrize("name", ["mh", "evolution", "random", "zeroth_order", "coordinate"])
@pytest.mark.parametrize("variation", ["affine", "pixel"])
def test_no_step_of_a_search_waits(name: str, variation: str, elsewhere: None) -> None:
    varied = variations.create(variation).suited((3, 32, 32))
    score = objective.Objective(varied, images(), target(detector=True).score, "ebo")
    steps = walk(search.create(name), varied.space, score, 6, 4, seed=0, marks=[1, 2, 4])
    first = next(steps)
    with pretend_gpu():
        for last in steps:  # noqa: B007
            pass
    assert last.steps == 4
    assert not torch.equal(last.state.z, first.state.z)
    score.check()


def test_strange_scores_are_found_when_the_search_is_checked(elsewhere: None) -> None:
    varied = variations.create("affine").suited((3, 32, 32))
    score = objective.Objective(varied, images(), lambda batch: torch.full((len(batch),), torch.nan), "mine")
    with pretend_gpu():
        score(torch.rand(6, varied.dim))
    with pytest.raises(ValueError, match="mine gave 6 NaN or infinite scores on data decoded by affine"):
        score.check()


def labels(one: Target) -> Tensor:
    with torch.no_grad():
        found = one.logits(images()).argmax(1)
    found[0] = (found[0] + 1) % 4  # misclassified from the start
    return found


def ascended(one: Target, steps: int = 12) -> Tensor:
    classes, start = labels(one), images()
    low, high = gradients.ball(start, 0.05)
    with with_gradients():
        return ascend(one, lambda logits, rows: gradients.odds(logits, classes[rows]), classes, start, low, high,
                      0.1, steps).images  # fmt: skip


def stepped(one: Target) -> Tensor:
    classes = labels(one)
    with with_gradients():
        return gradients.sign_ascent(one, "odds", images(), classes, gradients.ball(images(), 0.05), 0.01, 5)


def nearest(one: Target) -> Tensor:
    with with_gradients():
        return attacks.create("deepfool", steps=4)._run(one, images(), labels(one))  # type: ignore[attr-defined]


LOOPS = [ascended, stepped, nearest]


@pytest.mark.parametrize("loop", LOOPS)
def test_no_step_of_an_attack_waits(loop: Callable[[Target], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    one = target()
    with pretend_gpu(), pytest.raises(Waits):
        loop(one)  # on the CPU it reads
    expected, passes = loop(one), 0
    for module in (gradients, deepfool, "farout.attacks.ascent"):
        path = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{path}.is_host", lambda device: False)
    monkeypatch.setattr(gradients.Watch, "read", lambda watch: None)  # called once, after the loop

    class Guarded(Target):
        def logits(self, batch: Tensor) -> Tensor:
            nonlocal passes
            passes += 1
            return super().logits(batch)

    guarded = Guarded(one.network)
    known = labels(one)
    monkeypatch.setattr(f"{__name__}.labels", lambda of: known)
    with pretend_gpu():
        found = loop(guarded)
    assert passes >= 4
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_no_step_of_a_descent_on_scores_waits() -> None:
    one = target(detector=True)
    attack = attacks.create("score_pgd", steps=3)
    rngs = [generator(0, "attack", index) for index in range(6)]
    assert isinstance(attack, score_descent.Descent)
    with with_gradients():
        differentiable = DifferentiableTarget.of(one, images(), rngs, 2, 0.01)

        def evaluate(current: Tensor) -> score_descent.Evaluation:
            scores = differentiable.score(current)
            return score_descent.Evaluation(scores, scores.detach(), torch.ones_like(scores, dtype=torch.bool))

        with pretend_gpu():
            found = attack.descend(differentiable, images(), rngs, evaluate)
        before, after = one.score(images()), one.score(found)
    assert (after < before).all()


def test_a_gradient_that_is_not_finite_is_found_after_the_loop(elsewhere: None) -> None:
    watch, values = gradients.Watch(), torch.tensor([0.0, 1.0], requires_grad=True)
    gradients.gradient(values.sqrt(), values, watch)
    gradients.gradient(values, values, watch)
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        watch.read()


def test_a_missing_device_is_named_with_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match=r"cannot run on device 'cuda:7': .*; this machine has cpu, cuda:0, cuda:1"):
        as_device("cuda:7")


def test_workers_take_one_gpu_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = [str(worker_device(torch.device("cuda"), position)) for position in range(3)]
    assert found == ["cuda:0", "cuda:1", "cuda:0"]
    assert str(worker_device(torch.device("cuda:1"), 0)) == "cuda:1"
    assert str(worker_device(torch.device("cpu"), 5)) == "cpu"


def test_the_number_of_workers_is_that_of_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert [worker_count(None, device=one) for one in ("cpu", "cuda", "cuda:1", "mps")] == [16, 3, 1, 1]
    assert worker_count(5, device="cuda") == 5
    assert worker_count(None, "slurm", "cuda") == 1


def test_a_worker_that_replaces_another_has_its_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    started: list[str] = []

    class Process:
        connection = note = None

        def __init__(self, process: object, setup: worker.Setup) -> None:
            started.append(setup.device)
            self.orders: list[object] = []
            self.busy, self.served = False, True

    monkeypatch.setattr(local, "_Worker", Process)
    monkeypatch.setattr(local, "take_worker", lambda plugins: None)
    context = Context(None, Store(tmp_path), torch.device("cuda"), tmp_path, workers=3)  # type: ignore[arg-type]
    executor = local.LocalExecutor(context)
    assert started == ["cuda:0", "cuda:1", "cuda:0"]
    executor._start(1)
    assert started[-1] == "cuda:1"
    assert worker.torch.device(started[0]).index == 0


def test_copies_to_a_gpu_are_pinned_and_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda values: calls.append("pinned") or values)
    monkeypatch.setattr(Tensor, "to", lambda values, *where, **how: calls.append((where, how)) or values)
    to_device(torch.zeros(2), torch.device("cuda:1"))
    assert calls == ["pinned", ((torch.device("cuda:1"),), {"non_blocking": True})]
    to_device(torch.zeros(2), torch.device("cpu"))
    assert calls[-1] == ((torch.device("cpu"),), {})
    assert np.isclose(len(calls), 3)
