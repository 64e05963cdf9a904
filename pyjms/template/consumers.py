"""Whether a destination has a consumer, by the broker's consumer advisories.

A new consumer of the topic of consumer advisories is told the consumers that are there already, in
the order in which they came (activemq-broker V-A2). Nothing marks the end of that list. So a
consumer of a temporary queue is added first, and the advisories about that queue are requested as
well: once it is told, all older consumers have been told, too.

The topic of a destination tells no consumers of patterns (`orders.>`) and of several destinations
(`orders,invoices`). Only if it has told none, all consumers are asked for.
"""

from __future__ import annotations

from typing import Final

from pyjms.client.advisories import ConsumerAdvisory, read_advisory
from pyjms.errors import IllegalStateException, NoConsumerException
from pyjms.jms.api import MessageConsumer, Session
from pyjms.jms.destination import Destination, Queue, Topic, advisory_topic, name_matches
from pyjms.runtime import clock as _clock
from pyjms.template.resources import quietly, using

_LONGEST_WAIT: Final = 5.0
"""Seconds until the broker must have answered."""


async def check_consumer(session: Session, destination: Destination) -> None:
    """Check that a destination, or one of several, has a consumer. Cancellable.

    Browsers count. The connection must be started.

    Raises:
        NoConsumerException: it has none.
        IllegalStateException: the broker sends no advisories.
        JMSException: they must not be read, or the connection has failed.
    """
    marker = await session.create_temporary_queue()
    try:
        async with using(await session.create_consumer(marker)):
            members = destination.composite_destinations
            own = [advisory_topic("Consumer", member) for member in members]
            everything = advisory_topic("Consumer", (Queue if destination.is_queue else Topic)(">"))
            for topics in (own, [everything]):
                if await _has_advisory(session, topics, marker, destination):
                    return
    finally:
        await quietly(lambda: session.delete_temporary(marker), f"delete {marker}")
    raise NoConsumerException(
        f"{destination} has no consumer, so that nobody would reply: the request was not sent",
        destination=str(destination),
        hint="is the program with the listener running, with this broker and this name?",
    )


async def _has_advisory(
    session: Session, topics: list[Topic], marker: Destination, destination: Destination
) -> bool:
    """Return whether the advisories of these topics tell a consumer of a destination."""
    topics = [*topics, advisory_topic("Consumer", marker)]
    names = Topic(",".join(dict.fromkeys(topic.physical_name for topic in topics)))
    async with using(await session.create_consumer(names)) as advisories:
        deadline = _clock.now() + _LONGEST_WAIT
        while True:
            advisory = await _next(advisories, deadline)
            if advisory.destination == marker:
                return False
            if advisory.exists and _consumes(advisory.destination, destination):
                return True


async def _next(advisories: MessageConsumer, deadline: float) -> ConsumerAdvisory:
    while message := await advisories.receive(max(deadline - _clock.now(), 0.0)):
        advisory = read_advisory(message)
        if isinstance(advisory, ConsumerAdvisory):
            return advisory
    raise IllegalStateException(
        f"The broker does not tell its consumers within {_LONGEST_WAIT:g} s",
        hint="require_consumer needs the broker's advisories (advisory_support, ActiveMQ: "
        "advisorySupport)",
    )


def _consumes(consumed: Destination | None, destination: Destination) -> bool:
    """Return whether a consumer of `consumed`, which may be a pattern, consumes a destination."""
    return consumed is not None and any(
        pattern.is_queue == member.is_queue
        and name_matches(pattern.physical_name, member.physical_name)
        for pattern in consumed.composite_destinations
        for member in destination.composite_destinations
    )
