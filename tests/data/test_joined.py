"""Several sets, one after the other."""

import numpy as np
import pytest
import torch

import farout
from farout.data.joined import Joined


def images(values: list[float], side: int = 2) -> farout.ImageSet:
    return farout.ImageSet.from_arrays(
        np.array(values, np.float32)[:, None, None, None].repeat(side, 2).repeat(side, 3)
    )


def test_images_come_from_their_own_set_in_any_order() -> None:
    joined = Joined([images([0.0, 0.2]), images([0.4]), images([0.6, 0.8, 1.0])])
    assert len(joined) == 6
    found = joined.batch([5, 0, 2, 3, 2, 1])[:, 0, 0, 0]
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0, 0.4, 0.6, 0.4, 0.2]), atol=1 / 255, rtol=0)


def test_the_fingerprint_is_that_of_the_parts_in_their_order() -> None:
    a, b = images([0.0, 0.2]), images([0.4])
    assert Joined([a, b]).fingerprint == Joined([images([0.0, 0.2]), images([0.4])]).fingerprint
    assert Joined([a, b]).fingerprint != Joined([b, a]).fingerprint


def test_sets_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="expected sets of one shape"):
        Joined([images([0.0]), images([0.0], side=3)])
