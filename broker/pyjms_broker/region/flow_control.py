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

(ActiveMQ BaseDestination.waitForSpace, Queue.sendMessage; activemq-broker M2, M3, M5, M7)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop as _wakeup
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.region.system_usage import DiskUsage

if TYPE_CHECKING:
    from pyjms_broker.region.base_destination import BaseDestination

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
        blocked.timer = _wakeup.spawn(
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
        self.timer: _wakeup.BackgroundTask | None = None
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
