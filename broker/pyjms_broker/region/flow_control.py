"""Producer flow control: sends wait, or are refused, while memory or a store is full.

Theory of operation
-------------------

`BaseDestination.send` calls `full_usage` before it accepts a message. The first usage without space
decides: the memory of the destination (or of the broker above it), or else the store or temp store
that the message would need. The limits are soft: a message is accepted if there is any space, so
the last one may exceed the limit by its size.

    state of a send     event                                       next state
    ==================  ==========================================  =============================
    (new)               nothing is full                             accepted
    (new)               full; send_fail_if_no_space, and not from   refused: the send raises
                        another broker
    (new)               full otherwise                              waiting for that usage
    waiting             that usage has space, nothing else is full  accepted
    waiting             that usage has space, another is full       waiting for the other one
    waiting             send_fail_if_no_space_after_timeout passed  failed
    waiting             its connection is closed                    failed (`abort_blocked_sends`)
    waiting             its transaction is rolled back              withdrawn
    waiting             its destination is removed                  failed, when it is its turn
    waiting             its time to live has passed                 expired, when it is its turn

Invariants:

- Waiting needs neither a thread nor a task: a waiting send is a callback in the usage and a
  `Completion`, from which the connector makes the client's response. Only the timeout needs a task.
- Sends that wait for one usage are admitted in the order in which they began to wait. Each checks
  again whether there is space, because its predecessor may have used it up.
- A waiting send of a transaction is pending work of the transaction: a commit waits until the send
  was admitted or has failed. See `pyjms_broker.filters.transactions`.
- Messages that the broker itself sends (dead letters, advisories) never wait: consuming a message,
  which frees memory, may require sending one.
- A failed store does not make sends wait: each send gets its error at once.

Waiters are called when memory is released (`MemoryUsage.decrease`), so admission is immediate, and
costs nothing while no send waits. The size of a store changes elsewhere (journal cleanup,
checkpoints), so `DiskUsage` polls it once a second, but only while a send waits; ActiveMQ polls all
usages. A new send does not overtake those that wait for memory: they are admitted within
`decrease`, until none waits or memory is full again.

A send also waits while many destinations are created, over several loop turns, so that other
clients are served: a large composite or a virtual destination can need a thousand. It is sent to
all of them in one turn, which is atomic for observers; if one cannot be created, it is sent to
none. Meanwhile the broker reads nothing from the connection, so that later commands do not overtake
the message.

(ActiveMQ BaseDestination.waitForSpace, Queue.sendMessage; activemq-broker M2, M3, M5, M7)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from anyio.lowlevel import checkpoint

from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ClientConnection, ConnectionContext, ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.names import check_access
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.region.system_usage import DiskUsage

if TYPE_CHECKING:
    from pyjms_broker.region.base_destination import BaseDestination
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)


def wait_for_space(
    destination: BaseDestination,
    exchange: ProducerExchange,
    reference: MessageReference,
    full: MemoryUsage | DiskUsage,
) -> Completion:
    """Make a send wait for space in `full`; completed when it is accepted or has failed.

    Raises:
        ResourceAllocationException: `send_fail_if_no_space` is set.
    """
    destination.statistics.blocked_sends += 1
    network = exchange.context.network_connection
    policy, broker_wide = destination.policy, destination.broker.system_usage
    fail_at_once, fail_after = (
        policy.send_fail_if_no_space,
        policy.send_fail_if_no_space_after_timeout,
    )
    if fail_at_once is None:
        fail_at_once = broker_wide.send_fail_if_no_space
    if fail_after is None:
        fail_after = broker_wide.send_fail_if_no_space_after_timeout
    if fail_at_once and not network:
        raise _no_space(destination, reference, full)
    _warn(destination, reference, full)
    blocked = FlowControlledSend(destination, exchange, reference)
    blocked.wait_for(full)
    if fail_after > 0 and not network:
        blocked.timer = spawn(
            blocked.fail_after,
            fail_after,
            _no_space(destination, reference, full),
            name=f"timeout of a blocked send to {destination}",
        )
    return blocked.completion


def _no_space(
    destination: BaseDestination, reference: MessageReference, full: MemoryUsage | DiskUsage
) -> ResourceAllocationException:
    return ResourceAllocationException(
        f"{_reason(destination, full)}. "
        f"Stopping producer ({reference.message.producer_id}) to prevent flooding "
        f"{destination if isinstance(full, DiskUsage) else 'it'}.",
        hint="consume faster, raise the limit, or set send_fail_if_no_space to false",
    )


def _reason(destination: BaseDestination, full: MemoryUsage | DiskUsage) -> str:
    if isinstance(full, DiskUsage):
        return full.reason(destination.policy.store_usage_high_water_mark)
    return f"MemoryUsage Manager Memory Limit reached on {destination}"


def _warn(
    destination: BaseDestination, reference: MessageReference, full: MemoryUsage | DiskUsage
) -> None:
    now, last = _clock.now(), destination.blocked_warning_time
    interval = destination.policy.blocked_producer_warning_interval
    if not interval or (last is not None and now - last < interval):
        return
    destination.blocked_warning_time = now
    logger.warning(
        "%s: producer %s to %s waits for space",
        _reason(destination, full),
        reference.message.producer_id,
        destination,
    )


def abort_blocked_sends(context: ConnectionContext) -> None:
    """Fail the waiting sends of a closed connection, whose responses nobody receives."""
    for blocked in tuple(context.blocked_sends):
        error = JMSException("Connection closed, send aborted.")
        blocked.abort(error)
        if blocked.transaction is not None:  # an XA one of another connection remains open
            blocked.transaction.set_rollback_only(error)


class WaitingSend:
    """A send that waits (`BlockedSend`). Its transaction cannot end before it is admitted."""

    ROLLED_BACK: ClassVar[str] = "Send transaction completed while waiting for space"

    def __init__(self, exchange: ProducerExchange, message: ActiveMQMessage) -> None:
        """Begin to wait."""
        self.completion = Completion()
        """Completed when the message is stored, or the send has failed."""
        self.message = message
        self.is_admitted = False
        self.transaction: Transaction | None = exchange.transaction
        self._context = exchange.context
        self._context.blocked_sends[self] = None
        if self.transaction is not None:
            self.transaction.add_pending(self)

    def abort(self, error: Exception) -> None:
        """Stop waiting, and fail with `error`."""
        self._stop_waiting()
        self._fail(error)

    def transaction_rolled_back(self) -> None:
        """Stop waiting, because of a rollback. A required response is an error response."""
        self._stop_waiting()
        error = JMSException(self.ROLLED_BACK)
        self.completion.complete(error if self.message.response_required else None)

    def _stop_waiting(self) -> None:
        """Stop waiting without being admitted."""
        self._context.blocked_sends.pop(self, None)

    def _fail(self, error: Exception) -> None:
        self.completion.complete(error)
        if self.transaction is not None:
            self.transaction.pending_failed(self, error)

    def _succeed(self, stored: Completion) -> None:
        self.is_admitted = True
        stored.then(lambda done: self.completion.complete(done.error))
        if self.transaction is not None:
            self.transaction.pending_finished(self)


class FlowControlledSend(WaitingSend):
    """A send that waits for space."""

    def __init__(
        self, destination: BaseDestination, exchange: ProducerExchange, reference: MessageReference
    ) -> None:
        super().__init__(exchange, reference.message)
        self.timer: BackgroundTask | None = None
        self._withdraw: Callable[[], None] | None = None
        self._destination = destination
        self._exchange = exchange
        self._producer = exchange.outer or exchange
        self._producer.blocked_sends += 1
        self._reference = reference
        self._since = _clock.now()

    def wait_for(self, full: MemoryUsage | DiskUsage) -> None:
        """Wait until there is space in `full`."""
        if isinstance(full, DiskUsage):
            mark = self._destination.policy.store_usage_high_water_mark
            self._withdraw = full.wait(self.admit, mark)
        else:
            self._withdraw = full.wait(self.admit)
            self._destination.broker.memory_relief.repeat()

    async def fail_after(self, seconds: float, error: Exception) -> None:
        """Fail with `error` after `seconds`."""
        await _clock.sleep(seconds)
        self.timer = None
        self.abort(error)

    def _stop_waiting(self) -> None:
        if self._withdraw is not None:
            self._withdraw()
        self._unregister()

    def _unregister(self) -> None:
        if self._context.blocked_sends.pop(self, self) is None:
            statistics = self._destination.statistics
            waited = (_clock.now() - self._since) * 1000
            statistics.blocked_time += waited
            self._producer.blocked_time += waited
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def admit(self) -> None:
        """Accept the message, because there is space; if another usage is full, wait for that."""
        full = self._destination.full_usage(self._reference)
        if full is not None and not self._destination.disposed:
            self.wait_for(full)
            return
        self._unregister()
        try:
            stored = self._accept()
        except Exception as error:
            self._fail(error)
        else:
            self._succeed(stored)

    def _accept(self) -> Completion:
        destination, reference = self._destination, self._reference
        if destination.disposed:
            raise ResourceAllocationException(
                f"{destination} was removed while a send waited for space",
                hint="send again: the destination is created again",
            )
        if reference.is_expired():
            destination.on_expired(self._context, reference, None)
            return reference.dead_letter
        return destination.accept(self._exchange, reference)


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
