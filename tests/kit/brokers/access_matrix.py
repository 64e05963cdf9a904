"""Every operation of a client for every role: what a broker allows, and what it should.

An operation is a function of a client that has logged in as a role. Its needs are the rights that
are checked, in order: the first that the role lacks is the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic, parse_destination
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    ConnectionInfo,
    DestinationInfo,
    RemoveSubscriptionInfo,
    SessionInfo,
)
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.security import simple, user
from tests.kit.clients.raw import RawClient

READ, WRITE, ADMIN = "read", "write", "admin"
ROLES: dict[str, frozenset[str]] = {
    "stranger": frozenset(),
    "reader": frozenset({READ}),
    "writer": frozenset({WRITE}),
    "admin": frozenset({ADMIN}),
    "subscriber": frozenset({READ, ADMIN}),
    "publisher": frozenset({WRITE, ADMIN}),
    "both": frozenset({READ, WRITE}),
    "root": frozenset({READ, WRITE, ADMIN}),
}
"""The rights of each role; they are also the names of its groups."""

RESTRICTED = (
    *("M.>", "topic://M.>", "topic://ActiveMQ.Advisory.FULL.>"),
    *("Consumer.*.VirtualTopic.M.>", "topic://VirtualTopic.M.>"),
)
"""Names and patterns with a group for each right."""
_ADVISORIES = ("Connection", "Consumer.>", "Producer.>", "Queue", "Topic", "TempQueue", "TempTopic")
OPEN = (
    *("open", "topic://open", "M.open"),
    *(f"topic://ActiveMQ.Advisory.{kind}" for kind in _ADVISORIES),
)
"""Where everybody may do everything. ActiveMQ creates topics of advisories with its client's rights."""
EXISTING = (
    *("M.q", "topic://M.t", "open", "M.open", "topic://VirtualTopic.M.v"),
    *("Consumer.A.VirtualTopic.M.v", "ActiveMQ.DLQ", "other"),
)
"""Destinations that are there at the start."""


@dataclass(frozen=True)
class Attempt:
    """An operation of one role: the client, and destinations that no other attempt uses."""

    client: RawClient
    root: RawClient
    name: str

    def queue(self) -> Queue:
        return Queue(f"M.new.{self.name}")

    def topic(self) -> Topic:
        return Topic(f"M.new.{self.name}")

    def temporary(self, owner: RawClient) -> TemporaryQueue:
        return TemporaryQueue(f"{owner.name}:1")


Operation = Callable[[Attempt], Awaitable[object]]


async def _unsubscribe(attempt: Attempt) -> None:
    await _subscribe_and_unsubscribe(attempt.client, attempt.client, attempt.name)


async def _unsubscribe_another(attempt: Attempt) -> None:
    await _subscribe_and_unsubscribe(attempt.root, attempt.client, attempt.name)


async def _subscribe_and_unsubscribe(owner: RawClient, client: RawClient, name: str) -> None:
    await owner.remove(await owner.consumer(Topic("open"), subscription_name=name))
    await client.request(
        RemoveSubscriptionInfo(client.connection_id, subscription_name=name, client_id=owner.name)
    )


async def _remove(client: RawClient, destination: Destination) -> None:
    await client.request(DestinationInfo(client.connection_id, destination, 1))


async def _create_and_remove(attempt: Attempt) -> None:
    await attempt.root.destination(attempt.queue())
    await _remove(attempt.client, attempt.queue())


async def _send_to_roots_temporary(attempt: Attempt) -> None:
    temporary = attempt.temporary(attempt.root)
    await attempt.root.destination(temporary)
    await attempt.client.send(temporary, "x")


async def _consume_roots_temporary(attempt: Attempt) -> None:
    temporary = attempt.temporary(attempt.root)
    await attempt.root.destination(temporary)
    await attempt.client.consumer(temporary)


async def _consume_own_temporary(attempt: Attempt) -> None:
    """An administrator's queue, whose consumer may not read."""
    temporary = attempt.temporary(attempt.client)
    await attempt.client.destination(temporary)
    await attempt.client.consumer(temporary)


async def _remove_own_temporary(attempt: Attempt) -> None:
    temporary = attempt.temporary(attempt.client)
    await attempt.client.destination(temporary)
    await _remove(attempt.client, temporary)


READS, WRITES, CREATES, REMOVES = (
    ("read from", READ),
    ("write to", WRITE),
    ("create", ADMIN),
    ("remove", ADMIN),
)
NOBODY = "nobody"
"""A right that no role has: no entry matches."""

