"""Fits from reductions: equal to fits on whole tables to the last bit, in any order of the parts; banks; memory."""

from __future__ import annotations

import copy
import itertools
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from farout import Activations, Panel, PostHoc, detectors
from farout.core import Reduction, Split, Summary
from farout.detectors import DN2, KNN, Gram, NNGuide
from farout.detectors.math.class_bounds import CLASSES, bound, extremes
from farout.detectors.panel.memory import Memory
from farout.detectors.panel.reduced import reduce_fit
from farout.detectors.panel.sweeps import compute_activations
from farout.detectors.panel.table import columns_of
from farout.rng import subset_indices
from helpers.panels import ALL, PERTURBING, images, network

TOTAL = 2100
NEEDS = frozenset({"logits", "features", "means", "grids", "grams"})
BOUNDED: list[PostHoc] = [
    Gram(variant="openood"),
    Gram(variant="openood-1.5", orders=(2, 1)),
    KNN(k=5, bank=70),
    DN2(layer=1, places="grid", bank=70),
    NNGuide(variant="openood"),
    NNGuide(bank=150),
]
REDUCED: list[PostHoc] = [Gram(), NNGuide(), *BOUNDED]


@pytest.fixture(scope="module")
def whole() -> Activations:
    """All rows that the detectors read, from the same batches as in a panel's fit."""
    return compute_activations(network(), images(TOTAL, 1), NEEDS)


def labels() -> Tensor:
    found = images(TOTAL, 1).labels
    assert found is not None
    return torch.from_numpy(found)


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Equal tensors, bit by bit; the states are not empty."""
    alike = (a.dtype == second[key].dtype and torch.equal(a, second[key]) for key, a in first.items())
    return bool(first) and first.keys() == second.keys() and all(alike)


@pytest.mark.parametrize("detector", [d for d in (*ALL, *PERTURBING, *BOUNDED) if d.fits_on == "train"], ids=repr)
def test_a_panels_fit_equals_that_on_the_whole_table(detector: PostHoc, whole: Activations) -> None:
    panel = Panel(network(), {"one": copy.deepcopy(detector)}).fit(images(TOTAL, 1))
    table = whole if detector.needs <= NEEDS | {"head"} else None
    assert table is not None
    assert same(panel.detectors["one"].state, copy.deepcopy(detector).fit(table, labels()).state)


@pytest.mark.parametrize("detector", REDUCED, ids=repr)
def test_parts_come_in_any_order_and_of_any_size(detector: PostHoc, whole: Activations) -> None:
    one, other = copy.deepcopy(detector), copy.deepcopy(detector)
    rng = np.random.default_rng(5)
    borders = [0, *np.sort(rng.choice(np.arange(1, TOTAL), 40, replace=False)), TOTAL]
    starts = list(itertools.pairwise(borders))
    computing, gathering = (reduce_fit(one, labels().numpy(), TOTAL, whole.head, Memory()) for _ in range(2))
    assert computing is not None
    assert gathering is not None
    for place in rng.permutation(len(starts)):  # computed by one process, gathered by another
        start, stop = starts[place]
        gathering.put(start, computing.columns(start, whole[start:stop]))
    gathering.fit(list(whole.grams))
    assert same(one.state, other.fit(whole, labels()).state)


def test_what_gram_keeps_is_a_tenth_of_the_rows_and_two_for_each_class(whole: Activations) -> None:
    reduced = reduce_fit(Gram(), None, TOTAL, whole.head, Memory())
    assert reduced is not None
    kept = sum(value.nbytes for value in reduced.columns(0, whole).values())
    whole_bytes = sum(rows.nbytes for rows in columns_of(whole, Gram.needs).values())
    assert kept < 0.11 * whole_bytes


@pytest.mark.parametrize("classes", [1, 3, 1000])
def test_extremes_have_the_bounds_of_all_points_and_are_not_more(classes: int) -> None:
    rng = torch.Generator().manual_seed(classes)
    members = torch.randint(classes, (200,), generator=rng)
    rows = torch.randn(200, 2, 3, generator=rng, dtype=torch.float64)
    few = extremes({CLASSES: members, "rows": rows})
    assert len(few["rows"]) <= min(200, 2 * len(members.unique()))
    for how, numpys in (("amin", np.min), ("amax", np.max)):
        found = bound(how, few[CLASSES], few["rows"], classes)
        for label in members.unique().tolist():
            np.testing.assert_array_equal(found[label], numpys(rows[members == label].numpy(), axis=0))


@dataclass(kw_only=True)
class Highest(PostHoc):
    """A user's detector with a summary of its own: the largest features, and how many rows there are."""

    needs: ClassVar[frozenset[str]] = frozenset({"features"})
    fits_on: ClassVar[Split | None] = "train"

    def fit(self, activations: Activations, labels: Tensor | None) -> Highest:
        return self.fit_reduced(activations, labels)

    def reduction(self, total: int, labels: Tensor | None) -> Reduction:
        return HighestReduction(self)

    def score(self, activations: Activations) -> Tensor:
        return (activations.features - self.fitted("highest")).amax(1).double()


