"""How the worst case is looked for: kernels, and the one loop."""

from farout.search.catalog import SEARCHES
from farout.search.metropolis import MetropolisHastings
from farout.search.random_search import RandomSearch
from farout.search.search import Search

__all__ = ["SEARCHES", "MetropolisHastings", "RandomSearch", "Search", "create", "names"]

names = SEARCHES.names
create = SEARCHES.create
