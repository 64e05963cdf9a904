"""Fixtures of this folder's tests."""

from collections.abc import Iterator

import pytest

from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from tests.kit.brokers.comparison import name
from tests.kit.brokers.managed import ManagedBroker, managed_broker
from tests.kit.tls import files, make_files


@pytest.fixture
def managed(request: pytest.FixtureRequest) -> Iterator[ManagedBroker]:
    """A broker with an OpenWire connector, in a thread, and its management URL."""
    service = BrokerService("managed", persistent=False, web=WebConfiguration(port=0))
    service.add_connector("tcp://127.0.0.1:0", name="openwire")
    with managed_broker(service) as broker:
        yield broker
