"""populateJMSXUserID: sets the sender's user id in each message. (activemq-broker B5)"""

from __future__ import annotations

from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange


class UserIDBroker(BrokerFilter):
    """Overwrites the user id of each message, so that clients cannot forge it.

    It is the login name or, with `of_principal`, the name of the authenticated user; these differ
    with client certificates and mapped logins.
    """

    def __init__(self, next_broker: Broker, *, of_principal: bool = False) -> None:
        super().__init__(next_broker)
        self._of_principal = of_principal

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        context = exchange.context
        security = context.security if self._of_principal else None
        user_name = context.user_name if security is None else security.user_name
        if message.user_id != user_name:
            message.user_id = user_name
            message.raw = None
        return self.next.send(exchange, message)
