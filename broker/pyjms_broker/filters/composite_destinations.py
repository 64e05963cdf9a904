"""Composite destinations: a send or a producer on `a,b,c` becomes one per member.

Consumers are not split: one subscription matches several destinations. (activemq-broker B4)

One message can need a thousand new destinations if it is sent to a large composite, or to a virtual
destination that forwards to many. They are created over several loop turns, so that other clients
are served. The message waits until all of them exist and is then sent to all of them in one turn.
The send is therefore atomic for observers, and if one destination cannot be created, the message is
sent to none.

Meanwhile the broker reads nothing from the connection, so that later commands do not overtake the
message. Like a send that waits for space, it is pending work of its transaction, and fails when its
connection is closed. Messages sent by the broker itself never wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from anyio.lowlevel import checkpoint

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.runtime.event_loop import spawn
from pyjms.wire.openwire.commands import ActiveMQMessage, ConsumerInfo, ProducerInfo
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion, all_of
from pyjms_broker.api.context import ClientConnection, ConnectionContext, ProducerExchange
from pyjms_broker.api.message import copy_command, copy_for_destination
from pyjms_broker.api.names import check_access
from pyjms_broker.region.flow_control import WaitingSend

if TYPE_CHECKING:
    from pyjms_broker.api.subscription import Subscription
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


MAXIMUM_MEMBERS = 1000
"""The maximum number of members of a composite, which bounds the work of one short command."""


class CompositeDestinationBroker(BrokerFilter):
    """Splits sends and producers on composite destinations into one per member."""

    def __init__(self, next_broker: Broker, region: RegionBroker) -> None:
        super().__init__(next_broker)
        self._region = region

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        if info.destination is not None:
            members_of(info.destination)
        return self.next.add_consumer(context, info)

    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        for part in _split(info):
            self.next.add_producer(context, part)

    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        for part in _split(info):
            self.next.remove_producer(context, part)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        destination = message.destination
        if destination is None or not destination.is_composite:
            return self.next.send(exchange, message)
        first, *others = members_of(destination)

        def send() -> Completion:
            copies = [copy_for_destination(message, member, destination) for member in others]
            message.destination = first
            message.original_destination = destination
            message.raw = None
            return all_of([self._send_one(exchange, part) for part in (message, *copies)])

        return send_when_created(self._region, exchange, message, (first, *others), send)

    def _send_one(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        part = exchange.for_forwarding()
        return self.next.send(part, message)


def _split(info: ProducerInfo) -> list[ProducerInfo]:
    destination = info.destination
    if destination is None or not destination.is_composite:
        return [info]
    return [_with_destination(info, member) for member in members_of(destination)]


def members_of(destination: Destination) -> tuple[Destination, ...]:
    """Return the members of a composite.

    Raises:
        InvalidDestinationException: there are none, or more than `MAXIMUM_MEMBERS`.
    """
    if destination.physical_name.count(",") >= MAXIMUM_MEMBERS:
        raise InvalidDestinationException(
            f"A composite destination has more than {MAXIMUM_MEMBERS} members",
            hint="send to several smaller composites",
        )
    members = destination.composite_destinations
    if not members:
        raise InvalidDestinationException(
            f"The composite destination {destination} has no members",
            hint="name the destinations, separated by commas",
        )
    return members


def _with_destination(info: ProducerInfo, destination: Destination) -> ProducerInfo:
    part = copy_command(info)
    part.destination = destination
    return part
