"""Subscriptions of STOMP clients: delivered messages and their acknowledgement.

    ack                  acknowledged
    auto                 when the frame was queued for the socket
    client               by ACK, with all earlier messages of the subscription
    client-individual    by ACK, singly

An acknowledgement in a transaction takes effect at the commit. After an abort the messages are
still dispatched, and may be acknowledged again. (activemq-edges ST7 to ST10)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.jms.destination import Destination
from pyjms.selector.parser import CONVERT_STRINGS_PREFIX
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    Throwable,
    TransactionId,
)
from pyjms_broker.connector.stomp.headers import MAXIMUM_INT, boolean, integer

AUTO: Final = "auto"
CLIENT: Final = "client"
ACK_MODES: Final = (AUTO, CLIENT, "client-individual")
_PREFIX: Final = "activemq."
_PREFETCH: Final = {"browser": 500, "durable": 100, "queue": 1000, "topic": 32767}
"""ActiveMQ's defaults for STOMP. (activemq-edges ST7)"""
_NACK_CAUSE: Final = Throwable("javax.jms.JMSException", "NACK of a STOMP client", (), None)


def consumer_info(
    headers: dict[str, str], destination: Destination, consumer_id: ConsumerId
) -> ConsumerInfo:
    """Return the consumer that a SUBSCRIBE frame requests.

    Raises:
        RemoteProtocolError: a header is unknown or invalid.
    """
    info = ConsumerInfo(consumer_id, destination=destination, dispatch_async=True)
    selector = headers.get("selector")
    if selector:
        # so that `price > 3` compares header values, which are strings, as numbers
        # (activemq-edges ST15)
        info.selector = CONVERT_STRINGS_PREFIX + selector
    if "browser" in headers:
        info.browser = boolean("browser", headers["browser"])
    info.prefetch_size = -1
    for name, value in headers.items():
        if name.startswith(_PREFIX):
            _set_option(info, name, value)
    if info.subscription_name is not None and destination.is_queue:
        raise RemoteProtocolError(
            "Invalid Subscription: cannot durably subscribe to a Queue destination!"
        )
    if info.prefetch_size < 0:
        info.prefetch_size = _PREFETCH[_kind(info, destination)]
    return info


def _kind(info: ConsumerInfo, destination: Destination) -> str:
    if info.browser:
        return "browser"
    if info.subscription_name is not None:
        return "durable"
    return "queue" if destination.is_queue else "topic"


def _set_option(info: ConsumerInfo, name: str, value: str) -> None:
    match name.removeprefix(_PREFIX):
        case "dispatchAsync":
            boolean(name, value)  # no effect: ActiveMQ also dispatches to STOMP asynchronously
        case "exclusive":
            info.exclusive = boolean(name, value)
        case "maximumPendingMessageLimit":
            info.maximum_pending_message_limit = integer(name, value, -1, MAXIMUM_INT)
        case "noLocal":
            info.no_local = boolean(name, value)
        case "prefetchSize":
            info.prefetch_size = integer(name, value, 1, MAXIMUM_INT)
        case "priority":
            info.priority = integer(name, value, -128, 127)
        case "retroactive":
            info.retroactive = boolean(name, value)
        case "subscriptionName" if value:
            info.subscription_name = value
        case _:
            raise RemoteProtocolError(f"The header {name[:100]} is unknown or empty")


@dataclass(slots=True, eq=False)
class Delivered:
    """A message that was delivered and not finally acknowledged."""

    ack_id: str
    message_id: MessageId
    destination: Destination | None
    transaction: TransactionId | None = None


class Subscription:
    """A subscription of a connection."""

    def __init__(
        self,
        info: ConsumerInfo,
        identifier: str | None,
        name: str,
        ack: str,
        transformation: str | None = None,
    ) -> None:
        """Create it.

        Args:
            info: the consumer.
            identifier: the header `id`, if present.
            name: the header `destination`.
            ack: one of `ACK_MODES`.
            transformation: the header `transformation`, if present.
        """
        assert info.consumer_id is not None
        self.consumer_id = info.consumer_id
        self.info = info
        self.identifier = identifier
        self.name = name
        self.ack = ack
        self.transformation = transformation
        self.waiting: list[MessageDispatch] | None = None
        """Messages that arrived before the RECEIPT of the subscription."""
        self._delivered: dict[str, Delivered] = {}
        self._unsent: list[MessageAck] = []
        self._number = 0

    @property
    def key(self) -> str:
        """The key for UNSUBSCRIBE: the id, or the destination if there is no id."""
        return self.name if self.identifier is None else self.identifier

    def deliver(self, message_id: MessageId, destination: Destination | None) -> str | None:
        """Record a message sent to the client; return its ack id, or None if it needs none."""
        if self.ack == AUTO:
            self._acknowledge_later(message_id, destination)
            return None
        self._number += 1
        ack_id = f"{self.consumer_id}:{self._number}"
        self._delivered[ack_id] = Delivered(ack_id, message_id, destination)
        return ack_id

    def _acknowledge_later(self, message_id: MessageId, destination: Destination | None) -> None:
        ack = self._unsent[-1] if self._unsent else None
        if ack is None or ack.destination != destination:
            ack = MessageAck(
                destination,
                consumer_id=self.consumer_id,
                ack_type=AckType.STANDARD,
                first_message_id=message_id,
            )
            self._unsent.append(ack)
        ack.last_message_id = message_id
        ack.message_count += 1

    def take_unsent(self) -> list[MessageAck]:
        """Return and clear the acknowledgements of messages delivered in mode auto."""
        acks, self._unsent = self._unsent, []
        return acks

    def find(self, *, ack_id: str | None = None, message_id: str | None = None) -> Delivered | None:
        """Return a message that the client may acknowledge, by its ack id or message id."""
        if ack_id is not None:
            found = self._delivered.get(ack_id)
            return found if found is not None and found.transaction is None else None
        for delivered in self._delivered.values():
            if delivered.transaction is None and str(delivered.message_id) == message_id:
                return delivered
        return None

    def acknowledge(self, last: Delivered, transaction: TransactionId | None) -> MessageAck:
        """Return the acknowledgement of `last`, in mode client including all before it."""
        settled = [last]
        if self.ack == CLIENT:
            settled = []
            for delivered in self._delivered.values():
                if delivered.transaction is None:
                    settled.append(delivered)
                if delivered is last:
                    break
        for delivered in settled:
            delivered.transaction = transaction
            if transaction is None:
                del self._delivered[delivered.ack_id]
        return MessageAck(
            last.destination,
            transaction,
            self.consumer_id,
            AckType.STANDARD if self.ack == CLIENT else AckType.INDIVIDUAL,
            settled[0].message_id,
            last.message_id,
            len(settled),
        )

    def refuse(self, delivered: Delivered) -> MessageAck:
        """Return the acknowledgement that makes a message a dead letter. (activemq-edges ST9)"""
        del self._delivered[delivered.ack_id]
        return MessageAck(
            delivered.destination,
            None,
            self.consumer_id,
            AckType.POISON,
            delivered.message_id,
            delivered.message_id,
            1,
            _NACK_CAUSE,
        )

    def end_transaction(self, transaction: TransactionId, *, committed: bool) -> None:
        """Drop the messages that the transaction acknowledged, or make them pending again."""
        ended = [d for d in self._delivered.values() if d.transaction == transaction]
        for delivered in ended:
            if committed:
                del self._delivered[delivered.ack_id]
            else:
                delivered.transaction = None
