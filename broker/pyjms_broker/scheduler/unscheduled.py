"""The filter of a broker without a scheduler, which warns about scheduled messages.

Like ActiveMQ, such a broker delivers them at once. Unlike ActiveMQ, it logs that once per
destination, with the name of the setting.
"""

from __future__ import annotations

from typing import Final

from pyjms._logger import get_logger
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.filter import BrokerFilter
from pyjms_broker.scheduler.schedule_properties import PREFIX, asks_for_schedule

__all__ = ["MAXIMUM_WARNINGS", "UnscheduledSendsBroker"]

logger = get_logger(__name__)

MAXIMUM_WARNINGS: Final = 100
"""The maximum number of logged destinations, whose names are chosen by clients."""


class UnscheduledSendsBroker(BrokerFilter):
    """Delivers scheduled messages at once, with a warning."""

    def __init__(self, next_broker: Broker) -> None:
        super().__init__(next_broker)
        self._warned: set[Destination] = set()

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        marshalled = message.marshalled_properties
        if marshalled is not None and PREFIX in marshalled and not exchange.context.is_broker:
            self._warn(message)
        return self.next.send(exchange, message)

    def _warn(self, message: ActiveMQMessage) -> None:
        to, warned = message.destination, self._warned
        if to is None or to in warned or len(warned) >= MAXIMUM_WARNINGS:
            return
        if asks_for_schedule(message):
            warned.add(to)
            logger.warning(
                "%s: a message with a delay or schedule (AMQ_SCHEDULED_*) is delivered at once, "
                "because this broker has no scheduler; set scheduler_support: true (in a URL: "
                "schedulerSupport=true)",
                to,
            )