class HighestReduction(Reduction):
    def __init__(self, detector: Highest) -> None:
        self.detector, self.rows = detector, np.arange(0)

    def summarize(self, start: int, part: Activations) -> Summary:
        return {"highest": part.features.amax(0), "count": torch.tensor(len(part))}

    def merge(self, first: Summary, second: Summary) -> Summary:
        return {
            "highest": first["highest"].maximum(second["highest"]),
            "count": first["count"] + second["count"],
        }

    def fit(self, rows: Activations, summary: Summary) -> None:
        assert len(rows) == 0
        self.detector.state = dict(summary)


def test_a_users_reduction_sees_every_row_once(whole: Activations) -> None:
    panel = Panel(network(), {"mine": Highest()}).fit(images(TOTAL, 1))
    state = panel.detectors["mine"].state
    assert state["count"].item() == TOTAL
    assert torch.equal(state["highest"], whole.features.amax(0))


# Banks


def test_a_bounded_bank_is_a_subset_drawn_with_a_fixed_seed(whole: Activations) -> None:
    rows = torch.from_numpy(subset_indices(TOTAL, 70))
    drawn = KNN(k=5).fit(whole[rows], None)
    bounded = KNN(k=5, bank=70).fit(whole, None)
    assert torch.equal(bounded.state["bank"], whole.features[rows])
    assert torch.equal(bounded.score(whole[:20]), drawn.score(whole[:20]))
    assert torch.equal(KNN(k=5, bank=TOTAL).fit(whole, None).state["bank"], whole.features)


def test_a_bounded_bank_is_in_label_and_identity_and_no_bound_is_as_before() -> None:
    assert (KNN().label, KNN(bank=70).label, NNGuide(bank=150).label) == ("knn", "knn(bank=70)", "nnguide(bank=150)")
    assert list(Panel(network(), [KNN(k=5, bank=70)]).detectors) == ["knn(bank=70)"]
    assert KNN(bank=70).identity()["params"] == {"k": 50, "search": "torch", "bank": 70}
    assert KNN().identity()["params"] == {"k": 50, "search": "torch"}


@pytest.mark.parametrize("name", ["knn", "dn2", "nnguide"])
@pytest.mark.parametrize(("bank", "error"), [(0, "bank"), (2.5, "bank"), (True, "bank")])
def test_a_bank_is_a_count(name: str, bank: object, error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        detectors.create(name, bank=bank)


def test_a_bank_holds_at_least_k_images() -> None:
    with pytest.raises(ValueError, match="k=50 needs at least that many images in its bank, got 20"):
        Panel(network(), [KNN(bank=20)]).fit(images(60, 1))


# Memory

TABLES = """
import resource, sys
import torch
from pathlib import Path
from farout.core import Activations
from farout.detectors.panel.memory import Memory
from farout.detectors.panel.table import Table

def used(field):
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(field))

rows = torch.arange(4096 * 512, dtype=torch.float32).view(4096, 512)  # 8 MiB
memory = Memory(lambda: Path(sys.argv[1]), limit=24 << 20)
tables = [Table(8192, memory=memory) for _ in range(3)]
before, most = used("RssAnon"), 0
for number, table in enumerate(tables):  # 3 tables of 2 columns, 96 MiB in all
    for start in (0, 4096):
        table.put(start, {"features": rows + number, "means:block": rows - number})
        most = max(most, used("RssAnon") - before)
for number, table in enumerate(tables):
    assert torch.equal(table.column("features")[4096:], rows + number)
    assert torch.equal(table.column("means:block")[:4096], rows - number)
memory.release()
assert torch.equal(tables[2].column("features")[:4096], rows + 2), "released pages come back"
print(most)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_all_columns_share_one_budget(tmp_path: object) -> None:
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")
    }  # no freed memory is kept
    done = subprocess.run(
        [sys.executable, "-c", TABLES, str(tmp_path)], env=plain, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # a column of 16 MiB of the 96 MiB, what is being written (16 MiB), and what the allocator keeps of it
    assert 12 < float(done.stdout) < 90
