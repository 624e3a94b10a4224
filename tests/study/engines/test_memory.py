"""Memory: where it runs out, batches are halved, told and recorded; the budget bounds workers."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import farout
from farout import memory
from farout.api.run import Result
from farout.detectors.panel import table
from farout.memory import OutOfMemory, fit_workers, is_out_of_memory, memory_limit, parse_size, worker_share
from farout.networks import Network, create, save_weights
from farout.study.cells.batches import Batches, joined
from farout.study.spec import StudySpec

PLUGIN = '''
import torch
import farout

@farout.register
class Greedy(farout.Detector):
    """Mean brightness, computed with 32 MiB for every image of a batch."""

    name = "greedy"

    def score(self, images):
        held = torch.ones(len(images), 8 << 20)
        return images.mean((1, 2, 3)) * held[:, 0]

@farout.register
class Picky(farout.Detector):
    """Mean brightness of at most `most` images."""

    name = "picky"

    def __init__(self, most=16):
        self.most = most

    def score(self, images):
        if len(images) > self.most:
            raise MemoryError(f"{len(images)} images")
        return images.mean((1, 2, 3))

@farout.register
class Plain(farout.Detector):
    """Mean brightness."""

    name = "plain"

    def score(self, images):
        return images.mean((1, 2, 3))
'''


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "greedy.py"
    path.write_text(PLUGIN)
    return str(path)


def spec(*detectors: Any, **more: Any) -> StudySpec:
    data = {"name": "noise", "options": {"n": 100}}
    return StudySpec.model_validate(
        {"name": "memory", "inliers": {"test": data}, "outliers": [{**data, "options": {"n": 70}}],
         "detectors": list(detectors), **more}
    )  # fmt: skip


def by_detector(result: Result) -> dict[str, list[tuple[dict[str, Any], np.ndarray]]]:
    store, found = result.results.store, {}
    for row in result.results.rows:
        if store.has(row.cell):
            found.setdefault(row.tags["detector"], []).append((store.facts(row.cell), store.scores(row.cell)))
    return found


def test_batches_are_halved_told_and_recorded(plugin: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    result = farout.run(spec("plain", "picky"), tmp_path / "run", plugins=(plugin,))
    assert not result.outcome.failed
    found = by_detector(result)
    for (facts, scores), (plain_facts, plain) in zip(found["picky"], found["plain"], strict=True):
        assert facts["batch"] == 16
        assert "batch" not in plain_facts
        np.testing.assert_allclose(scores, plain, rtol=1e-6)
    assert "memory ran out with 64 images at a time, so it goes on with 32 (MemoryError: 64 images)" in caplog.text


def test_memory_that_runs_out_at_one_image_is_a_failure_with_its_reason(plugin: str, tmp_path: Path) -> None:
    result = farout.run(spec("plain", {"name": "picky", "most": 0}), tmp_path / "run", plugins=(plugin,))
    reasons = set(result.outcome.failed.values())
    assert len(reasons) == 1
    assert "memory ran out even for one image at a time (MemoryError: 1 images): give more memory" in reasons.pop()
    assert [len(cells) for name, cells in by_detector(result).items() if name == "plain"] == [2]


@pytest.mark.parametrize("name", ["evg", "evasion"])
def test_searches_and_attacks_go_on_with_smaller_batches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proposals and noise are drawn as without it, so that only rounding may differ."""
    weights = tmp_path / "lenet.safetensors"
    save_weights(create("lenet", classes=4, side=32), weights)
    settings = {
        "evg": {"chains": 20, "steps": 3, "variations": ["affine"]},
        "evasion": {"attacks": ["pgd"], "images": 20},
    }
    data = {"name": "toy", "limit": 40}
    study = StudySpec.model_validate(
        {"name": "memory", "inliers": {"test": data, "val": {**data, "split": "train"}},
         "outliers": [{"name": "noise", "options": {"n": 40}}], "detectors": ["msp"],
         "networks": [{"name": "lenet", "weights": str(weights), "classes": 4}],
         "protocols": [{"name": name, **settings[name]}]}
    )  # fmt: skip
    whole = farout.run(study, tmp_path / "whole")
    forward = Network.forward

    def short(network: Network, images: Tensor, **how: Any) -> Any:
        if len(images) > 9:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return forward(network, images, **how)

    monkeypatch.setattr(Network, "forward", short)
    parts = farout.run(study, tmp_path / "parts")
    assert not parts.outcome.failed
    kinds = set()
    for row in parts.results.rows:
        facts = parts.results.store.facts(row.cell)
        kinds.add(kind := facts["identity"]["kind"])
        assert facts["batch"] in (5, 7, 8, 9), facts["title"]
        if kind in ("scores", "search"):
            found, expected = (one.results.store.scores(row.cell) for one in (parts, whole))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert {"evg": "search", "evasion": "attack"}[name] in kinds


