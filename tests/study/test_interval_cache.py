"""Kept bootstrap intervals: equal to computed ones, and never used for other scores or after damage."""

from functools import partial

import numpy as np
import pytest

from farout import metrics
from farout.metrics import bootstrap_intervals
from farout.study import interval_cache
from farout.study.interval_cache import FILE, IntervalCache
from farout.study.records import read_verified_json, write_verified_json

METRICS = {"fpr": metrics.fpr_at_95_id_recall, "aupr": partial(metrics.aupr, positive="inlier")}


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    return rng.normal(size=60), rng.normal(1, size=50)


@pytest.fixture
def computed(monkeypatch):
    """Names of the metrics of every bootstrap that is computed."""
    calls = []

    def counted(metrics, *args, **options):
        calls.append(sorted(metrics))
        return bootstrap_intervals(metrics, *args, **options)

    monkeypatch.setattr(interval_cache, "bootstrap_intervals", counted)
    return calls


def _intervals(root, x, y, **options):
    cache = IntervalCache(root)
    found = cache.bootstrap(METRICS, x, y, resamples=50, **options)
    cache.save()
    return found


def test_the_second_reading_computes_nothing_and_gives_the_same_digits(tmp_path, scores, computed):
    expected = bootstrap_intervals(METRICS, *scores, resamples=50)
    assert _intervals(tmp_path, *scores) == expected
    assert _intervals(tmp_path, *scores) == expected
    assert computed == [["aupr", "fpr"]]


def test_other_scores_copies_or_resamples_are_computed_anew(tmp_path, scores, computed):
    x, y = scores
    changed = x.copy()
    changed[0] += 1e-9
    _intervals(tmp_path, x, y)
    assert _intervals(tmp_path, changed, y) == bootstrap_intervals(METRICS, changed, y, resamples=50)
    paired = _intervals(tmp_path, x, y, copied=np.arange(50))
    assert paired == bootstrap_intervals(METRICS, x, y, resamples=50, copied=np.arange(50))
    assert len(computed) == 3


def test_tables_of_one_report_share_what_is_computed(tmp_path, scores, computed):
    cache = IntervalCache(tmp_path)
    assert cache.bootstrap(METRICS, *scores, resamples=50) == cache.bootstrap(METRICS, *scores, resamples=50)
    assert len(computed) == 1


def test_a_report_that_did_not_end_keeps_what_it_computed_and_what_was_there(tmp_path, scores, computed):
    x, y = scores
    _intervals(tmp_path, x, y)
    begun = IntervalCache(tmp_path)
    begun.bootstrap(METRICS, y, x, resamples=50)
    begun.save(finished=False)
    later = IntervalCache(tmp_path)
    later.bootstrap(METRICS, x, y, resamples=50)
    later.bootstrap(METRICS, y, x, resamples=50)
    assert len(computed) == 2
    _intervals(tmp_path, y, x)
    assert len(read_verified_json(tmp_path / FILE)) == len(METRICS)


@pytest.mark.parametrize("damage", [lambda text: text[:-20], lambda text: text.replace("0.", "0.1", 1), lambda _: "[]"])
def test_a_damaged_file_counts_as_absent_and_is_replaced(tmp_path, scores, computed, damage):
    expected = _intervals(tmp_path, *scores)
    (tmp_path / FILE).write_text(damage((tmp_path / FILE).read_text()))
    assert _intervals(tmp_path, *scores) == expected
    assert _intervals(tmp_path, *scores) == expected
    assert len(computed) == 2


@pytest.mark.parametrize("bounds", [[2.0, 3.0], [0.0], "text", [None, 1.0], [float("nan"), 1.0]])
def test_bounds_that_cannot_be_those_of_the_scores_are_not_used(tmp_path, scores, computed, bounds):
    expected = _intervals(tmp_path, *scores)
    kept = read_verified_json(tmp_path / FILE)
    write_verified_json(tmp_path / FILE, dict.fromkeys(kept, bounds))
    assert _intervals(tmp_path, *scores) == expected
    assert len(computed) == 2


def test_a_symbolic_link_is_neither_followed_nor_an_obstacle(tmp_path, scores):
    outside, root = tmp_path / "outside.json", tmp_path / "run"
    root.mkdir()
    outside.write_text("private")
    (root / FILE).symlink_to(outside)
    assert _intervals(root, *scores) == bootstrap_intervals(METRICS, *scores, resamples=50)
    assert outside.read_text() == "private"
