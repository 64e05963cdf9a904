"""Admission of replies, which are read only once their destination has space.

A reply waits while the reply destination has no space, by its own limit or one of the broker's, as
a client's send would. Its contents are read from the store only afterwards, so waiting replies need
no memory. A reply to an empty queue does not wait, so that a reader whose trim would free the
exhausted memory can continue; at most 32 queues have one such reply.
"""

from __future__ import annotations

from typing import Final

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import IllegalStateException
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.internal_destinations import check_access
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.region.queue.queue import Queue

__all__ = ["AnswerSpace", "check_reply_destination"]

logger = get_logger(__name__)

_MAX_BEYOND: Final = 32
_CHECK_INTERVAL: Final = 1.0
"""Seconds until a waiting reply checks whether its queue has become empty."""
_LOG_PERIOD: Final = 60.0


def check_reply_destination(context: ConnectionContext, request: ActiveMQMessage) -> None:
    """Check that a request has a reply destination that its client may use.

    Raises:
        IllegalStateException: there is none, or it is a composite or reserved for the broker.
    """
    to = request.reply_to
    if to is None:
        raise IllegalStateException(f"A request to {request.destination} needs a reply destination")
    if to.is_composite or to.is_pattern:
        raise IllegalStateException(
            f"A request to {request.destination} needs a single reply destination, not {to}"
        )
    check_access(context, to)


class AnswerSpace:
    """Decides which replies may be sent now; the others wait."""

    def __init__(self, chain: Broker) -> None:
        self._chain = chain
        self._beyond: set[Queue] = set()
        """Queues that got a reply although there was no space."""
        self._next_log = 0.0

    async def wait_for(self, context: ConnectionContext, probe: ActiveMQMessage) -> None:
        """Wait until a reply like `probe` has space in its destination, which is created.

        Raises:
            JMSException: the destination does not exist, and the client may not create it.
        """
        while (full := self._full(context, probe)) is not None:
            destination, usage = full
            self._log(destination)
            more = anyio.Event()
            if isinstance(usage, DiskUsage):
                withdraw = usage.wait(more.set, destination.policy.store_usage_high_water_mark)
            else:
                withdraw = usage.wait(more.set)
            try:
                with _clock.timeout(_CHECK_INTERVAL):
                    await more.wait()
            finally:
                withdraw()

    def is_available(self, context: ConnectionContext, answer: ActiveMQMessage) -> bool:
        """Return whether a reply may be sent now.

        Raises:
            JMSException: as `wait_for`.
        """
        return self._full(context, answer) is None

    def _full(
        self, context: ConnectionContext, answer: ActiveMQMessage
    ) -> tuple[BaseDestination, MemoryUsage | DiskUsage] | None:
        to = answer.destination
        assert to is not None
        destination = self._chain.add_destination(context, to).base
        assert isinstance(destination, BaseDestination)
        usage = destination.full_usage(destination.reference_to(answer))
        if usage is None or self._may_exceed(destination):
            return None
        return destination, usage

    def _may_exceed(self, destination: BaseDestination) -> bool:
        if not isinstance(destination, Queue) or destination.statistics.messages:
            return False
        self._beyond = {each for each in self._beyond if each.statistics.messages}
        if len(self._beyond) >= _MAX_BEYOND:
            return False
        self._beyond.add(destination)
        return True

    def _log(self, destination: BaseDestination) -> None:
        now = _clock.now()
        if now >= self._next_log:
            self._next_log = now + _LOG_PERIOD
            logger.warning("%s has no space: answers to range requests wait", destination)
