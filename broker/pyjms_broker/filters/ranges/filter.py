"""The broker filter that intercepts range requests.

What executes them (`requests`) is imported for the first request, or at the start of a broker with
progress records, because few brokers get any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination, Queue
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo
from pyjms_broker.api.access import RANGES
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.region.region_broker import RegionBroker

if TYPE_CHECKING:
    from pyjms_broker.filters.ranges.requests import RangeRequests


PROGRESS_RECORDS: Final = Queue("PyJMS.Ranges.Marks")
"""The queue of the progress records."""


class RangesBroker(BrokerFilter):
    """Serves the queue `PyJMS.Ranges`."""

    passes_plain = True

    def __init__(self, next_broker: Broker, region: RegionBroker) -> None:
        super().__init__(next_broker)
        self._region = region
        self._requests: RangeRequests | None = None

    @property
    def requests(self) -> RangeRequests:
        """The requests of all connections."""
        if self._requests is None:
            from pyjms_broker.filters.ranges.requests import RangeRequests  # noqa: PLC0415 - see above

            self._requests = RangeRequests(self.next, self._region)
        return self._requests

    async def start(self) -> None:
        await self.next.start()
        if PROGRESS_RECORDS in self._region.destinations():
            self.requests.leases.attach()

    async def stop(self) -> None:
        if self._requests is not None:
            await self._requests.stop()
        await self.next.stop()

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        if self._requests is not None:
            self._requests.remove_connection(context)
        self.next.remove_connection(context, info, error)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        if self._requests is not None and self._requests.leases.is_leased(destination):
            raise IllegalStateException(
                f"{destination} is being read by its numbers",
                hint="stop the pipeline that reads it first",
            )
        self.next.remove_destination(context, destination, timeout)
        if self._requests is not None:
            self._requests.progress.forget(destination)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if message.destination != RANGES:
            return self.next.send(exchange, message)
        if exchange.transaction is not None:
            raise IllegalStateException(f"A request to {RANGES} cannot be part of a transaction")
        self.requests.begin(exchange.context, message)
        return COMPLETED
