"""The embedded test broker's URL for clients whose redeliveries do not wait."""

from __future__ import annotations

import pytest

from pyjms.support.embedded_broker import EmbeddedBroker

AT_ONCE = "jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0"


@pytest.fixture
def pyjms_broker_url(jms_broker: EmbeddedBroker) -> str:
    return f"{jms_broker.url}&{AT_ONCE}"
