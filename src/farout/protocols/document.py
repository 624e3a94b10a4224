"""Content of a run's report: the summaries of its protocols, failures, notes, and the table of fit sizes."""

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
    """Return the content of the report on the results stored so far."""
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
    used = [kind for kind in SPLITS.values() if any(line[kind] for line in results.fitted)]
    counts = [Column(name, COUNT) for kind in used for name in (kind, f"of_{kind}")]
    lines = [{column: line[column.name] for column in (FITTED, NETWORK, SEED, *counts)} for line in results.fitted]
    caption = (
        "Number of images that each network was trained on and each detector was fitted on: training images, "
        "validation images (they select the best epoch of a network) and outlier images. The columns of_… give how "
        "many images the split has. 0: not fitted on this split. A detector that is fitted on fewer images than in its "
        "paper may do worse."
    )
    return [Table("fitted", "Number of images used for training and fitting", caption, lines)]
