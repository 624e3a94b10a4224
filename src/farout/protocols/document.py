"""Content of a run's report: the summaries of its protocols, failures, notes, and the table of fit sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from farout.progress import track
from farout.protocols.agreement import agreement
from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.judged import judged_of
from farout.protocols.provenance import all_results, facts, sessions, times
from farout.protocols.shared.columns import DETECTOR, NETWORK, SEED
from farout.protocols.standings import with_standings
from farout.report.content import COUNT, EXTRA, LABEL, Column, Document, Failure, Summary, Table
from farout.study import results as stored
from farout.study.fit_sizes import SPLITS, fit_text
from farout.study.results import Results
from farout.study.spec import ProtocolSpec

FITTED = Column("fitted", LABEL)
EXTRA_DATA = Column("extra_data", LABEL)


def document(results: Results) -> Document:
    """Return the content of the report on the results stored so far."""
    counts = results.counts()
    summaries: dict[str, Summary] = {}
    for spec in _tracked(results.protocols):
        summaries[spec.name] = _summary(spec, results)
        results.intervals.save(finished=len(summaries) == len(results.protocols))
    found = Document(
        name=results.name, budget=results.budget, total=counts.total, missing=counts.missing, failed=counts.failed,
        summaries=summaries, failures=[_failure(one) for one in results.failures().values()],
        cuts=results.cuts, notes=results.notes, spec=results.spec,
        extra_data=results.extra_data, fitted=_fitted(results), fit_sizes=fit_text(results.fitted),
        facts=facts(results), provenance=[*sessions(results), *times(results)], results=all_results(results),
    )  # fmt: skip
    return replace(found, agreement=agreement(found.overview))


def _tracked(protocols: Sequence[ProtocolSpec]) -> Iterator[ProtocolSpec]:
    return track(protocols, len(protocols), "computing tables and figures", "protocols")


def _summary(spec: ProtocolSpec, results: Results) -> Summary:
    try:
        summary = _marked(_protocol(spec.name).summarize(results), results.extra_data)
        return replace(summary, stresses=with_standings(summary.stresses, judged_of(results, spec.name)))
    except (KeyError, IndexError, AttributeError) as error:
        if isinstance(error, ValueError):
            raise
        raise ValueError(
            f"{results.store.root} does not hold what {spec.name} reads ({type(error).__name__}: {error}); is its "
            "plan.json the one that `farout run` wrote? The same run command writes it again"
        ) from error


def _marked(summary: Summary, extra_data: Collection[str]) -> Summary:
    """Return the summary with a mark at detectors that learned from extra data, in all tables."""
    tables = [replace(table, marks={**table.marks, **_extra_marks(table, extra_data)}) for table in summary.tables]
    return replace(summary, tables=tables)


def _extra_marks(table: Table, extra_data: Collection[str]) -> dict[Column, list[str]]:
    marks = [EXTRA if line.get(DETECTOR) in extra_data else "" for line in table.lines]
    return {DETECTOR: marks} if any(marks) else {}


def _protocol(name: str) -> type[Protocol]:
    """Return the class of a protocol. It is not instantiated, since a study's settings may name code of the user's."""
    protocol = PROTOCOLS[name]
    assert isinstance(protocol, type)
    return protocol


def _failure(one: stored.Failure) -> Failure:
    title = ": ".join(filter(None, (one.row.title, one.row.tags.get("detector", ""))))
    return Failure(title, one.traceback, one.reason)


def _fitted(results: Results) -> list[Table]:
    """Return the table of fit sizes; empty if nothing was fitted."""
    if not results.fitted:
        return []
    used = [kind for kind in SPLITS.values() if any(line.get(kind) for line in results.fitted)]
    extra = [EXTRA_DATA] if any(line.get(EXTRA_DATA.name) for line in results.fitted) else []
    columns = [FITTED, NETWORK, SEED, *(Column(name, COUNT) for kind in used for name in (kind, f"of_{kind}")), *extra]
    lines = [{column: line.get(column.name, "") for column in columns} for line in results.fitted]
    caption = (
        "Number of images that each network was trained on and each detector was fitted on: training images, "
        "validation images (they select the best epoch of a network), outlier images and auxiliary outliers. The "
        "columns of_… give how many images the split has. 0: not fitted on this split. extra_data: the outlier sets "
        "that it learned from, if any. A detector that is fitted on fewer images than in its paper may do worse."
    )
    return [Table("fitted", "Number of images used for training and fitting", caption, lines)]
