"""messageAuthorizationPolicy: a function decides what consumers get. (activemq-broker Z5)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyjms._logger import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.filter import PluginFilter

__all__ = ["MessageAuthorizationPlugin"]

logger = get_logger(__name__)

MessagePolicy = Callable[[ConnectionContext, ActiveMQMessage], bool]


@dataclass(frozen=True)
class MessageAuthorizationPlugin:
    """Asks a function for each message that may go to a consumer, together with its selector.

    A message that is not allowed is to this consumer as one that its selector does not match. The
    function runs on the broker's event loop and must not block; if it raises, the message is not
    allowed. `context.security` has the user and the groups. It is asked when a durable
    subscription gets a message, and while that is inactive with the rights of its last client;
    not while no client has used it since the start of the broker.
    Source: ActiveMQ MessageAuthorizationPolicy.

    Args:
        policy: returns whether the consumers of a connection may get a message.
    """

    policy: MessagePolicy

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return _MessageAuthorizationBroker(broker, self)


class _MessageAuthorizationBroker(PluginFilter[MessageAuthorizationPlugin]):
    """Gives each connection the function."""

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
