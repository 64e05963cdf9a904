"""messageAuthorizationPolicy: a function that decides which messages consumers get.

(activemq-broker Z5)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo
from pyjms_broker.api.broker import Broker, PluginFilter
from pyjms_broker.api.context import ConnectionContext

__all__ = ["MessageAuthorizationPlugin", "MessagePolicy"]

logger = get_logger(__name__)

MessagePolicy = Callable[[ConnectionContext, ActiveMQMessage], bool]


@dataclass(frozen=True)
class MessageAuthorizationPlugin:
    """Calls a function for each message and consumer, along with the consumer's selector.

    A message that is not allowed is treated as if the selector did not match. The function runs
    on the broker's event loop and must not block; if it raises, the message is not allowed.
    `context.security` has the user and the groups. For a durable subscription the function is
    called when a message is added, while inactive with the rights of the last client. It is not
    called for one that no client has used since the start of the broker.
    Source: ActiveMQ MessageAuthorizationPolicy.

    Args:
        policy: returns whether the consumers of a connection may get a message.
    """

    policy: MessagePolicy

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return _MessageAuthorizationBroker(broker, self)


class _MessageAuthorizationBroker(PluginFilter[MessageAuthorizationPlugin]):
    """Sets the function in each connection's context."""

    _has_failed = False

    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        super().add_connection(context, info)
        context.message_policy = lambda message: self._may_consume(context, message)

    def _may_consume(self, context: ConnectionContext, message: ActiveMQMessage) -> bool:
        try:
            return self.plugin.policy(context, message)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                logger.exception(
                    "The message policy has failed: messages for which it fails are not allowed, "
                    "and further failures are not logged"
                )
            return False
