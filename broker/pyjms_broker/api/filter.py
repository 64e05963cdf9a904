"""The filter chain: filters around the region broker, and the plug-ins that install them.

Each behaviour of the broker (stop guard, transactions, composite destinations, advisories ...)
is a `BrokerFilter` in a module of its own; `pyjms_broker.service` assembles them in one visible
list, outermost first, around the region broker. Calls run to completion on the broker's loop. Any
call may raise a JMSException: the client gets it as the response. (activemq-broker B1 to B6)
"""

from __future__ import annotations

from typing import Protocol

from pyjms.jms.destination import Destination
from pyjms.wire.openwire import commands
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.exchange import ConsumerExchange, ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription

__all__ = ["BrokerFilter", "BrokerPlugin"]


class BrokerPlugin(Protocol):
    """Installs a filter into the chain. Source: ActiveMQ BrokerPlugin."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the new outer end of the chain: usually a BrokerFilter around `broker`."""


class BrokerFilter(Broker):
    """Passes every call to the next broker of the chain; override what matters.

    Source: ActiveMQ BrokerFilter.
    """

    def __init__(self, next_broker: Broker) -> None:
        self.next = next_broker

    async def start(self) -> None:
        await self.next.start()

    async def stop(self) -> None:
        await self.next.stop()

    def add_connection(self, context: ConnectionContext, info: commands.ConnectionInfo) -> None:
        self.next.add_connection(context, info)

    def remove_connection(
        self, context: ConnectionContext, info: commands.ConnectionInfo, error: Exception | None
    ) -> None:
        self.next.remove_connection(context, info, error)

    def add_session(self, context: ConnectionContext, info: commands.SessionInfo) -> None:
        self.next.add_session(context, info)

    def remove_session(self, context: ConnectionContext, info: commands.SessionInfo) -> None:
        self.next.remove_session(context, info)

    def add_producer(self, context: ConnectionContext, info: commands.ProducerInfo) -> None:
        self.next.add_producer(context, info)

    def remove_producer(self, context: ConnectionContext, info: commands.ProducerInfo) -> None:
        self.next.remove_producer(context, info)

    def add_consumer(self, context: ConnectionContext, info: commands.ConsumerInfo) -> Subscription:
        return self.next.add_consumer(context, info)

    def remove_consumer(
        self,
        context: ConnectionContext,
        info: commands.ConsumerInfo,
        last_delivered_sequence_id: int,
    ) -> None:
        self.next.remove_consumer(context, info, last_delivered_sequence_id)

    def remove_subscription(
        self, context: ConnectionContext, info: commands.RemoveSubscriptionInfo
    ) -> Completion | None:
        return self.next.remove_subscription(context, info)

    def add_destination_info(
        self, context: ConnectionContext, info: commands.DestinationInfo
    ) -> None:
        self.next.add_destination_info(context, info)

    def remove_destination_info(
        self, context: ConnectionContext, info: commands.DestinationInfo
    ) -> None:
        self.next.remove_destination_info(context, info)

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        return self.next.add_destination(context, destination, create_temporary)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        self.next.remove_destination(context, destination, timeout)

    def send(
        self, exchange: ProducerExchange, message: commands.ActiveMQMessage
    ) -> Completion | None:
        return self.next.send(exchange, message)

    def acknowledge(
        self, exchange: ConsumerExchange, ack: commands.MessageAck
    ) -> Completion | None:
        return self.next.acknowledge(exchange, ack)

    def message_pull(self, context: ConnectionContext, pull: commands.MessagePull) -> None:
        self.next.message_pull(context, pull)

    def process_consumer_control(
        self, exchange: ConsumerExchange, control: commands.ConsumerControl
    ) -> None:
        self.next.process_consumer_control(exchange, control)

    def begin_transaction(self, context: ConnectionContext, xid: commands.TransactionId) -> None:
        self.next.begin_transaction(context, xid)

    def prepare_transaction(
        self, context: ConnectionContext, xid: commands.TransactionId
    ) -> int | Completion:
        return self.next.prepare_transaction(context, xid)

    def commit_transaction(
        self, context: ConnectionContext, xid: commands.TransactionId, one_phase: bool
    ) -> Completion | None:
        return self.next.commit_transaction(context, xid, one_phase)

    def rollback_transaction(
        self, context: ConnectionContext, xid: commands.TransactionId
    ) -> Completion | None:
        return self.next.rollback_transaction(context, xid)

    def forget_transaction(
        self, context: ConnectionContext, xid: commands.TransactionId
    ) -> Completion | None:
        return self.next.forget_transaction(context, xid)

    def set_rollback_only(
        self, context: ConnectionContext, xid: commands.TransactionId, cause: Exception
    ) -> None:
        self.next.set_rollback_only(context, xid, cause)

    def prepared_transactions(self, context: ConnectionContext) -> list[commands.XATransactionId]:
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
        cause: commands.Throwable | None,
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
