"""The searches by name."""

from farout.registry import Registry
from farout.search.search import Search

SEARCHES: Registry[Search] = Registry("search")
