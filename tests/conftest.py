"""Settings for all tests."""

from pathlib import Path

import pytest
import torch

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_configure() -> None:
    torch.set_num_threads(1)  # tests run side by side; two threads each would crawl


@pytest.fixture
def real_data() -> Path:
    """The folder with real images and weights; tests that need it are skipped where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip("no real data here")
    return REAL_DATA
