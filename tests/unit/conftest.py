"""Fixtures of the unit tests."""

from tests.kit.data import oracle
from tests.kit.jms_provider import provider
