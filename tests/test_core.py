"""The contracts: sets and their subsets, activations, what counts as scores and as images, names and identities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from farout.core import Activations, Detector, ImageSet, NotFitted, PostHoc
from farout.detectors import EBO, KNN, MSP
from farout.scores import NonFiniteScores, as_scores, finite
from farout.tensors import CHUNK, as_images, as_indices, chunks


def numbered(total: int, name: str = "numbered", labels: bool = True) -> ImageSet:
    """Image i is gray i / 255 and has label i mod 3."""
    images = np.repeat(np.arange(total, dtype=np.uint8), 12).reshape(total, 2, 2, 3)
    return ImageSet.from_arrays(images, np.arange(total) % 3 if labels else None, name=name)


def shades(images: Tensor) -> list[int]:
    return [round(value * 255) for value in images[:, 0, 0, 0].tolist()]


@pytest.mark.parametrize(("total", "size"), [(0, 4), (1, 4), (4, 4), (9, 4), (130, CHUNK)])
def test_chunks_cover_the_range_once(total: int, size: int) -> None:
    parts = list(chunks(total, size))
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(total))
    assert all(part.stop - part.start == size for part in parts[:-1])


def test_a_set_is_read_in_chunks_and_in_order() -> None:
    batches = list(numbered(150))
    assert [len(batch) for batch in batches] == [64, 64, 22]
    assert shades(torch.cat(batches)) == list(range(150))


def test_a_subset_has_its_own_order_labels_and_name() -> None:
    subset = numbered(10).subset([7, 2, 2, 9], name="some")
    assert (len(subset), subset.name) == (4, "some")
    assert shades(subset.batch([0, 1, 2, 3])) == [7, 2, 2, 9]
    assert subset.labels is not None
    assert subset.labels.tolist() == [1, 2, 2, 0]
    again = subset.subset([3, 0])
    assert shades(again.batch([1, 0])) == [7, 9]
    assert again.name == "some"


def test_a_subset_without_labels_has_none() -> None:
    assert numbered(4, labels=False).subset([1]).labels is None


def test_a_limit_is_the_first_images() -> None:
    whole = numbered(10)
    assert shades(torch.cat(list(whole.limit(3)))) == [0, 1, 2]
    assert whole.limit(None) is whole
    assert whole.limit(10) is whole
    assert len(whole.limit(0)) == 0
    with pytest.raises(ValueError, match="limit must be a whole number of at least 0 or None, got -1"):
        whole.limit(-1)


def test_fingerprints_follow_content_and_not_the_name() -> None:
    whole = numbered(10)
    assert whole.fingerprint == numbered(10, name="other").fingerprint
    assert whole.subset([1, 2]).fingerprint == numbered(10).subset(np.array([1, 2], np.int32)).fingerprint
    others = [
        whole,
        numbered(11),
        numbered(10, labels=False),
        whole.subset([1, 2]),
        whole.subset([2, 1]),
        whole.limit(9),
    ]
    assert len({images.fingerprint for images in others}) == len(others)


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ([0, 10], IndexError, r"indices run from 0 to 10, the set has 10 images \(0 to 9\)"),
        ([-1], IndexError, "indices run from -1 to -1"),
        ([0.0], TypeError, "indices must be integers, got float64"),
        ([True, False], TypeError, "indices must be integers, got bool"),
    ],
)
def test_wrong_places_are_refused(indices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        numbered(10).batch(indices)
    with pytest.raises(error, match=message):
        numbered(10).subset(indices)


def test_places_are_whole_numbers_of_any_kind() -> None:
    for given in ([3, 1], np.array([3, 1], np.uint8), torch.tensor([3, 1]), (3, 1)):
        found = as_indices(given, 4)
        assert found.tolist() == [3, 1]
        assert found.dtype == np.int64
    assert as_indices([], 0).tolist() == []


def test_a_set_says_what_it_is() -> None:
    assert repr(numbered(12)) == "<ArraySet 'numbered': 12 images of 3×2×2, 3 classes>"


def test_activations_are_cut_together() -> None:
    whole = Activations(torch.arange(10.0)[:, None], torch.arange(10.0)[:, None] * 2, {"b": torch.arange(10) * 3})
    part = whole[4:6]
    assert (part.logits.tolist(), part.features.tolist(), part.blocks["b"].tolist()) == (
        [[4], [5]],
        [[8], [10]],
        [12, 15],
    )
    assert [chunk.blocks["b"].tolist() for chunk in whole.chunks(4)] == [[0, 3, 6, 9], [12, 15, 18, 21], [24, 27]]


@pytest.mark.parametrize(
    "given",
    [
        [1, 2.5],
        np.array([1, 2.5], np.float32),
        torch.tensor([1, 2.5], dtype=torch.float16),
        torch.tensor([1, 2.5], dtype=torch.bfloat16),
        torch.tensor([1, 2.5], requires_grad=True),
    ],
)
def test_scores_become_float64(given: Any) -> None:
    found = as_scores(given, 2, "mine")
    assert found.dtype == np.float64
    assert found.tolist() == [1, 2.5]


def test_whole_numbers_are_scores_too() -> None:
    assert as_scores(torch.tensor([3, -4]), 2, "mine").tolist() == [3.0, -4.0]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (torch.zeros(3), ValueError, r"mine returned scores of shape \(3,\) for 2 images, expected \(2,\)"),
        (None, ValueError, r"mine returned scores of shape \(\)"),
        (["a", "b"], TypeError, "mine returned <U1 scores, expected real numbers"),
        ([None, 1.0], TypeError, "mine returned object scores"),
        (torch.tensor([True, False]), TypeError, "mine returned bool scores"),
    ],
)
def test_what_is_no_score_is_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_scores(given, 2, "mine")


def test_finite_scores_pass_and_others_are_counted() -> None:
    good = np.array([1.0, -1e300])
    assert finite(good, "a", "toy") is good
    with pytest.raises(NonFiniteScores, match="b gave 1 NaN and 2 infinite scores among 4 on toy"):
        finite(np.array([np.nan, np.inf, 0, -np.inf]), "b", "toy")


def test_images_become_float32_and_keep_their_values() -> None:
    given = np.linspace(0, 1, 24).reshape(2, 3, 2, 2)
    found = as_images(given)
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), given.astype(np.float32))
    assert as_images(torch.full((1, 1, 2, 2), 1.0005)).max() > 1, "rounding is forgiven"
    assert as_images(torch.empty(0, 3, 2, 2)).shape == (0, 3, 2, 2)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (torch.zeros(2, 2), ValueError, r"expected images \[B, C, H, W\] with 1 or 3 channels, got shape \(2, 2\)"),
        (torch.zeros(1, 4, 2, 2), ValueError, r"got shape \(1, 4, 2, 2\)$"),
        (torch.zeros(1, 8, 8, 3), ValueError, r"got shape \(1, 8, 8, 3\); channels come first"),
        ("cifar10", TypeError, "got 'cifar10'; farout.load reads sets"),
        (torch.zeros(1, 3, 2, 2, dtype=torch.int64), TypeError, "got torch.int64; divide 8-bit images by 255"),
        (torch.full((1, 3, 2, 2), 1.01), ValueError, "got values from 1.01 to 1.01"),
        (torch.full((1, 3, 2, 2), -0.002), ValueError, "got values from -0.002"),
        (torch.full((1, 3, 2, 2), torch.inf), ValueError, "got values from inf"),
    ],
)
def test_what_is_no_image_is_refused(given: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_images(given)


def test_classes_are_called_what_they_say_or_by_their_own_name() -> None:
    class Plain(Detector): ...

    class Named(Detector):
        name = "given"

    class Below(Named): ...

    class Reading(PostHoc):
        def score(self, activations: Activations) -> Tensor:
            return activations.logits[:, 0]

    class Other(KNN): ...

    assert [cls.name for cls in (Plain, Named, Below, Reading, Other, KNN)] == [
        "Plain",
        "given",
        "Below",
        "Reading",
        "Other",
        "knn",
    ]


def test_a_detector_without_score_says_what_to_write() -> None:
    class Empty(Detector): ...

    with pytest.raises(NotImplementedError, match=r"Empty must define score\(images\) -> one score per image"):
        Empty().score(torch.zeros(1, 3, 2, 2))


def test_the_identity_holds_every_parameter() -> None:
    assert KNN().identity() == {"name": "knn", "version": 1, "params": {"k": 50, "search": "torch"}}
    assert EBO(temperature=2.0).identity() == {"name": "ebo", "version": 1, "params": {"temperature": 2.0}}
    assert MSP().identity() == {"name": "msp", "version": 1, "params": {}}


def test_what_was_fitted_is_no_parameter() -> None:
    detector = KNN(k=1).fit(Activations(torch.zeros(2, 1), torch.ones(2, 2)), None)
    assert detector.params == {"k": 1, "search": "torch", "bank": None}
    assert detector == KNN(k=1)
    assert repr(detector) == "KNN(k=1, search='torch', bank=None)"


def test_a_users_class_is_identified_by_its_source_too() -> None:
    @dataclass(kw_only=True)
    class Mine(PostHoc):
        k: int = 1

        def score(self, activations: Activations) -> Tensor:
            return activations.logits[:, 0]

    class Changed(Mine):
        name: ClassVar[str] = "Mine"

        def score(self, activations: Activations) -> Tensor:
            return activations.logits[:, 1]

    assert Mine().identity() == Mine().identity()
    assert Mine().identity()["code"] != Changed().identity()["code"]
    assert {key: Mine().identity()[key] for key in ("name", "version", "params")} == {
        "name": "Mine",
        "version": 1,
        "params": {"k": 1},
    }


def test_what_is_not_fitted_says_on_which_split_to() -> None:
    with pytest.raises(NotFitted, match="knn is not fitted: call fit on the inliers' train split first"):
        KNN().fitted("bank")


def test_scores_do_not_keep_the_table_that_they_are_a_column_of() -> None:
    table = torch.arange(12, dtype=torch.float64).view(4, 3)
    scores = as_scores(table[:, 1], 4, "column")
    assert scores.base is None
    table.zero_()
    assert scores.tolist() == [1, 4, 7, 10]
