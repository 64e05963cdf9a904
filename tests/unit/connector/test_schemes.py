"""Which schemes connectors accept."""

from __future__ import annotations

import logging

import pytest

from pyjms.errors import ConfigurationException
from pyjms.transport.unsupported import UNSUPPORTED
from pyjms.transport.uri import COMPOSITE_SCHEMES
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker


@pytest.mark.parametrize("scheme", UNSUPPORTED)
def test_a_refused_scheme_says_why_and_what_to_use_instead(scheme: str) -> None:
    is_composite = scheme in COMPOSITE_SCHEMES
    url = f"{scheme}:(tcp://127.0.0.1:0)" if is_composite else f"{scheme}://127.0.0.1:0"
    with pytest.raises(ConfigurationException) as caught:
        BrokerService("schemes", persistent=False).add_connector(url)
    assert caught.value.reason.endswith(UNSUPPORTED[scheme].reason)
    assert caught.value.hint == UNSUPPORTED[scheme].hint


@pytest.mark.parametrize("scheme", ["auto", "auto+nio"])
async def test_auto_accepts_openwire_and_says_that_it_detects_nothing_else(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service = BrokerService("schemes", persistent=False)
    connector = service.add_connector(f"{scheme}://127.0.0.1:0?auto.protocols=default", name="c")
    async with EmbeddedTestBroker(service):
        assert connector.connect_uri.startswith("tcp://127.0.0.1:")
    assert caplog.text.count("Connector c accepts OpenWire only") == 1


@pytest.mark.parametrize("option", ["auto.protocols=default,stomp", "auto.stomp.x=1"])
def test_auto_refuses_protocols_that_it_does_not_speak(option: str) -> None:
    with pytest.raises(ConfigurationException, match="stomp"):
        BrokerService("schemes", persistent=False).add_connector(f"auto://127.0.0.1:0?{option}")
