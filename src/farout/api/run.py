"""Running a study into a folder, and what comes back."""

from __future__ import annotations

import html
import shutil
import weakref
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp

import pandas as pd

from farout.plugins import load_plugin
from farout.progress import Listener
from farout.protocols import cuts, plan
from farout.protocols.document import document
from farout.registry import unknown
from farout.report.content import Document
from farout.report.html import render, write_report
from farout.report.tables import text
from farout.study.engines.executor import ENGINES
from farout.study.engines.run import Outcome
from farout.study.engines.run import run as compute
from farout.study.results import Results, damaged_plan, write_plan
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import Study, from_spec
from farout.tensors import as_device


class Result:
    """A finished run: tables as data frames, the report as a file, the scores by the store."""

    def __init__(self, root: Path, outcome: Outcome, *, temporary: bool = False) -> None:
        self.path, self.outcome = root, outcome
        self._root = root.absolute()  # a detector may change the working directory
        if temporary:  # the folder goes when nobody holds the result any more
            weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)

    @cached_property
    def results(self) -> Results:
        """The stored plan and scores."""
        return Results(self._root)

    @cached_property
    def document(self) -> Document:
        """All that the report says, as data."""
        return document(self.results)

    @property
    def notes(self) -> list[str]:
        """What people must know to read the results right: how detectors were tuned, and on what."""
        return self.results.notes

    def table(self, name: str | None = None) -> pd.DataFrame:
        """A table by name; without one, the detailed table of the first protocol."""
        found = {table.name: table.frame for table in self.document.tables}
        if not found:
            raise ValueError(f"there is no table, for want of results: {text(self.document)}")
        first = self.results.protocols[0].name
        name = name or (first if first in found else next(iter(found)))
        if name not in found:
            raise unknown("table", name, found)
        return found[name]

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file with its tables beside it; returns the file's path."""
        return write_report(self.document, Path(path))

    def __repr__(self) -> str:
        return text(self.document)

    def _repr_html_(self) -> str:
        page = html.escape(render(self.document))  # in a frame: its styles are not for the notebook around it
        return f'<iframe sandbox srcdoc="{page}" width="100%" height="800" style="border: 0"></iframe>'


def run(
    study: Study | StudySpec | str | Path,
    out: str | Path | None = None,
    *,
    engine: str = "local",
    workers: int = 0,
    device: str = "cpu",
    plugins: tuple[str, ...] = (),
    timeout: float | None = None,
    progress: Listener | None = None,
) -> Result:
    """Run what is missing of a study (a file, its content, or one made ready) into a folder, a temporary one if None.

    engine: the name of what computes, see `farout list engines`. workers: its processes; 0 of the local engine runs
        everything in this process. With workers, scripts need the usual `if __name__ == "__main__":`.
    timeout: seconds that a detector may take for one chunk of images; None = no limit.
    """
    for plugin in plugins:
        load_plugin(Path(plugin))
    if isinstance(study, str | Path):
        study = StudySpec.read(study)
    if isinstance(study, StudySpec):
        study = from_spec(study)
    if not isinstance(study, Study):
        raise TypeError(f"expected a study or the path of its YAML file, got {type(study).__name__}")
    as_device(device)  # before the plan, which may take a while
    ENGINES[engine]
    entries = plan(study)
    study.cuts.extend(cut for cut in cuts(study) if cut not in study.cuts)
    root = Path(mkdtemp(prefix="farout-") if out is None else out)
    result = Result(root, Outcome(), temporary=out is None)
    cells = [entry.cell for entry in entries]
    Store(root).open()  # an error names the folder as the user does
    store = Store(root.absolute())
    with store.lock():
        damaged = damaged_plan(store)
        write_plan(store, study, entries)
        result.outcome = compute(
            cells, store, engine=engine, workers=workers, device=device, plugins=plugins, timeout=timeout,
            progress=progress,
        )  # fmt: skip
        result.outcome.damaged[:0] = damaged
    return result
