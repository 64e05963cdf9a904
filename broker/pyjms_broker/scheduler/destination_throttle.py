"""The way of what is due into the broker. It waits for room there, as a client's sends do."""

from __future__ import annotations

from pyjms.errors import DestinationDoesNotExistException, InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.region.flow.flow_control import abort_blocked_sends
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.scheduler.addresses import check_target

__all__ = ["DestinationThrottle"]


class DestinationThrottle:
    """Sends in nobody's name, and with no more rights than a client has."""

    def __init__(self, chain: Broker, region: RegionBroker) -> None:
        self._chain = chain
        self._region = region
        self._context = ConnectionContext()

    def check(self, message: ActiveMQMessage) -> None:
        """Refuse what cannot be delivered, now or ever.

        Raises:
            JMSException: its destination is none, the broker's own, or a temporary one that
                is gone.
        """
        to = message.destination
        if to is None:
            raise InvalidDestinationException("A job must have a destination")
        check_target(to)
        if self._is_gone(to):
            raise DestinationDoesNotExistException(
                to.qualified_name, hint=f"The destination {to} does not exist."
            )

    def send(self, message: ActiveMQMessage) -> Completion | None:
        """Send a message; done when it is safe."""
        return self._chain.send(ProducerExchange(self._context), message)

    def close(self) -> None:
        """Give up what waits for room."""
        abort_blocked_sends(self._context)

    def _is_gone(self, to: Destination) -> bool:
        region = self._region
        if not to.is_temporary or to.is_composite or region.allow_temp_auto_creation_on_send:
            return False
        return not region.destinations_matching(to)
