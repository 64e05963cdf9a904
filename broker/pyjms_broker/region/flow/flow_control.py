"""What becomes of a message that comes while memory or a store is full: it waits, or is refused.

Those who wait come in in their order, when there is room. (activemq-broker M2, M3, M5, M7)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms import _clock, _wakeup
from pyjms.errors import JMSException, ResourceAllocationException
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.region.flow.system_usage import SystemUsage

if TYPE_CHECKING:
    from pyjms_broker.region.base_destination import BaseDestination

__all__ = ["FlowControl", "FlowControlledSend", "abort_blocked_sends"]

logger = logging.getLogger(__name__)


class FlowControl:
    """The waiting room of one destination."""

    def __init__(self, destination: BaseDestination, system_usage: SystemUsage) -> None:
        policy = destination.policy
        self._destination = destination
        self._fail_at_once = (
            system_usage.send_fail_if_no_space
            if policy.send_fail_if_no_space is None
            else policy.send_fail_if_no_space
        )
        self._fail_after = (
            system_usage.send_fail_if_no_space_after_timeout
            if policy.send_fail_if_no_space_after_timeout is None
            else policy.send_fail_if_no_space_after_timeout
        )
        self._warning_interval = policy.blocked_producer_warning_interval
        self._last_warning: float | None = None

    def wait_for_space(
        self, exchange: ProducerExchange, reference: MessageReference, full: MemoryUsage | DiskUsage
    ) -> Completion:
        """Let the message wait for room in `full`; done when it came in, or never will.

        Raises:
            ResourceAllocationException: the settings say that it shall not wait.
        """
        destination = self._destination
        destination.statistics.blocked_sends += 1
        network = exchange.context.network_connection
        if self._fail_at_once and not network:
            raise self._no_space(reference, full)
        self._warn(reference, full)
        parked = FlowControlledSend(destination, exchange, reference)
        parked.wait_for(full)
        exchange.context.blocked_sends[parked] = None
        if parked.transaction is not None:
            parked.transaction.add_pending(parked)
        if self._fail_after > 0 and not network:
            parked.timer = _wakeup.spawn(
                parked.give_up_after,
                self._fail_after,
                self._no_space(reference, full),
                name=f"parked send to {destination}",
            )
        return parked.completion

    def _no_space(
        self, reference: MessageReference, full: MemoryUsage | DiskUsage
    ) -> ResourceAllocationException:
        return ResourceAllocationException(
            f"{self._what(full)}. "
            f"Stopping producer ({reference.message.producer_id}) to prevent flooding "
            f"{self._destination if isinstance(full, DiskUsage) else 'it'}.",
            hint="consume faster, raise the limit, or let senders wait (send_fail_if_no_space)",
        )

    def _what(self, full: MemoryUsage | DiskUsage) -> str:
        if isinstance(full, DiskUsage):
            return full.trouble(self._destination.policy.store_usage_high_water_mark)
        return f"MemoryUsage Manager Memory Limit reached on {self._destination}"

    def _warn(self, reference: MessageReference, full: MemoryUsage | DiskUsage) -> None:
        now = _clock.now()
        last = self._last_warning
        if not self._warning_interval or (last is not None and now - last < self._warning_interval):
            return
        self._last_warning = now
        logger.warning(
            "%s: producer %s to %s waits for space",
            self._what(full),
            reference.message.producer_id,
            self._destination,
        )


def abort_blocked_sends(context: ConnectionContext) -> None:
    """Give up what waits for a client that is gone: nobody would hear how it ends."""
    for parked in tuple(context.blocked_sends):
        error = JMSException("Connection closed, send aborted.")
        parked.abort(error)
        if parked.transaction is not None:  # another connection's, which goes on
            parked.transaction.set_rollback_only(error)


class FlowControlledSend:
    """A message that waits for room. Its transaction does not end before it came in."""

    def __init__(
        self,
        destination: BaseDestination,
        exchange: ProducerExchange,
        reference: MessageReference,
    ) -> None:
        self.completion = Completion()
        self.forget: Callable[[], None] | None = None
        self.timer: _wakeup.BackgroundTask | None = None
        self._destination = destination
        self._context = exchange.context
        self._reference = reference
        self.message = reference.message
        self.is_admitted = False
        self.transaction: Transaction | None = exchange.transaction

    def wait_for(self, full: MemoryUsage | DiskUsage) -> None:
        """Wait until there is room in `full`."""
        if isinstance(full, DiskUsage):
            mark = self._destination.policy.store_usage_high_water_mark
            self.forget = full.wait(self.let_in, mark)
        else:
            self.forget = full.wait(self.let_in)

    async def give_up_after(self, seconds: float, error: Exception) -> None:
        """Fail with `error` after `seconds`."""
        await _clock.sleep(seconds)
        self.timer = None
        self.abort(error)

    def abort(self, error: Exception) -> None:
        """Wait no longer: the send failed."""
        self._leave()
        self._fail(error)

    def transaction_rolled_back(self) -> None:
        """Wait no longer: the transaction was rolled back. Whoever asked for an answer is told."""
        self._leave()
        asked = self.message.response_required
        self.completion.complete(
            JMSException("Send transaction completed while waiting for space") if asked else None
        )

    def _leave(self) -> None:
        if self.forget is not None:
            self.forget()
        self._waits_no_more()

    def _fail(self, error: Exception) -> None:
        self.completion.complete(error)
        if self.transaction is not None:
            self.transaction.pending_failed(self, error)

    def _waits_no_more(self) -> None:
        self._context.blocked_sends.pop(self, None)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def let_in(self) -> None:
        """Come in: there is room. If there is none elsewhere, wait for that."""
        full = self._destination.full_usage(self._reference)
        if full is not None and not self._destination.disposed:
            self.wait_for(full)
            return
        self._waits_no_more()
        try:
            stored = self._accept()
        except Exception as error:
            self._fail(error)
            return
        self.is_admitted = True
        if stored is None:
            self.completion.complete()
        else:
            stored.then(lambda done: self.completion.complete(done.error))
        if self.transaction is not None:
            self.transaction.pending_finished(self)

    def _accept(self) -> Completion | None:
        destination, context, reference = self._destination, self._context, self._reference
        if destination.disposed:
            raise ResourceAllocationException(
                f"{destination} was removed while a message waited for space"
            )
        if reference.is_expired():
            destination.expired(context, reference, None)
            return None
        return destination.accept(context, reference, self.transaction)
