"""The queue in which orders come in: from here they become jobs.

A message with an order is first a message like any other, of the queue `PyJMS.Scheduled`: part
of its transaction, parked while there is no room, known again after a failover. When it is
stored and visible it becomes a job, and leaves the queue when that is on the disk. A crash in
between finds it here; its job has the same id, so there is one of it. (ActiveMQ X8, S1, S9)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from broker.chain.copies import readdressed
from broker.completion import Completion
from broker.filter import Broker
from broker.region.disk_usage import DiskUsage
from broker.region.message import MessageReference
from broker.region.queue import Queue
from broker.region.region_broker import RegionBroker
from broker.scheduler.duplicates import as_sent
from broker.scheduler.orders import read_order
from broker.store.jobs.api import ScheduledJob
from broker.store.jobs.scheduler import JobScheduler
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.destination import Queue as QueueDestination
from pyjms.wire.openwire.commands import ActiveMQMessage

__all__ = ["SCHEDULED", "Intake"]

logger = logging.getLogger(__name__)

SCHEDULED: Final = QueueDestination("PyJMS.Scheduled")
_ANY_NUMBER: Final = 1 << 31
"""What came in was checked; a limit that was lowered since does not undo it."""


class Intake:
    """The queue's `reader`: nobody else gets its messages, and all of them are stored."""

    is_leased = True

    def __init__(
        self,
        region: RegionBroker,
        chain: Broker,
        jobs: JobScheduler,
        usage: DiskUsage,
        on_job: Callable[[], None],
    ) -> None:
        """Have `jobs` take what comes while `usage` has room; `on_job` is called for each."""
        self._region = region
        self._chain = chain
        self._jobs = jobs
        self._usage = usage
        self._on_job = on_job

    def attach(self) -> None:
        """Make the queue, and jobs of what a crash has left in it."""
        queue = self._queue()
        queue.pause()
        queue.reader = self
        if queue.needs_disk:
            self._usage.parent = queue.store_usage
            queue.store_usage = self._usage
        left = queue.browse()
        if left:
            logger.info("%d scheduled messages go on from where a crash stopped them", len(left))
        for reference in left:
            self.arrived(reference)

    # what the queue asks
    def arrived(self, reference: MessageReference) -> None:
        """Make a job of a message; a failure leaves it here, until the next start."""
        message = reference.message
        target = message.original_destination
        try:
            done = None if target is None else self._add(message, target)
        except Exception:
            logger.exception("%s: message %s cannot be scheduled", SCHEDULED, reference.message_id)
            return
        if done is None:
            self._leaves(reference)
        else:
            done.then(lambda end: self._stored(reference, end))

    def keeps(self, reference: MessageReference) -> bool:
        """Its time to live begins when it is delivered (S5)."""
        return True

    def may_purge(self) -> bool:
        logger.warning("%s is what the scheduler takes in: it is not purged", SCHEDULED)
        return False

    def _add(self, message: ActiveMQMessage, target: Destination) -> Completion | None:
        copy = readdressed(message, target, None)
        copy.transaction_id = None
        copy.raw = None
        as_sent(copy, target)
        return self._jobs.add(self._job(message), copy)

    def _job(self, message: ActiveMQMessage) -> ScheduledJob:
        order = read_order(message, _ANY_NUMBER)
        if order is None:
            raise JMSException(f"{message.message_id} orders nothing")
        return order.job(str(message.message_id), message.broker_in_time)

    def _stored(self, reference: MessageReference, end: Completion) -> None:
        if end.error is None:
            self._leaves(reference)
        else:
            logger.error("The job of %s is not stored: %s", reference.message_id, end.error)

    def _leaves(self, reference: MessageReference) -> None:
        queue, context = self._queue(), self._region.context
        held = queue.contents.in_memory(reference)
        if held is None:
            queue.remove_outside(context, reference)
        else:
            queue.dispatcher.forget(held)
            queue.store_removal(context, held)
            queue.drop(held)
        self._on_job()

    def _queue(self) -> Queue:
        queue = self._chain.add_destination(self._region.context, SCHEDULED).base
        assert isinstance(queue, Queue)
        return queue
