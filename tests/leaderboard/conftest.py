"""One packed run for all tests of the leaderboard."""

from pathlib import Path

import pytest

from helpers.submissions import submit


@pytest.fixture(scope="session")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission that nobody has tampered with; tests work on copies."""
    return submit(tmp_path_factory.mktemp("submitted"))
