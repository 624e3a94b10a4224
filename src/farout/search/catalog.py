"""Registry of the searches."""

from farout import aliases
from farout.registry import Registry
from farout.search.search import Search

SEARCHES: Registry[Search] = Registry("search", Search, aliases.SEARCHES)
