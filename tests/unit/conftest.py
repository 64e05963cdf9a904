"""Fixtures of the unit tests."""

from tests.kit.brokers.matching import matched
from tests.kit.clients.jms_provider import provider
from tests.kit.data import oracle
