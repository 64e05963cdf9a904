"""Forwarding of messages, which are acknowledged locally once the remote broker has them.

(activemq-edges NW4, NW5)
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConnectionFailedException, DestinationDoesNotExistException
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQBytesMessage,
    ActiveMQMessage,
    BrokerId,
    MessageAck,
    MessageDispatch,
    Response,
)
from pyjms_broker.api.copying import copy_for_destination
from pyjms_broker.connector.openwire.throwables import to_throwable
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.demand.table import Demand
from pyjms_broker.network.ends import BridgeEnd, LocalEnd
from pyjms_broker.region.subscription.base import LAST_DELIVERED_UNSET
from pyjms_broker.region.subscription.bridge_filter import appended, may_pass

__all__ = ["Forwarder", "ForwardingListener"]

logger = get_logger(__name__)


class ForwardingListener(Protocol):
    """Is notified of the outcome of forwarded messages; implemented by the bridge."""

    def confirmed(self, demand: Demand) -> None:
        """Count a message that was acknowledged."""

    def refused(self, message: ActiveMQMessage, error: Exception) -> None:
        """Report a message that the remote broker refused."""

    def fail(self, error: Exception) -> None:
        """End the bridge; the next bridge forwards the unacknowledged messages."""


@dataclass(eq=False, repr=False)
class Forwarder:
    """Forwards the messages of a bridge to the remote broker.

    Args:
        local, remote: the two connections of the bridge.
        broker_id: the id of the local broker, which is appended to each message's path.
        attributes: the attributes of the network connector.
        listener: is notified of acknowledged and refused messages, and of the bridge's failure.
    """

    _local: LocalEnd
    _remote: BridgeEnd
    _broker_id: BrokerId
    _attributes: NetworkConnectorAttributes
    _listener: ForwardingListener
    _under_way: dict[MessageDispatch, int] = field(default_factory=dict, init=False)
    _waiting: BackgroundTask | None = field(default=None, init=False)
    enqueue_count: int = field(default=0, init=False)
    """The number of messages that the local broker has dispatched to the bridge."""
    dequeue_count: int = field(default=0, init=False)
    """The number of messages that the remote broker has received."""

    @property
    def last_sent(self) -> int:
        """The highest sequence number of messages that the remote broker may have; -1: none."""
        return max(self._under_way.values(), default=LAST_DELIVERED_UNSET)

    def reset_counts(self) -> None:
        """Reset the counters."""
        self.enqueue_count = self.dequeue_count = 0

    def forward(self, dispatch: MessageDispatch, demand: Demand) -> None:
        """Forward a message; if it may not pass, a durable subscription only acknowledges it."""
        message = dispatch.message
        if message is None or demand.is_closing:
            return
        self.enqueue_count += 1
        bridge = demand.local.additional_predicate
        if demand.is_durable and bridge is not None and not may_pass(bridge, message):
            self._acknowledge(dispatch, message)
            return
        copy = self._onward(message, dispatch)
        try:
            if message.persistent or self._attributes.always_sync_send:
                demand.unconfirmed += 1
                number = message.message_id.broker_sequence_id if message.message_id else 0
                self._under_way[dispatch] = number
                self._remote.transport.request_soon(copy, partial(self._answered, dispatch, demand))
            else:
                self._remote.transport.oneway(copy)
                self._acknowledge(dispatch, message)
                self.dequeue_count += 1
        except ConnectionFailedException as error:
            self._listener.fail(error)
            return
        if self._remote.transport.congested and self._waiting is None:
            self._local.pause_reading()
            self._waiting = spawn(self._wait_for_remote, name="pyjms bridge drain")

    async def stop(self) -> None:
        """Stop waiting for a remote broker that reads too slowly."""
        await end_tasks(self._waiting)

    def _onward(self, message: ActiveMQMessage, dispatch: MessageDispatch) -> ActiveMQMessage:
        destination = dispatch.destination or message.destination
        assert destination is not None
        copy = copy_for_destination(message, destination, None)
        copy.broker_path = appended(message.broker_path, self._broker_id)
        copy.producer_id = self._remote.producer_id
        copy.original_transaction_id = message.original_transaction_id or message.transaction_id
        copy.transaction_id = None
        copy.raw = None
        if self._attributes.use_compression:
            _compress(copy)
        return copy

    def _answered(
        self, dispatch: MessageDispatch, demand: Demand, outcome: Response | Exception
    ) -> None:
        message = dispatch.message
        assert message is not None
        refusal: DestinationDoesNotExistException | None = None
        if isinstance(outcome, Exception):
            if not isinstance(outcome, ConnectionFailedException):
                self._listener.refused(message, outcome)
            if not isinstance(outcome, DestinationDoesNotExistException):
                self._listener.fail(outcome)
                return
            refusal = outcome  # a temporary destination may be deleted in the meantime
            logger.warning("%s is not forwarded: %s", message.message_id, outcome)
        self._under_way.pop(dispatch, None)
        demand.unconfirmed -= 1
        self.dequeue_count += refusal is None
        self._acknowledge(dispatch, message, refusal)
        self._listener.confirmed(demand)

    def _acknowledge(
        self, dispatch: MessageDispatch, message: ActiveMQMessage, refusal: Exception | None = None
    ) -> None:
        ack = MessageAck(
            dispatch.destination,
            consumer_id=dispatch.consumer_id,
            ack_type=int(AckType.INDIVIDUAL if refusal is None else AckType.POISON),
            first_message_id=message.message_id,
            last_message_id=message.message_id,
            message_count=1,
            poison_cause=None if refusal is None else to_throwable(refusal),
        )
        self._local.send(ack)

    async def _wait_for_remote(self) -> None:
        await self._remote.transport.drained()
        self._waiting = None
        self._local.resume_reading()


def _compress(message: ActiveMQMessage) -> None:
    """Compress an uncompressed body; that of a BytesMessage is preceded by its size."""
    content = message.content
    if message.compressed or not content:
        return
    body = bytes(content)
    packed = zlib.compress(body)
    if isinstance(message, ActiveMQBytesMessage):
        packed = len(body).to_bytes(4, "big") + packed
    message.content, message.compressed = packed, True
