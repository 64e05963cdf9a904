"""Creation of many destinations over several loop turns, so that other clients are served.

One message can need a thousand new destinations if it is sent to a large composite, or to a virtual
destination that forwards to many. It waits until all of them exist and is then sent to all of them
in one turn. The send is therefore atomic for observers, and if one destination cannot be created,
the message is sent to none.

Meanwhile the broker reads nothing from the connection, so that later commands do not overtake the
message. Like a send that waits for space, it is pending work of its transaction, and fails when its
connection is closed. Messages sent by the broker itself never wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from anyio.lowlevel import checkpoint

from pyjms._wakeup import spawn
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ClientConnection, ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.internal_destinations import check_access

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

__all__ = ["CREATED_IN_ONE_TURN", "create_in_turns", "send_when_created"]

CREATED_IN_ONE_TURN: Final = 16
"""The number of destinations created before other clients are served: about 2 ms."""


async def create_in_turns(
    root: Broker,
    context: ConnectionContext,
    destinations: Sequence[Destination],
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Create the destinations that do not exist, as long as `is_wanted()` is true.

    Cancellable; destinations that were created remain.

    Raises:
        JMSException: one cannot be created.
    """
    for start in range(0, len(destinations), CREATED_IN_ONE_TURN):
        await checkpoint()
        if not is_wanted():
            return
        for destination in destinations[start : start + CREATED_IN_ONE_TURN]:
            check_access(context, destination)
            root.add_destination(context, destination)


def send_when_created(
    region: RegionBroker,
    exchange: ProducerExchange,
    message: ActiveMQMessage,
    destinations: Sequence[Destination],
    send: Callable[[], Completion],
) -> Completion:
    """Call `send`, which sends `message` to `destinations`, once they exist if many are missing."""
    connection = exchange.context.connection
    if connection is None or len(destinations) <= CREATED_IN_ONE_TURN:
        return send()
    missing = [each for each in destinations if not region.destinations_matching(each)]
    if len(missing) <= CREATED_IN_ONE_TURN:
        return send()
    waiting = _WaitingSend(exchange, message, send)
    waiting.start(region.root, connection, missing)
    return waiting.completion


class _WaitingSend:
    """A send that waits until its destinations exist (`BlockedSend`, `PendingWork`)."""

    def __init__(
        self, exchange: ProducerExchange, message: ActiveMQMessage, send: Callable[[], Completion]
    ) -> None:
        self.message = message
        self.transaction = exchange.transaction
        self.is_admitted = False
        self.completion = Completion()
        """Completed when the message is stored in all destinations, or the send has failed."""
        self._context = exchange.context
        self._send = send
        self._ended_waiting = Completion()

    def start(
        self, root: Broker, connection: ClientConnection, destinations: Sequence[Destination]
    ) -> None:
        """Create the destinations in the background, then send."""
        self._context.blocked_sends[self] = None
        if self.transaction is not None:
            self.transaction.add_pending(self)
        connection.pause_until(self._ended_waiting)
        self._task = spawn(
            self._create_and_send,
            root,
            destinations,
            name=f"creates {len(destinations)} destinations for {connection.remote_address}",
        )

    async def _create_and_send(self, root: Broker, destinations: Sequence[Destination]) -> None:
        try:
            await create_in_turns(root, self._context, destinations)
            sent = self._send()
        except Exception as error:
            self._failed(error)
            return
        self.is_admitted = True
        self._end_waiting()
        sent.then(lambda done: self.completion.complete(done.error))
        if self.transaction is not None:
            self.transaction.pending_finished(self)

    def abort(self, error: Exception) -> None:
        """Stop waiting, and fail with `error`."""
        self._task.cancel()
        self._failed(error)

    def transaction_rolled_back(self) -> None:
        """Stop waiting, because of a rollback. A required response is an error response."""
        self._task.cancel()
        self._end_waiting()
        error = JMSException("The transaction was rolled back while destinations were created")
        self.completion.complete(error if self.message.response_required else None)

    def _failed(self, error: Exception) -> None:
        self._end_waiting()
        self.completion.complete(error)
        if self.transaction is not None:
            self.transaction.pending_failed(self, error)

    def _end_waiting(self) -> None:
        self._context.blocked_sends.pop(self, None)
        self._ended_waiting.complete()
