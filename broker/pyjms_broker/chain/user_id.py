"""populateJMSXUserID: stamps each message with its sender's login name. (activemq-broker B5)"""

from __future__ import annotations

from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.filter import BrokerFilter

__all__ = ["UserIDBroker"]


class UserIDBroker(BrokerFilter):
    """Overwrites the user id of each message, so that clients cannot forge it."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        user_name = exchange.context.user_name
        if message.user_id != user_name:
            message.user_id = user_name
            message.raw = None
        return self.next.send(exchange, message)