OPERATIONS: dict[str, tuple[Operation, tuple[tuple[str, str], ...]]] = {
    "produce to a queue": (lambda a: a.client.producer(Queue("M.q")), (WRITES,)),
    "produce to a new queue": (lambda a: a.client.producer(a.queue()), (WRITES, CREATES)),
    "send to a queue": (lambda a: a.client.send(Queue("M.q"), "x"), (WRITES,)),
    "send to a new queue": (lambda a: a.client.send(a.queue(), "x"), (WRITES, CREATES)),
    "send to a topic": (lambda a: a.client.send(Topic("M.t"), "x"), (WRITES,)),
    "send to a new topic": (lambda a: a.client.send(a.topic(), "x"), (WRITES, CREATES)),
    "consume a queue": (lambda a: a.client.consumer(Queue("M.q")), (READS,)),
    "consume a new queue": (lambda a: a.client.consumer(a.queue()), (READS, CREATES)),
    "consume a topic": (lambda a: a.client.consumer(Topic("M.t")), (READS,)),
    "consume a new topic": (lambda a: a.client.consumer(a.topic()), (READS, CREATES)),
    "browse a queue": (lambda a: a.client.consumer(Queue("M.q"), browser=True), (READS,)),
    "browse a new queue": (
        lambda a: a.client.consumer(a.queue(), browser=True),
        (READS, CREATES),
    ),
    "subscribe durably": (
        lambda a: a.client.consumer(Topic("M.t"), subscription_name=a.name),
        (READS,),
    ),
    "subscribe durably to a new topic": (
        lambda a: a.client.consumer(a.topic(), subscription_name=a.name),
        (READS, CREATES),
    ),
    "consume a pattern of queues": (lambda a: a.client.consumer(Queue("M.q.*")), (READS,)),
    "consume a pattern of what a narrower entry opens": (
        lambda a: a.client.consumer(Queue("M.*")),
        (),
    ),
    "consume a pattern of another's name": (lambda a: a.client.consumer(Queue("*.q")), (READS,)),
    "consume a shallow pattern above an entry": (
        lambda a: a.client.consumer(Queue("*")),
        (),
    ),
    "consume a pattern of topics": (lambda a: a.client.consumer(Topic("M.>")), (READS,)),
    "consume a pattern that nothing covers": (
        lambda a: a.client.consumer(Queue(">")),
        (("read from", NOBODY),),
    ),
    "consume where no entry matches": (
        lambda a: a.client.consumer(Queue("other")),
        (("read from", NOBODY),),
    ),
    "send where no entry matches": (
        lambda a: a.client.send(Queue("other"), "x"),
        (("write to", NOBODY),),
    ),
    "send to a composite": (lambda a: a.client.send(Queue("M.q,M.open"), "x"), (WRITES,)),
    "consume a composite": (lambda a: a.client.consumer(Queue("M.open,M.q")), (READS,)),
    "send to a composite of two entries": (
        lambda a: a.client.send(Queue("open,M.q"), "x"),
        (WRITES,),
    ),
    "send to queue and topic": (
        lambda a: a.client.send(Queue("open,topic://M.t"), "x"),
        (WRITES,),
    ),
    "consume a composite of two entries": (
        lambda a: a.client.consumer(Queue("open,M.q")),
        (READS,),
    ),
    "consume what a narrower entry opens": (lambda a: a.client.consumer(Queue("M.open")), ()),
    "create a queue": (lambda a: a.client.destination(a.queue()), (CREATES,)),
    "create a queue that exists": (lambda a: a.client.destination(Queue("M.q")), ()),
    "remove a queue": (_create_and_remove, (REMOVES,)),
    "remove a queue that does not exist": (lambda a: _remove(a.client, a.queue()), (REMOVES,)),
    "create a temporary queue": (
        lambda a: a.client.destination(a.temporary(a.client)),
        (CREATES,),
    ),
    "send to another's temporary queue": (_send_to_roots_temporary, (WRITES,)),
    "consume another's temporary queue": (
        _consume_roots_temporary,
        (READS, ("read from", NOBODY)),
    ),
    "consume one's temporary queue": (_consume_own_temporary, (CREATES, READS)),
    "remove one's temporary queue": (_remove_own_temporary, (CREATES,)),
    "consume advisories": (
        lambda a: a.client.consumer(Topic(f"ActiveMQ.Advisory.FULL.{a.name}")),
        (READS, CREATES),
    ),
    "send an advisory": (
        lambda a: a.client.send(Topic(f"ActiveMQ.Advisory.FULL.{a.name}"), "x"),
        (WRITES, CREATES),
    ),
    "send to a virtual topic": (lambda a: a.client.send(Topic("VirtualTopic.M.v"), "x"), (WRITES,)),
    "consume a virtual topic's queue": (
        lambda a: a.client.consumer(Queue("Consumer.A.VirtualTopic.M.v")),
        (READS,),
    ),
    "consume a virtual topic's new queue": (
        lambda a: a.client.consumer(Queue(f"Consumer.{a.name}.VirtualTopic.M.v")),
        (READS, CREATES),
    ),
    "send past a virtual topic": (
        lambda a: a.client.send(Queue("Consumer.A.VirtualTopic.M.v"), "x"),
        (WRITES,),
    ),
    "consume dead letters": (
        lambda a: a.client.consumer(Queue("ActiveMQ.DLQ")),
        (("read from", NOBODY),),
    ),
    "unsubscribe": (_unsubscribe, ()),
    "unsubscribe another": (
        _unsubscribe_another,
        (("Client other cannot remove a subscription of owner", NOBODY),),
    ),
    # the last one: with it, ActiveMQ refuses consumers of queues that the pattern matches
    "consume a deep pattern above an entry": (
        lambda a: a.client.consumer(Queue("*.>")),
        (READS,),
    ),
}

