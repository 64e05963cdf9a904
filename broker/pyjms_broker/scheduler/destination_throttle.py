"""Sending of due messages, subject to flow control like a client's sends."""

from __future__ import annotations

from pyjms.errors import DestinationDoesNotExistException, InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion, checked
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.region.flow.flow_control import abort_blocked_sends
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.scheduler.reserved_queues import check_target

__all__ = ["DestinationThrottle"]


class DestinationThrottle:
    """Sends in a separate connection context, which has no more rights than a client's."""

    def __init__(self, chain: Broker, region: RegionBroker) -> None:
        self._chain = chain
        self._region = region
        self._context = ConnectionContext()

    def check(self, message: ActiveMQMessage) -> None:
        """Check that a message can be delivered.

        Raises:
            JMSException: its destination is missing, reserved for the broker, or a deleted
                temporary one.
        """
        to = message.destination
        if to is None:
            raise InvalidDestinationException("A job must have a destination")
        check_target(to)
        if self._is_deleted(to):
            raise DestinationDoesNotExistException(
                to.qualified_name, hint=f"The destination {to} does not exist."
            )

    def send(self, message: ActiveMQMessage) -> Completion:
        """Send a message; completed when the message is stored."""
        return checked(
            self._chain.send(ProducerExchange(self._context), message), self._chain, "send"
        )

    def close(self) -> None:
        """Abort the sends that wait for space."""
        abort_blocked_sends(self._context)

    def _is_deleted(self, to: Destination) -> bool:
        region = self._region
        if not to.is_temporary or to.is_composite or region.allow_temp_auto_creation_on_send:
            return False
        return not region.destinations_matching(to)