def test_randomness_does_not_depend_on_the_batch() -> None:
    batches, asked = Batches("work"), []

    def compute(part: slice) -> dict[str, np.ndarray]:
        asked.append((part.start, part.stop))
        if part.stop - part.start > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return {"rows": np.arange(part.start, part.stop)}

    assert joined(batches.map(10, compute))["rows"].tolist() == list(range(10))
    assert asked == [(0, 10), (0, 5), (0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    assert batches.most == 2
    assert [len(part["rows"]) for part in batches.map(3, compute)] == [2, 1]  # it remembers


def test_activations_of_parts_are_those_of_the_whole() -> None:
    network = create("lenet", classes=4, side=32)
    images, needs = torch.rand(5, 3, 32, 32), {"means", "grams", "blocks"}
    with torch.no_grad():
        whole = network(images, needs=needs)
        parts = table.joined([network(images[:2], needs=needs), network(images[2:], needs=needs)])
    for found, expected in [(parts.logits, whole.logits), (parts.features, whole.features)] + [
        (getattr(parts, kind)[name], rows) for kind in needs for name, rows in getattr(whole, kind).items()
    ]:
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_other_errors_are_not_tried_again() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        Batches("work").map(4, lambda part: exec("raise RuntimeError('shape')"))
    assert not is_out_of_memory(RuntimeError("shape"))
    assert is_out_of_memory(RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"))


def test_sizes_are_read() -> None:
    assert [parse_size(text) for text in ("4GiB", "1.5 MiB", "1024", 7)] == [4 << 30, 3 << 19, 1024, 7]
    for text in ("4GB", "", "-1GiB", "0", "much"):
        with pytest.raises(ValueError, match="memory must be a number of bytes or a size such as 4GiB"):
            parse_size(text)


def test_a_small_budget_holds_fewer_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident", lambda: 300 << 20)
    assert [fit_workers(size << 20, 4) for size in (812, 1400, 4096)] == [1, 2, 4]
    assert worker_share(1324 << 20, 2) == 512 << 20
    with pytest.raises(ValueError, match=r"800 MiB cannot hold this process .300 MiB. and a worker .*at least 812 MiB"):
        fit_workers(800 << 20, 4)


def test_a_budget_for_another_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not for the engine 'slurm'"):
        farout.run(spec("msp"), tmp_path / "run", engine="slurm", memory="4GiB")


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a process needs Linux")
def test_the_limit_raises_before_the_system_kills() -> None:
    with memory_limit(memory.resident() + (96 << 20)):
        with pytest.raises((MemoryError, RuntimeError)) as raised:
            torch.ones(1 << 28)
        assert is_out_of_memory(raised.value)
        with pytest.raises(MemoryError):
            np.ones(1 << 27)
        torch.ones(1 << 20)
    assert len(torch.ones(1 << 28)) == 1 << 28


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a process needs Linux")
def test_workers_stay_within_their_memory(plugin: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "farout")
    budget = memory.resident() + (1 << 30)
    result = farout.run(spec("plain", "greedy"), tmp_path / "run", workers=1, plugins=(plugin,), memory=budget)
    assert not result.outcome.failed
    found = by_detector(result)
    for (facts, scores), (plain_facts, plain) in zip(found["greedy"], found["plain"], strict=True):
        assert 1 <= facts["batch"] < 32  # 64 images take 2 GiB, 32 of them all that the worker has
        assert "batch" not in plain_facts
        np.testing.assert_allclose(scores, plain, rtol=1e-6)
    assert "memory ran out with 64 images at a time, so it goes on with 32" in caplog.text


def test_the_error_is_one_of_memory() -> None:
    with pytest.raises(OutOfMemory, match="even for one image"):
        Batches("work").map(2, lambda part: np.ones(1 << 50))
