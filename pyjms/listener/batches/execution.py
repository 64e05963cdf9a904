"""Execution of a batch: receive more messages, call the listener, send the dead letters.

A batch is complete when it has `batch_size` messages, or when `batch_timeout` seconds have passed
since its first message. With a timeout of 0, the default, it contains the messages that have
arrived already: a single message is handled at once, and under load the batches become larger. A
stop also completes the batch: its messages are handled, unlike a single message that arrives while
the container stops.

The batch is one delivery: its session's transaction is committed once, or rolled back as a whole.
Rejected messages are sent to the dead-letter destination in that transaction (`dead_letters`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final, Protocol

from pyjms import _clock
from pyjms._logger import get_logger, one_line
from pyjms.core.workers import Worker
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, parse_destination
from pyjms.jms.message import Message
from pyjms.listener.batches.batch import Batch
from pyjms.listener.container.delivery import (
    ACKNOWLEDGED_FOR_THE_LISTENER,
    Delivery,
)
from pyjms.listener.container.execution import ListenerExecution
from pyjms.listener.container.properties import ContainerProperties
from pyjms.listener.handler.interceptors import HandlerInvocation
from pyjms.listener.handler.message_listener import ListenerCall
from pyjms.support.dead_letters import send_dead_letter

__all__ = ["BatchDelivery", "BatchExecution", "collect"]

logger: Final = get_logger(__name__)

_QUOTED: Final = 3
"""The number of rejected messages that a log line names."""


class _Invoker(Protocol):
    """The part of an invoker that is needed to collect a batch."""

    waiting: bool

    def shield(self) -> AbstractContextManager[object]:
        """Return a separate cancel scope, which a stop cancels to end the wait."""


class BatchDelivery(Delivery):
    """The messages of one batch; `message` is the last, which decides about their redelivery."""

    is_accepted: ClassVar[bool] = True

    def __init__(
        self,
        batch: Batch[Message],
        session: Session,
        connection: Connection,
        consumer: MessageConsumer,
        worker: Worker,
    ) -> None:
        super().__init__(batch.received[-1], session, connection, consumer, worker)
        self.batch = batch

    @property
    def subject(self) -> str:
        """The messages, described for a log line."""
        received = self.batch.received
        first, last = received[0].message_id, received[-1].message_id
        return f"batch of {len(received)} messages from {first} to {last}"


async def collect(
    invoker: _Invoker,
    consumer: MessageConsumer,
    first: Message,
    properties: ContainerProperties,
    reason_to_give_up: Callable[[Message, MessageConsumer], BaseException | None],
) -> Batch[Message]:
    """Return a batch that begins with `first`, a message that `consumer` has received.

    A stop of the container ends the wait for more messages. Messages for which `reason_to_give_up`
    returns a reason are rejected.
    """
    size, seconds = properties.batch_size or 1, properties.batch_timeout
    deadline = _clock.now() + seconds
    messages = [first]
    given_up: dict[int, BaseException] = {}
    with invoker.shield():
        invoker.waiting = True
        while len(messages) < size:
            left = max(deadline - _clock.now(), 0.0) if seconds else 0.0
            message = await consumer.receive(left)
            if message is None:
                break
            reason = reason_to_give_up(message, consumer)
            if reason is not None:
                given_up[len(messages)] = reason
            messages.append(message)
    invoker.waiting = False
    refuses = properties.unreadable_messages == "dead_letter"
    return Batch(messages, refuses_unreadable=refuses, rejected=given_up)


class BatchExecution(ListenerExecution):
    """Executes the batches of one container."""

    async def _call_listener(self, delivery: Delivery) -> None:
        batch = _batch_of(delivery)
        if delivery.session.acknowledge_mode not in ACKNOWLEDGED_FOR_THE_LISTENER:
            for message in batch.received[:-1]:
                delivery.let_worker_acknowledge(message)
        await super()._call_listener(delivery)
        if batch.rejections:
            await self._send_dead_letters(delivery, batch)

    def _invocation(self, call: ListenerCall, delivery: Delivery) -> HandlerInvocation:
        invocation = super()._invocation(call, delivery)
        invocation.messages = _batch_of(delivery).received
        return invocation

    def _argument(self, delivery: Delivery) -> Batch[Message]:
        return _batch_of(delivery)

    def _record(self, delivery: Delivery, error: Exception) -> None:
        for message in _batch_of(delivery).received:
            self._retries.record(delivery, error, message)

    def reason_to_give_up(
        self, message: Message, consumer: MessageConsumer
    ) -> BaseException | None:
        """Return None: messages to give up were already rejected when they were received."""
        return None

    async def _send_dead_letters(self, delivery: Delivery, batch: Batch[Message]) -> None:
        name = self._properties.dead_letter or DEFAULT_DEAD_LETTER_QUEUE
        destination = parse_destination(name)
        for position, reason in sorted(batch.rejections.items()):
            await send_dead_letter(delivery.session, destination, batch.received[position], reason)
        _log_rejections(self._properties, batch, name)


def _batch_of(delivery: Delivery) -> Batch[Message]:
    assert isinstance(delivery, BatchDelivery)
    return delivery.batch


def _log_rejections(properties: ContainerProperties, batch: Batch[Message], name: str) -> None:
    rejected: Sequence[tuple[int, BaseException]] = sorted(batch.rejections.items())
    quoted = "; ".join(
        f"{batch.received[position].message_id}: {type(reason).__name__}: {one_line(str(reason))}"
        for position, reason in rejected[:_QUOTED]
    )
    more = len(rejected) - _QUOTED
    logger.warning(
        "Listener %s rejects %d of %d messages of a batch from %s; they become dead letters on %s. "
        "%s%s",
        properties.bean_name or properties.destination_description,
        len(rejected),
        len(batch.received),
        properties.destination_description,
        name,
        quoted,
        f"; and {more} more" if more > 0 else "",
        extra={
            "listener_id": properties.bean_name,
            "destination": properties.destination_description,
        },
    )
