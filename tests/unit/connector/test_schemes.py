"""Which schemes connectors accept."""

from __future__ import annotations

import pytest

from pyjms.errors import ConfigurationException
from pyjms.transport.registry import UNSUPPORTED
from pyjms.transport.uri import COMPOSITE_SCHEMES
from pyjms_broker.service import BrokerService


@pytest.mark.parametrize("scheme", UNSUPPORTED)
def test_a_refused_scheme_says_why_and_what_to_use_instead(scheme: str) -> None:
    is_composite = scheme in COMPOSITE_SCHEMES
    url = f"{scheme}:(tcp://127.0.0.1:0)" if is_composite else f"{scheme}://127.0.0.1:0"
    with pytest.raises(ConfigurationException) as caught:
        BrokerService("schemes", persistent=False).add_connector(url)
    assert caught.value.reason.endswith(UNSUPPORTED[scheme].reason)
    assert caught.value.hint == UNSUPPORTED[scheme].hint


@pytest.mark.parametrize("option", ["auto.protocols=default,xmpp", "auto.stomp.x=1", "auto.x=1"])
def test_auto_refuses_what_it_does_not_know(option: str) -> None:
    with pytest.raises(ConfigurationException, match=r"x"):
        BrokerService("schemes", persistent=False).add_connector(f"auto://127.0.0.1:0?{option}")
