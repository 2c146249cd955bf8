"""The databases of the tests of prices serve here too."""

from tests.pricing.conftest import database, postgres, store

__all__ = ["database", "postgres", "store"]
