"""The report's content: ask the protocols of a run for their summaries, and collect what else is to be known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farout.progress import track
from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.shared.columns import NETWORK, SEED
from farout.report.content import COUNT, LABEL, Column, Document, Failure, Summary, Table
from farout.study import results as stored
from farout.study.fit_sizes import SPLITS, fit_text
from farout.study.results import Results
from farout.study.spec import ProtocolSpec

FITTED = Column("fitted", LABEL)


def document(results: Results) -> Document:
    """Return all that a report says of the results that are there by now."""
    counts = results.counts()
    return Document(
        name=results.name, budget=results.budget, total=counts.total, missing=counts.missing, failed=counts.failed,
        summaries={spec.name: _summary(spec, results) for spec in _tracked(results.protocols)},
        failures=[_failure(one) for one in results.failures().values()],
        cuts=results.cuts, notes=results.notes, spec=results.spec,
        fitted=_fitted(results), fit_sizes=fit_text(results.fitted),
    )  # fmt: skip


def _tracked(protocols: Sequence[ProtocolSpec]) -> Iterator[ProtocolSpec]:
    return track(protocols, len(protocols), "computing tables and figures", "protocols")


def _summary(spec: ProtocolSpec, results: Results) -> Summary:
    try:
        return _protocol(spec.name).summarize(results)
    except (KeyError, IndexError, AttributeError) as error:
        if isinstance(error, ValueError):
            raise
        raise ValueError(
            f"{results.store.root} does not hold what {spec.name} reads ({type(error).__name__}: {error}); is its "
            "plan.json the one that `farout run` wrote? The same run command writes it again"
        ) from error


def _protocol(name: str) -> type[Protocol]:
    """The class of a protocol. None is made: a study's settings may name code of the user's."""
    made = PROTOCOLS[name]
    assert isinstance(made, type)
    return made


def _failure(one: stored.Failure) -> Failure:
    title = ": ".join(filter(None, (one.row.title, one.row.tags.get("detector", ""))))
    return Failure(title, one.traceback, one.reason)


def _fitted(results: Results) -> list[Table]:
    """The table of fit sizes; nothing where nothing was fitted."""
    if not results.fitted:
        return []
    used = [kind for kind in SPLITS.values() if any(line[kind] for line in results.fitted)]
    counts = [Column(name, COUNT) for kind in used for name in (kind, f"of_{kind}")]
    lines = [{column: line[column.name] for column in (FITTED, NETWORK, SEED, *counts)} for line in results.fitted]
    caption = (
        "Images that networks were trained and detectors fitted on: training, validation (the best epoch of a network "
        "is chosen on them) and outlier images, each of how many there are (of_…). 0: not fitted on these. A detector "
        "that is fitted on fewer images than in its paper may do worse."
    )
    return [Table("fitted", "What was fitted on what", caption, lines)]
