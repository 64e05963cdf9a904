"""populateJMSXUserID: stamps each message with its sender's login name. (activemq-broker B5)"""

from __future__ import annotations

from broker.api.completion import Completion
from broker.api.exchange import ProducerExchange
from broker.api.filter import BrokerFilter
from pyjms.wire.openwire.commands import ActiveMQMessage

__all__ = ["UserIDBroker"]


class UserIDBroker(BrokerFilter):
    """Overwrites a message's user id, so that no client can claim another's name."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        user_name = exchange.context.user_name
        if message.user_id != user_name:
            message.user_id = user_name
            message.raw = None
        return self.next.send(exchange, message)
