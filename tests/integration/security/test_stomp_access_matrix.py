"""Every operation of every role over STOMP. (activemq-edges SE4, SE5)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.kit.brokers.access_matrix import (
    ADMIN,
    DESTINATIONS,
    READ,
    RIGHTS,
    ROLES,
    USERS,
    WRITE,
    verb_of,
)
from tests.kit.stomp.client import StartStomp, StompClient

READS, WRITES, CREATES = ("read from", READ), ("write to", WRITE), ("create", ADMIN)
Ask = Callable[[StompClient, str], Awaitable[str]]


def send(destination: str) -> Ask:
    async def ask(client: StompClient, name: str) -> str:
        return await outcome(client, "SEND", destination.format(name))

    return ask


def subscribe(destination: str, **headers: str) -> Ask:
    given = {name.replace("_", "-"): value for name, value in headers.items()}

    async def ask(client: StompClient, name: str) -> str:
        return await outcome(client, "SUBSCRIBE", destination.format(name), id="s", **given)

    return ask


async def outcome(client: StompClient, command: str, destination: str, **headers: str) -> str:
    frame = await client.ask(command, {"destination": destination, **headers}, b"")
    return "allowed" if frame.command == "RECEIPT" else frame.headers["message"]


DURABLE = {"activemq.subscriptionName": "s"}
OPERATIONS: dict[str, tuple[Ask, tuple[tuple[str, str], ...]]] = {
    "send to a queue": (send("/queue/M.q"), (WRITES,)),
    "send to a new queue": (send("/queue/M.new.{}"), (WRITES, CREATES)),
    "send to a topic": (send("/topic/M.t"), (WRITES,)),
    "send to a composite": (send("/queue/open,/queue/M.q"), (WRITES,)),
    "send to a virtual topic": (send("/topic/VirtualTopic.M.v"), (WRITES,)),
    "subscribe to a queue": (subscribe("/queue/M.q"), (READS,)),
    "subscribe to a new queue": (subscribe("/queue/M.new.{}"), (READS, CREATES)),
    "subscribe to a topic": (subscribe("/topic/M.t"), (READS,)),
    "subscribe durably": (subscribe("/topic/M.t", **DURABLE), (READS,)),
    "subscribe to a pattern": (subscribe("/topic/M.>"), (READS,)),
    "browse": (subscribe("/queue/M.q", browser="true"), (READS,)),
    "subscribe to a virtual topic's queue": (
        subscribe("/queue/Consumer.A.VirtualTopic.M.v"),
        (READS,),
    ),
    "subscribe to advisories": (
        subscribe("/topic/ActiveMQ.Advisory.FULL.{}"),
        (READS, CREATES),
    ),
    "subscribe to dead letters": (subscribe("/queue/ActiveMQ.DLQ"), (("read from", "nobody"),)),
    "subscribe to a temporary queue": (subscribe("/temp-queue/{}"), (CREATES, READS)),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_each_role_may_do_what_its_rights_say(
    stomp_broker: StartStomp, operation: str
) -> None:
    ask, needs = OPERATIONS[operation]
    async with stomp_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as broker:
        for role, rights in ROLES.items():
            client = await broker.client(login=role, passcode="secret", client_id=role)
            wanted = next((verb for verb, right in needs if right not in rights), "allowed")
            assert verb_of(role, await ask(client, role)) == wanted, role
