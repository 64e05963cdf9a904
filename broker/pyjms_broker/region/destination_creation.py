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

from pyjms.jms.destination import Destination
from pyjms.runtime.event_loop import spawn
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ClientConnection, ConnectionContext, ProducerExchange
from pyjms_broker.api.names import check_access
from pyjms_broker.region.flow_control import WaitingSend

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

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
    waiting = _WaitingSend(exchange, message, send, connection)
    waiting.start(region.root, missing)
    return waiting.completion


class _WaitingSend(WaitingSend):
    """A send that waits until its destinations exist."""

    ROLLED_BACK = "The transaction was rolled back while destinations were created"

    def __init__(
        self,
        exchange: ProducerExchange,
        message: ActiveMQMessage,
        send: Callable[[], Completion],
        connection: ClientConnection,
    ) -> None:
        super().__init__(exchange, message)
        self._send = send
        self._connection = connection
        self._ended = Completion()
        connection.pause_until(self._ended)

    def start(self, root: Broker, destinations: Sequence[Destination]) -> None:
        """Create the destinations in the background, then send."""
        self._task = spawn(
            self._create_and_send,
            root,
            destinations,
            name=f"creates {len(destinations)} destinations for {self._connection.remote_address}",
        )

    async def _create_and_send(self, root: Broker, destinations: Sequence[Destination]) -> None:
        try:
            await create_in_turns(root, self._context, destinations)
            sent = self._send()
        except Exception as error:
            self._end_waiting()
            self._fail(error)
            return
        self.is_admitted = True  # before the commands behind it are handled
        self._end_waiting()
        self._succeed(sent)

    def _stop_waiting(self) -> None:
        self._task.cancel()
        self._end_waiting()

    def _end_waiting(self) -> None:
        super()._stop_waiting()
        self._ended.complete()
