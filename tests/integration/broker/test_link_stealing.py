"""A client id that another connection takes over, and its durable subscription."""

from __future__ import annotations

import pytest

from pyjms.errors import InvalidClientIDException, JMSException
from pyjms.jms.destination import Topic
from pyjms.transport.registry import create_transport
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient

T = Topic("news")


@pytest.mark.fact("activemq-broker T17")
@pytest.mark.parametrize("option", ["", "?allowLinkStealing=false", "?allowLinkStealing=true"])
async def test_a_durable_subscription_follows_the_stolen_link(
    raw_client: type[RawClient], option: str
) -> None:
    service = BrokerService("links", persistent=False)
    door = service.add_connector(f"tcp://127.0.0.1:0{option}")
    allowed = option.endswith("true")
    async with EmbeddedTestBroker(service):
        old = raw_client(create_transport(door.connect_uri))
        await old.open("reader")
        await old.consumer(T, subscription_name="s")
        await old.send(T, "1")
        await old.message()
        with pytest.raises(JMSException, match=r"^Durable consumer is in use for client: reader"):
            await old.consumer(T, subscription_name="s")
        new = raw_client(create_transport(door.connect_uri))
        if not allowed:
            with pytest.raises(InvalidClientIDException, match="already connected from"):
                await new.open("reader")
        else:
            await new.open("reader")
            await new.consumer(T, subscription_name="s")
            again = await new.dispatched()
            assert again.message is not None
            assert again.message.content == b"\0\0\0\0011"
            assert service.region_broker.destinations()[T].statistics.consumers == 1
            await new.close()
        await new.cut()
        await old.cut()
