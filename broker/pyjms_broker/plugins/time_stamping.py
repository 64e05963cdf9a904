"""timeStampingBrokerPlugin: sets messages' timestamps to the broker's time.

(activemq-broker 1.1)
"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms import _clock
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.filter import BrokerFilter
from pyjms_broker.attribute import duration, flag

__all__ = ["TimeStampingBrokerPlugin"]


@dataclass(frozen=True, kw_only=True)
class TimeStampingBrokerPlugin:
    """Sets JMSTimestamp to the broker's time. Source: ActiveMQ TimeStampingBrokerPlugin."""

    zero_expiration_override: float = duration(
        0.0, "Time to live of messages that have none; 0: they do not expire."
    )
    ttl_ceiling: float = duration(0.0, "Longest time to live; 0: unlimited.")
    future_only: bool = flag(
        "Whether a message is left unchanged if the change would make it expire earlier."
    )
    process_network_messages: bool = flag("Whether messages from other brokers are also stamped.")

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return TimeStampingBroker(broker, self)


class TimeStampingBroker(BrokerFilter):
    """Stamps clients' messages, unless their producer has disabled timestamps."""

    def __init__(self, next_broker: Broker, options: TimeStampingBrokerPlugin) -> None:
        super().__init__(next_broker)
        self._default_ttl = round(options.zero_expiration_override * 1000)
        self._ttl_ceiling = round(options.ttl_ceiling * 1000)
        self._future_only = options.future_only
        self._network_messages = options.process_network_messages

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if (
            message.timestamp > 0
            and not exchange.context.is_broker  # dead letters keep their times
            and (self._network_messages or not message.broker_path)
        ):
            self._stamp(message)
        return self.next.send(exchange, message)

    def _stamp(self, message: ActiveMQMessage) -> None:
        now = _clock.time_ms()
        old = message.expiration
        ttl = old - message.timestamp if old > 0 else self._default_ttl
        if 0 < self._ttl_ceiling < ttl:
            ttl = self._ttl_ceiling
        expiration = now + ttl
        if self._future_only and expiration <= old:
            return
        if ttl > 0:
            message.expiration = expiration
        message.timestamp = now
        message.raw = None
