"""Every way of naming a destination, for every door and every kind of user: all refuse the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyjms.jms.destination import parse_destination
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConnectionInfo, DestinationInfo
from pyjms_broker.management.statistics import StatisticsBrokerPlugin
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.security import AuthorizationSettings
from pyjms_broker.web import WebConfiguration
from tests.kit.brokers.doors import (
    ALLOWED,
    BROWSE,
    CONSUME,
    NO_LOGIN,
    NO_NAME,
    OTHER,
    REFUSED,
    SEND,
    Door,
    bridge,
    openwire,
    rest,
    stomp,
    stomp_over_websocket,
)
from tests.kit.brokers.security import simple, user
from tests.kit.clients.raw import RawClient

READ, WRITE, OWN = "read", "write", "own"
USERS: dict[str, frozenset[str]] = {
    "stranger": frozenset(),
    "reader": frozenset({READ}),
    "writer": frozenset({WRITE}),
    "root": frozenset({READ, WRITE, OWN}),
}
"""The rights of each user."""
USERS_OF_REST = ("stranger", "writer")
"""Its requests make a connection each, and test_access_matrix.py of the web has the others."""
TEMPORARY = "temp-queue://ID:owner:1:1"
_ALL: dict[str, str | None] = {SEND: WRITE, CONSUME: READ, BROWSE: READ}
_NO_BROWSER: dict[str, str | None] = {SEND: WRITE, CONSUME: READ}
_TEMPORARY: dict[str, str | None] = {SEND: WRITE, CONSUME: OWN}
_CREATED: dict[str, str | None] = {SEND: OWN, CONSUME: OWN}
"""A temporary destination that is not there, and would be created with the rights on the name."""
_PATTERN: dict[str, str | None] = {CONSUME: READ}
NAMES: dict[str, dict[str, str | None]] = {
    "queue://s.q": _ALL,
    "topic://s.t": _NO_BROWSER,
    "queue://ActiveMQ.DLQ": _ALL,
    "topic://ActiveMQ.Advisory.Queue": _NO_BROWSER,
    "topic://VirtualTopic.s": _NO_BROWSER,
    "queue://Consumer.A.VirtualTopic.s": _ALL,
    "queue://pub.q": {SEND: None, CONSUME: None, BROWSE: None},
    # composites, whatever their first member is
    "queue://pub.q,s.q": _NO_BROWSER,
    "queue://s.q,pub.q": _NO_BROWSER,
    "queue://pub.q,topic://s.t": _NO_BROWSER,
    "queue://pub.q,temp-topic://ActiveMQ.Scheduler.Management": {SEND: OWN, CONSUME: READ},
    "queue://pub.q,ActiveMQ.Statistics.Broker": _NO_BROWSER,
    f"queue://pub.q,{TEMPORARY}": {SEND: None, CONSUME: OWN},
    # patterns
    "queue://s.*": _PATTERN,
    "queue://s.>": _PATTERN,
    "topic://s.>": _PATTERN,
    "topic://ActiveMQ.>": _PATTERN,
    "queue://>": {CONSUME: OWN},
    # options, which are no part of the name
    "queue://s.q?consumer.prefetchSize=1": _NO_BROWSER,
    # what the broker itself answers, of any kind and in any case
    "topic://ActiveMQ.Scheduler.Management": _NO_BROWSER,
    "temp-topic://ActiveMQ.Scheduler.Management": _TEMPORARY,
    "topic://activemq.scheduler.management": _NO_BROWSER,
    "temp-topic://activemq.scheduler.management": _TEMPORARY,
    "queue://ActiveMQ.Statistics.Broker": _NO_BROWSER,
    "topic://ActiveMQ.Statistics.Broker": _NO_BROWSER,
    "temp-queue://ActiveMQ.Statistics.Broker": _TEMPORARY,
    "temp-topic://ActiveMQ.Statistics.Broker": _TEMPORARY,
    "queue://ActiveMQ.Statistics.Subscription": _NO_BROWSER,
    "temp-queue://activemq.statistics.destination.s.q": _TEMPORARY,
    "queue://PyJMS.Ranges": _NO_BROWSER,
    "temp-queue://PyJMS.Ranges": _NO_BROWSER,
    "queue://PyJMS.Scheduled": _NO_BROWSER,
    "temp-queue://PyJMS.Scheduled": _NO_BROWSER,
    "temp-topic://ActiveMQ.Advisory.Queue": _CREATED,
    # temporary destinations: open to senders, consumed by their connection and by administrators
    TEMPORARY: {SEND: None, CONSUME: OWN, BROWSE: OWN},
}
"""The right that each action needs; None: none."""
DOORS: dict[str, tuple[str, Door]] = {
    "OpenWire": ("tcp", openwire),
    "OpenWire over WebSocket": ("ws", openwire),
    "a bridge": ("tcp", bridge),
    "STOMP": ("stomp", stomp),
    "STOMP over WebSocket": ("ws", stomp_over_websocket),
    "REST": ("http", rest),
}
EXISTING = [
    parse_destination(name)
    for name in (*NAMES, "queue://pub.answers", "queue://activemq.statistics.destination.s.q")
    if not name.startswith("temp-") and not set(",*>?") & set(name) and "PyJMS." not in name
]


def entries() -> list[dict[str, str]]:
    guarded = ("s.>", "VirtualTopic.>", "Consumer.*.>", "ActiveMQ.>", "activemq.>", "PyJMS.>")
    found = [
        {"destination": f"{kind}{name}", "read": READ, "write": WRITE, "admin": OWN}
        for kind in ("", "topic://")
        for name in guarded
    ]
    for kind in ("", "topic://"):
        found.append({"destination": f"{kind}>", "read": OWN, "write": OWN, "admin": OWN})
        found.append({"destination": f"{kind}pub.>", "read": "*", "write": "*", "admin": "*"})
    for kind in ("TempQueue", "TempTopic"):  # pyjms's client, of which REST's are made, needs them
        name = f"topic://ActiveMQ.Advisory.{kind}"
        found.append({"destination": name, "read": "*", "write": "*", "admin": "*"})
    return found


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn has no other


@asynccontextmanager
async def broker() -> AsyncIterator[dict[str, str]]:
    """Start a broker with all doors; yield their addresses by scheme."""
    users = simple(*(user(name, ",".join(rights)) for name, rights in USERS.items()))
    rights = AuthorizationSettings.model_validate({"entries": entries()})
    service = BrokerService(
        "doors",
        persistent=False,
        scheduler_support=True,
        plugins=[users, rights, StatisticsBrokerPlugin()],
        destinations=EXISTING,
        web=WebConfiguration(port=0),
    )
    connectors = [service.add_connector(f"{kind}://127.0.0.1:0") for kind in ("tcp", "ws", "stomp")]
    async with service:
        owner = RawClient(create_transport(connectors[0].connect_uri))
        owner.take_name("ID:owner:1")
        await owner.transport.start()
        await owner.request(ConnectionInfo(owner.connection_id, "owner", "secret", "stranger"))
        await owner.request(DestinationInfo(owner.connection_id, parse_destination(TEMPORARY)))
        url = service.website.url
        assert url is not None
        found = {each.uri.scheme: each.connect_uri for each in connectors}
        yield found | {"http": url}
        await owner.cut()


def expected(rights: frozenset[str], need: str | None) -> set[str]:
    """Return the outcomes that are right; what a right does not hinder may fail otherwise."""
    return {REFUSED} if need is not None and need not in rights else {ALLOWED, OTHER}


@pytest.mark.fact("activemq-edges SE30")
@pytest.mark.fact("activemq-edges SE35")
@pytest.mark.parametrize("door", DOORS)
async def test_each_name_needs_the_same_right_at_each_door(door: str) -> None:
    scheme, opened = DOORS[door]
    wrong, unnamed = [], set()
    async with broker() as addresses:
        for user_name in USERS_OF_REST if door == "REST" else USERS:
            rights = USERS[user_name]
            async with opened(addresses[scheme], user_name) as attempt:
                for name, action in ((n, each) for n, needs in NAMES.items() for each in needs):
                    found = await attempt(action, name)
                    if found == NO_NAME:
                        unnamed.add(name)
                    elif found not in expected(rights, NAMES[name][action]):
                        wrong.append((user_name, action, name, found))
    assert not wrong, "\n".join(map(str, wrong))
    assert len(unnamed) < len(NAMES) / 2


@pytest.mark.fact("activemq-edges SE1")
@pytest.mark.parametrize("door", DOORS)
async def test_nobody_sends_or_consumes_without_a_login(door: str) -> None:
    scheme, opened = DOORS[door]
    async with broker() as addresses:
        for name in ("queue://pub.q", "temp-topic://ActiveMQ.Scheduler.Management", TEMPORARY):
            for action in (SEND, CONSUME):
                async with opened(addresses[scheme], None) as attempt:  # STOMP ends it each time
                    assert await attempt(action, name) == NO_LOGIN
