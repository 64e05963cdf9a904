"""Commands from a broker other than messages and responses. (openwire-encoding 15)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.interfaces import DispatchTarget, WindowedProducer
from pyjms.errors import JMSException
from pyjms.transport.openwire import from_throwable
from pyjms.wire.openwire.commands import (
    BrokerId,
    BrokerInfo,
    Command,
    ConnectionControl,
    ConsumerControl,
    ConsumerId,
    ProducerAck,
    ProducerId,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand

__all__ = ["BrokerCommands"]


class _Connection(Protocol):
    """The part of a connection that these commands affect."""

    consumers: dict[ConsumerId, DispatchTarget]
    producers: dict[ProducerId, WindowedProducer]
    optimizes_acks: bool


class BrokerCommands:
    """Handles these commands for one connection."""

    def __init__(
        self,
        connection: _Connection,
        report: Callable[[JMSException], None],
        spawn: Callable[..., object],
    ) -> None:
        self._connection = connection
        self._report = report
        self._spawn = spawn
        self.handlers: Mapping[type[Command], Callable[[Any], None]] = {
            ProducerAck: self._on_producer_ack,
            ConnectionErrorCommand: self._on_connection_error,
            ConsumerControl: self._on_consumer_control,
            ConnectionControl: self._on_connection_control,
            BrokerInfo: self._on_broker_info,
        }
        """The handlers by command type; other commands are ignored."""
        self.broker_id: BrokerId | None = None
        """The id of the present broker; None before BrokerInfo has been received."""

    def _on_producer_ack(self, ack: ProducerAck) -> None:
        producer = self._connection.producers.get(ack.producer_id)  # type: ignore[arg-type]
        if producer is not None:
            producer.on_producer_ack(ack.size)

    def _on_connection_error(self, command: ConnectionErrorCommand) -> None:
        self._report(from_throwable(command.exception))

    def _on_consumer_control(self, control: ConsumerControl) -> None:
        consumer = self._connection.consumers.get(control.consumer_id)  # type: ignore[arg-type]
        if not isinstance(consumer, ActiveMQMessageConsumer):
            return
        if control.close:
            # The broker removes the consumer within a second. If the application still has its
            # messages, it ends later: then a RemoveInfo would be an error, also after a failover.
            consumer.is_removed_by_broker = bool(consumer.ledger.delivered)
            self._spawn(consumer.close)
        else:
            consumer.info.prefetch_size = control.prefetch

    def _on_connection_control(self, control: ConnectionControl) -> None:
        self._on_fault_tolerance(control.fault_tolerant)

    def _on_broker_info(self, info: BrokerInfo) -> None:
        self.broker_id = info.broker_id
        self._on_fault_tolerance(info.fault_tolerant_configuration)

    def _on_fault_tolerance(self, shares_store: bool) -> None:
        if shares_store:
            self._connection.optimizes_acks = False
