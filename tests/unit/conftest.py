"""Fixtures of the unit tests."""

from tests.kit.data import oracle
from tests.kit.memory_provider import provider
