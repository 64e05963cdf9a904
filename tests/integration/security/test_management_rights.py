"""The rights on destinations are those of clients: operators manage all destinations."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.security import simple, user
from tests.kit.web.sites import web_broker

BROKER = "org.apache.activemq:type=Broker,brokerName=managed"
FIRST = f"{BROKER},destinationType=Queue,destinationName=first"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn has no other


async def test_an_administrator_may_do_everything_where_rights_are_given_to_clients() -> None:
    rights = AuthorizationSettings.model_validate(
        {"entries": [{"destination": "orders", "read": "shop", "write": "shop", "admin": "shop"}]}
    )
    users = simple(user("ann", "admins"), user("joe", "shop"))
    plugins = (users, rights)
    async with (
        web_broker(*plugins, broker_name="managed") as broker,
        broker.client("ann") as ann,
    ):
        for view, operation, *arguments in (
            (BROKER, "addQueue", "first"),
            (BROKER, "addQueue", "second"),
            (BROKER, "addTopic", "news"),
            (FIRST, "sendTextMessage(java.lang.String)", "hello"),
            (FIRST, "copyMatchingMessagesTo(java.lang.String,java.lang.String)", "", "second"),
            (FIRST, "moveMatchingMessagesTo(java.lang.String,java.lang.String)", "", "third"),
            (FIRST, "purge"),
            (BROKER, "createDurableSubscriber", "client", "nightly", "news", ""),
            (BROKER, "destroyDurableSubscriber", "client", "nightly"),
            (BROKER, "removeTopic", "news"),
            (BROKER, "removeQueue", "first"),
        ):
            request = {
                "type": "exec",
                "mbean": view,
                "operation": operation,
                "arguments": arguments,
            }
            answer = (await ann.post("/api/jolokia", json=request)).json()
            assert answer["status"] == 200, answer
        found = broker.service.region_broker.destinations()
        sizes = [found[Queue(name)].statistics.messages for name in ("second", "third")]
        assert sizes == [1, 1]
        assert not {Queue("first"), Topic("news")} & found.keys()
