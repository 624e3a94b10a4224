"""Settings for all tests."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from farout import plugins
from farout.registry import KINDS, registry_of

CACHE = tempfile.TemporaryDirectory()
REAL_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_configure() -> None:
    torch.set_num_threads(1)  # tests run side by side; two threads each would crawl
    os.environ.setdefault("FAROUT_DATA", CACHE.name)  # surveys and memos of tests do not belong in the user's cache


@pytest.fixture(autouse=True, scope="module")
def _registered_by_a_file() -> Iterator[None]:
    """Forget after each file what its fixtures have registered."""
    with _restored_registries():
        yield


@pytest.fixture(autouse=True)
def _registered_by_a_test() -> Iterator[None]:
    """Forget after each test what it has registered."""
    with _restored_registries():
        yield


@contextmanager
def _restored_registries() -> Iterator[None]:
    """Forget at the end what is registered inside, and the plugins that did it, so that they are imported again."""
    registries = [registry_of(kind) for kind in KINDS]
    before, named = [dict(registry._makers) for registry in registries], dict(plugins._loaded)
    yield
    for registry, makers in zip(registries, before, strict=True):
        registry._makers = makers
    for path in plugins._loaded.keys() - named.keys():
        module = plugins._loaded.pop(path)
        for name in [name for name, loaded in sys.modules.items() if loaded is module]:
            del sys.modules[name]


@pytest.fixture
def real_data() -> Path:
    """The folder with real images and weights; tests that need it are skipped where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip("no real data here")
    return REAL_DATA
