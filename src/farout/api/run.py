"""Run a study into a folder; the class of its results."""

from __future__ import annotations

import re
import shutil
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pandas as pd
import torch

from farout.devices import as_device
from farout.memory import fit_workers, parse_size
from farout.networks.mode import check_compiler
from farout.plugins import load_plugin
from farout.progress import Listener
from farout.protocols import cuts, plan
from farout.protocols.compare import Compared, compare
from farout.protocols.document import document
from farout.registry import unknown
from farout.report.content import Document
from farout.report.tables import text
from farout.study.engines.executor import engine_class, parse_options
from farout.study.engines.run import Outcome
from farout.study.engines.run import run as compute
from farout.study.remote.address import Remote, is_address
from farout.study.remote.session import kept_at, local_folder, readable
from farout.study.results import Results, damaged_plan, write_plan
from farout.study.sessions import session
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import Study, from_spec


def check_compilation(study: Study, device: str) -> None:
    """Raise if networks are to be compiled and this machine cannot."""
    networks = (subject.classifier for trial in study.trials for subject in trial.subjects)
    if any(network is not None and network.compiled for network in networks):
        check_compiler(torch.device(device))


def memory_budget(memory: str | int | None, engine: str, workers: int) -> int | None:
    """Return the bytes of memory of all processes together. Raise if they cannot hold them."""
    if memory is None:
        return None
    if engine != "local":
        raise ValueError(
            f"memory is for worker processes on this machine, not for the engine {engine!r}, whose own options reserve "
            "it"
        )
    budget = parse_size(memory)
    fit_workers(budget, workers)
    return budget


class Result:
    """Result of a run: tables as data frames, the report as a file, and the stored scores."""

    def __init__(self, root: Path, outcome: Outcome, *, temporary: bool = False) -> None:
        self.path, self.outcome = root, outcome
        self._root = root.absolute()  # a detector may change the working directory
        if temporary:  # remove the folder when the object is garbage-collected
            weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)

    @cached_property
    def results(self) -> Results:
        """The stored plan and scores."""
        return Results(self._root)

    @cached_property
    def document(self) -> Document:
        """Content of the report, as data."""
        return document(self.results)

    @property
    def notes(self) -> list[str]:
        """Caveats that a reader of the results must know, such as how and on which images detectors were tuned."""
        return self.results.notes

    def table(self, name: str | None = None) -> pd.DataFrame:
        """Return a table by name; by default the detailed table of the first protocol."""
        frames = {table.name: table.frame for table in self.document.tables}
        if not frames:
            raise ValueError(f"there is no table, because there are no results: {text(self.document)}")
        first = self.results.protocols[0].name
        name = name or (first if first in frames else next(iter(frames)))
        if name not in frames:
            raise unknown("table", name, frames)
        return frames[name]

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file with its tables beside it, and return the path of the file."""
        from farout.report.html import write_report  # plotly and matplotlib take long to import

        return write_report(self.document, Path(path))

    def compare(self, other: Result | str | Path) -> Compared:
        """Compare the detectors with those of another run, given as its result or its folder.

        Shows a sentence per detector and stress; `.table()` has the differences of AUROC with their intervals.
        """
        return compare(self.results, other.results if isinstance(other, Result) else Results(readable(other)))

    def __repr__(self) -> str:
        return text(self.document)

    def _repr_html_(self) -> str:
        from farout.report.notebook import notebook

        return notebook(self.document)


def run(
    study: Study | StudySpec | str | Path,
    out: str | Path | None = None,
    *,
    engine: str = "local",
    workers: int = 0,
    device: str = "cpu",
    plugins: tuple[str, ...] = (),
    timeout: float | None = None,
    options: Mapping[str, Any] | None = None,
    memory: str | int | None = None,
    progress: Listener | None = None,
) -> Result:
    """Compute the missing results of a study into a folder, and return them.

    study: path of a study file, its content, or a `Study`. out: the folder, or an address such as "s3://bucket/run",
        see docs/scale.md; None = a temporary folder.
    engine: name of the executor, see `farout list engines`.
    workers: number of worker processes of one core each; 0 with the local engine: everything runs in this process, on
        one core. With workers, scripts need the usual `if __name__ == "__main__":`.
    timeout: seconds that a detector may take for one chunk of images; None = no limit.
    options: options of the engine, such as {"partition": "gpu"} with engine="slurm".
    memory: memory of all processes together with engine="local", such as "4GiB"; None = no limit. Where it runs out,
        batches are halved, which the log and the record of the result say.
    """
    budget = memory_budget(memory, engine, workers)
    for plugin in plugins:
        load_plugin(Path(plugin))
    if not engine_class(engine).remote:
        as_device(device)  # raises for an unknown device before the study is read, which may take a while
    if isinstance(study, str | Path):
        study = StudySpec.read(study)
    if isinstance(study, StudySpec):
        study = from_spec(study)
    if not isinstance(study, Study):
        raise TypeError(f"expected a study or the path of its YAML file, got {type(study).__name__}")
    parsed = parse_options(engine, options or {})
    address = _checked_address(out, engine)
    if not engine_class(engine).remote:
        check_compilation(study, device)
    study = replace(study, device=device, machine=parsed.machine)
    entries = plan(study)
    study.cuts.extend(cut for cut in cuts(study) if cut not in study.cuts)
    root = local_folder(address) if address else Path(mkdtemp(prefix="farout-") if out is None else out)
    result = Result(root, Outcome(), temporary=out is None)
    cells = [entry.cell for entry in entries]
    Store(root).open()  # with the relative path, so that an error shows the user's own spelling
    store = Store(root.absolute())
    with store.lock(), kept_at(address, store):
        damaged = damaged_plan(store)
        write_plan(store, study, entries)
        with session(store.root, engine=engine, workers=workers, device=device) as facts:
            result.outcome = compute(
                cells, store, engine=engine, workers=workers, device=device, plugins=plugins, timeout=timeout,
                options=parsed, memory=budget, progress=progress,
            )  # fmt: skip
            facts |= {"computed": len(result.outcome.done), "failed": len(result.outcome.failed)}
        result.outcome.damaged[:0] = damaged
    return result


def _checked_address(out: str | Path | None, engine: str) -> str | None:
    """Return the address of a run; None if it is a folder. Raise if the address or the engine cannot be used."""
    if isinstance(out, Path) and re.match(r"[a-z][a-z0-9+.-]+:/", str(out)):
        raise ValueError(f"{out} is not a folder; give an address as text, out='s3://bucket/run'")
    if not isinstance(out, str) or not is_address(out):
        return None
    if engine_class(engine).remote:
        raise ValueError(
            f"--engine {engine} needs a folder that all nodes share, since they write results into it; {out} is none: "
            "give such a folder with --out, or use --engine local"
        )
    Remote(out)  # raises before the plan, which may take a while
    return out
