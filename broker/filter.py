"""The filter chain: one interface, and a filter that passes everything on.

Each behaviour of the broker (stop guard, transactions, composite destinations,
advisories ...) is a `BrokerFilter` in a file of its own; `service` assembles them in one
visible list, outermost first, around the region broker. Calls run to their end on the
broker's loop; `send`, `acknowledge` and the transaction calls may return a Completion.
Any call may raise a JMSException: the client gets it as the answer. (ActiveMQ B1-B6)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.completion import Completion
from broker.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessagePull,
    ProducerInfo,
    RemoveSubscriptionInfo,
    SessionInfo,
    Throwable,
    TransactionId,
    XATransactionId,
)

if TYPE_CHECKING:
    from broker.region.destination import BrokerDestination
    from broker.region.message import MessageReference
    from broker.region.subscription import Subscription

__all__ = ["Broker", "BrokerFilter"]


class Broker:
    """What every link of the chain does. Method by method as ActiveMQ's Broker interface."""

    async def start(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    # who is there
    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        raise NotImplementedError

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        raise NotImplementedError

    def add_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        raise NotImplementedError

    def remove_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        raise NotImplementedError

    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        raise NotImplementedError

    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        raise NotImplementedError

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        raise NotImplementedError

    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        """Take a consumer away; see Q29 for what the sequence id does to delivery counts."""
        raise NotImplementedError

    def remove_subscription(
        self, context: ConnectionContext, info: RemoveSubscriptionInfo
    ) -> Completion | None:
        raise NotImplementedError

    def add_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        raise NotImplementedError

    def remove_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        raise NotImplementedError

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        """Return the destination, made now if it is not there yet (D3, D4)."""
        raise NotImplementedError

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        raise NotImplementedError

    # messages
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        raise NotImplementedError

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion | None:
        raise NotImplementedError

    def message_pull(self, context: ConnectionContext, pull: MessagePull) -> None:
        raise NotImplementedError

    def process_consumer_control(
        self, exchange: ConsumerExchange, control: ConsumerControl
    ) -> None:
        raise NotImplementedError

    # transactions
    def begin_transaction(self, context: ConnectionContext, xid: TransactionId) -> None:
        raise NotImplementedError

    def prepare_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> int | Completion:
        """Return XA_OK or XA_RDONLY; a Completion that ends well is XA_OK."""
        raise NotImplementedError

    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Completion | None:
        raise NotImplementedError

    def rollback_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> Completion | None:
        raise NotImplementedError

    def forget_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> Completion | None:
        raise NotImplementedError

    def set_rollback_only(
        self, context: ConnectionContext, xid: TransactionId, cause: Exception
    ) -> None:
        """Have the commit of that transaction fail, if it is open (C5)."""
        raise NotImplementedError

    def prepared_transactions(self, context: ConnectionContext) -> list[XATransactionId]:
        raise NotImplementedError

    # events from the regions, walking the chain from its outer end
    def message_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        raise NotImplementedError

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        """Dead-letter a message if its strategy says so; return whether it was."""
        raise NotImplementedError

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        raise NotImplementedError

    def message_discarded(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        raise NotImplementedError

    def slow_consumer(
        self,
        context: ConnectionContext,
        destination: BrokerDestination,
        subscription: Subscription,
    ) -> None:
        raise NotImplementedError

    # what there is
    def destinations(self) -> dict[Destination, BrokerDestination]:
        raise NotImplementedError


class BrokerFilter(Broker):
    """Passes every call to the next link."""

    def __init__(self, next_broker: Broker) -> None:
        self.next = next_broker

    async def start(self) -> None:
        await self.next.start()

    async def stop(self) -> None:
        await self.next.stop()

    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        self.next.add_connection(context, info)

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        self.next.remove_connection(context, info, error)

    def add_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        self.next.add_session(context, info)

    def remove_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        self.next.remove_session(context, info)

    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        self.next.add_producer(context, info)

    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        self.next.remove_producer(context, info)

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        return self.next.add_consumer(context, info)

    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        self.next.remove_consumer(context, info, last_delivered_sequence_id)

    def remove_subscription(
        self, context: ConnectionContext, info: RemoveSubscriptionInfo
    ) -> Completion | None:
        return self.next.remove_subscription(context, info)

    def add_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        self.next.add_destination_info(context, info)

    def remove_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        self.next.remove_destination_info(context, info)

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        return self.next.add_destination(context, destination, create_temporary)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        self.next.remove_destination(context, destination, timeout)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        return self.next.send(exchange, message)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion | None:
        return self.next.acknowledge(exchange, ack)

    def message_pull(self, context: ConnectionContext, pull: MessagePull) -> None:
        self.next.message_pull(context, pull)

    def process_consumer_control(
        self, exchange: ConsumerExchange, control: ConsumerControl
    ) -> None:
        self.next.process_consumer_control(exchange, control)

    def begin_transaction(self, context: ConnectionContext, xid: TransactionId) -> None:
        self.next.begin_transaction(context, xid)

    def prepare_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> int | Completion:
        return self.next.prepare_transaction(context, xid)

    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Completion | None:
        return self.next.commit_transaction(context, xid, one_phase)

    def rollback_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> Completion | None:
        return self.next.rollback_transaction(context, xid)

    def forget_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> Completion | None:
        return self.next.forget_transaction(context, xid)

    def set_rollback_only(
        self, context: ConnectionContext, xid: TransactionId, cause: Exception
    ) -> None:
        self.next.set_rollback_only(context, xid, cause)

    def prepared_transactions(self, context: ConnectionContext) -> list[XATransactionId]:
        return self.next.prepared_transactions(context)

    def message_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        self.next.message_expired(context, reference, subscription)

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        return self.next.send_to_dead_letter_queue(context, reference, subscription, cause)

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.next.message_consumed(context, reference)

    def message_discarded(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        self.next.message_discarded(context, reference, subscription)

    def slow_consumer(
        self,
        context: ConnectionContext,
        destination: BrokerDestination,
        subscription: Subscription,
    ) -> None:
        self.next.slow_consumer(context, destination, subscription)

    def destinations(self) -> dict[Destination, BrokerDestination]:
        return self.next.destinations()