ACTIVEMQ: dict[str, tuple[tuple[str, str], ...]] = {
    "send to a composite of two entries": (("write to", NOBODY),),
    "send to queue and topic": (("write to", NOBODY),),
    "consume a composite of two entries": (("read from", NOBODY),),
    "remove a queue": (),
    "unsubscribe another": (),
    "consume another's temporary queue": (READS,),
}
"""The needs of ActiveMQ where they differ: it asks for one entry that names all members of a
composite, lets everybody remove what exists, and leaves it to clients whose a temporary queue is."""

_REFUSAL = re.compile(r"User (\S+) is not authorized to ([a-z ]+): (.+)")


def expected(operation: str, *, of_activemq: bool = False) -> dict[str, str]:
    """Return the refusal that each role gets, or "allowed"."""
    needs = OPERATIONS[operation][1]
    if of_activemq:
        needs = ACTIVEMQ.get(operation, needs)
    return {
        role: next((verb for verb, right in needs if right not in rights), "allowed")
        for role, rights in ROLES.items()
    }


async def found(url: str, operation: str) -> dict[str, str]:
    """Return the broker's response for each role."""
    run = OPERATIONS[operation][0]
    outcomes = {}
    root = await log_in(url, "root")
    for role in ROLES:
        client = await log_in(url, role)
        name = f"{re.sub(r'[^a-z]', '-', operation)}-{role}"
        try:
            await run(Attempt(client, root, name))
            outcomes[role] = "allowed"
        except JMSException as error:
            reason = error.reason.replace(client.name, "other").replace(root.name, "owner")
            outcomes[role] = verb_of(role, reason)
        await client.cut()
    await root.cut()
    return outcomes


def verb_of(role: str, refusal: str) -> str:
    """Return the operation named by a refusal, or its whole text."""
    match = _REFUSAL.fullmatch(refusal)
    if match is None:
        return refusal
    assert match[1] == role, refusal
    return match[2]


async def log_in(url: str, role: str) -> RawClient:
    client = RawClient(create_transport(url))
    await client.transport.start()
    await client.request(ConnectionInfo(client.connection_id, client.name, "secret", role))
    client.send_command(SessionInfo(client.session_id))
    return client


def entries() -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the groups with the rights to read, write and administer each destination."""
    for name in RESTRICTED:
        yield name, (READ, WRITE, ADMIN)
    for name in OPEN:
        yield name, ("*", "*", "*")


USERS = simple(*(user(role, ",".join(sorted(rights))) for role, rights in ROLES.items()))
RIGHTS = AuthorizationSettings.model_validate(
    {
        "entries": [
            {"destination": name, "read": read, "write": write, "admin": admin}
            for name, (read, write, admin) in entries()
        ],
        "temp_destination_entry": {"read": READ, "write": WRITE, "admin": ADMIN},
    }
)
DESTINATIONS = [parse_destination(name) for name in EXISTING]


def java_arguments() -> list[str]:
    """Return the arguments of the Java program SecuredBroker."""
    arguments = []
    for role, rights in ROLES.items():
        arguments += ["user", role, ",".join(sorted(rights)) or "none"]
    for name, groups in entries():
        arguments += ["entry", name, *groups]
    arguments += ["temporary", READ, WRITE, ADMIN]
    for name in EXISTING:
        arguments += ["destination", name]
    return arguments
