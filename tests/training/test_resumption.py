"""Trainings that are interrupted, killed and continued end in the same bits."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from farout.training import Classifier, History, StageHistory, loop
from helpers import small_tasks
from helpers.small_tasks import KINDS, VAL, network, trained


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


@pytest.fixture(scope="module")
def expected() -> dict[str, tuple[dict[str, Tensor], list[StageHistory]]]:
    """Every kind, trained without interruption."""
    return {kind: trained(kind)[:2] for kind in KINDS}


class Stop(Exception):
    pass


def stopping(after: int) -> Callable[..., None]:
    calls = 0

    def progress(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == after:
            raise Stop

    return progress


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_after_every_few_steps(kind: str, expected: Any, tmp_path: Path) -> None:
    for steps in (1, 2, 3, 4):  # each time a new process's objects, from the file alone
        with pytest.raises(Stop):
            trained(kind, checkpoint=tmp_path / "file", progress=stopping(steps))
    weights, histories, _ = trained(kind, checkpoint=tmp_path / "file")
    assert same(weights, expected[kind][0])
    assert histories == expected[kind][1]


@pytest.mark.parametrize("kind", KINDS)
def test_any_checkpoint_leads_to_the_same_weights(
    kind: str, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a stop that the training does not hear of, which loses the steps since its checkpoint."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    kept: list[bytes] = []

    def keep(*_: Any) -> None:
        if (tmp_path / "file").exists():
            kept.append((tmp_path / "file").read_bytes())

    trained(kind, checkpoint=tmp_path / "file", progress=keep)
    assert len(set(kept)) >= 7
    for place, content in enumerate(dict.fromkeys(kept)):
        if place % 3 == 1:
            (tmp_path / "file").write_bytes(content)
            assert same(trained(kind, checkpoint=tmp_path / "file")[0], expected[kind][0])


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_killed_and_continued_by_other_processes(expected: Any, tmp_path: Path) -> None:
    """On other numbers of threads, too: three there, one here."""
    moments, ends = random.Random(0), list[int]()
    while len(ends) < 2 and 0 not in ends:
        process, written = _start(tmp_path), _written(tmp_path)
        while _written(tmp_path) == written and process.poll() is None:
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        ends.append(process.wait(60))
    assert ends == [-signal.SIGKILL] * 2, "it was finished before it could be killed"
    assert _start(tmp_path).wait(120) == 0, (tmp_path / "log").read_text()
    for kind in KINDS:
        assert same(load_file(tmp_path / f"{kind}.safetensors"), expected[kind][0]), kind


def _start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, small_tasks.__file__, str(folder)], stdout=log, stderr=log)


def _written(folder: Path) -> set[tuple[str, int]]:
    return {(path.name, path.stat().st_mtime_ns) for path in folder.glob("*.checkpoint")}


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_outside_does_not_matter(kind: str, expected: Any) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        weights = trained(kind)[0]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert same(weights, expected[kind][0])


def test_ctrl_c_within_a_step_is_deferred_and_keeps_a_checkpoint(
    expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    plain, steps = Classifier.loss, []

    def loss(self: Classifier, player: str, batch: Any, context: Any) -> Tensor:
        steps.append(context.position.step)
        if len(steps) == 4:
            signal.raise_signal(signal.SIGINT)
        return plain(self, player, batch, context)

    monkeypatch.setattr(Classifier, "loss", loss)
    try:
        with pytest.raises(KeyboardInterrupt):
            trained("classifier", checkpoint=tmp_path / "file")
    finally:
        signal.signal(signal.SIGINT, before)
    weights, _, _ = trained("classifier", checkpoint=tmp_path / "file")
    assert same(weights, expected["classifier"][0])
    assert steps == [*range(4), *range(4, 18)], "the step that was interrupted is finished and not repeated"


def test_nothing_global_is_changed(expected: Any) -> None:
    before = torch.get_rng_state()
    _, _, task = trained("gan")
    assert torch.equal(torch.get_rng_state(), before)
    assert all(one.requires_grad for module in task.modules.values() for one in module.parameters())
    assert not any(module.training for module in task.modules.values())


def test_a_failure_leaves_the_weights_as_given(tmp_path: Path) -> None:
    task = Classifier(network(), VAL)
    given = {key: value.clone() for key, value in task.weights().items()}
    with pytest.raises(Stop):
        loop.fit(task, small_tasks.TRAIN, KINDS["classifier"][1], progress=stopping(5))
    assert same(task.weights(), given)


def test_of_equally_good_epochs_the_last_is_kept() -> None:
    assert History((3.0, 2.0, 1.0), (0.5, 0.7, 0.7)).best_epoch == 2
    assert StageHistory(keep="max", figures=[0.5, 0.7, 0.7], epochs=3).best_epoch == 2
    assert StageHistory(keep="min", figures=[0.5, 0.7, 0.5, 0.6], epochs=4).best_epoch == 2
    assert StageHistory(keep="last", figures=[0.5, 0.7], epochs=2).best_epoch == 1
