"""Opening of what a study names: image sets and networks with existing weights. Another opener may stand in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from farout.core import ImageSet
from farout.data import load
from farout.networks import Network, create, load_weights, restrict
from farout.study.spec import DataSpec

if TYPE_CHECKING:
    from farout.study.sources.networks import StoredNetwork


class Opener:
    """Opens image sets and networks from this machine."""

    def images(self, spec: DataSpec) -> ImageSet:
        """Return the images of an entry of a study."""
        return load(spec.name, spec.split, limit=spec.limit, **spec.options)

    def network(self, source: StoredNetwork) -> Network:
        """Return a network with its existing weights."""
        spec = source.spec
        network = create(
            spec.name, source.classes, source.side, source.channels,
            pretrained=spec.pretrained, mean=spec.mean, std=spec.std, **spec.params,
        )  # fmt: skip
        if spec.weights is not None:
            assert isinstance(spec.weights, str)
            load_weights(network, spec.weights)
        return restrict(network, source.kept) if source.kept else network

    def digest(self, source: StoredNetwork) -> str:
        """Return the digest of a network with its existing weights."""
        return source.preview().digest


_opener: ContextVar[Opener] = ContextVar("opener", default=Opener())  # noqa: B039 it holds no state


def current_opener() -> Opener:
    """Return the opener in use."""
    return _opener.get()


@contextmanager
def opened_by(opener: Opener) -> Iterator[None]:
    """Use this opener within the block."""
    from farout.study.sources.networks import forget_loaded

    token = _opener.set(opener)
    forget_loaded()
    try:
        yield
    finally:
        _opener.reset(token)
        forget_loaded()
