"""Images in a page."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from farout.report.figures.images import png


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_the_pixels(channels: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (6, 5, channels), np.uint8)
    head, _, content = png(image).partition(",")
    assert head == "data:image/png;base64"
    again = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))
    np.testing.assert_array_equal(again.reshape(image.shape), image)
