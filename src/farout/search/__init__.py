"""Searches for worst cases: kernels that take one step, and the one loop that runs them."""

from farout.search.catalog import SEARCHES
from farout.search.coordinate import CoordinateDescent
from farout.search.evolution import EvolutionStrategy
from farout.search.metropolis import MetropolisHastings
from farout.search.random_search import RandomSearch
from farout.search.search import Info, Score, Search
from farout.search.zeroth_order import ZerothOrder
from farout.variations.space import Space

__all__ = [
    "SEARCHES",
    "CoordinateDescent",
    "EvolutionStrategy",
    "Info",
    "MetropolisHastings",
    "RandomSearch",
    "Score",
    "Search",
    "Space",
    "ZerothOrder",
    "create",
    "names",
]

names = SEARCHES.names
create = SEARCHES.create
