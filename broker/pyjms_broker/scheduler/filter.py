"""The broker filter that intercepts scheduled messages and delivers them when due.

See `job_dispatcher` for the theory of operation. (ActiveMQ SchedulerBroker; activemq-broker B1, S1
to S9)
"""

from __future__ import annotations

from pyjms import _wakeup
from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.copying import copy_for_destination
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.filter import BrokerFilter
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.scheduler.deferred_fields import defer_fields
from pyjms_broker.scheduler.deliveries import Deliveries
from pyjms_broker.scheduler.destination_throttle import DestinationThrottle
from pyjms_broker.scheduler.job_dispatcher import JobDispatcher
from pyjms_broker.scheduler.management import Management, is_management
from pyjms_broker.scheduler.reserved_queues import SCHEDULED, check_source, check_target
from pyjms_broker.scheduler.schedule_properties import read_schedule
from pyjms_broker.scheduler.schedule_requests import ScheduleRequests
from pyjms_broker.store.jobs.api import JobSchedulerStore

__all__ = ["SchedulerBroker"]


class SchedulerBroker(BrokerFilter):
    """Schedules messages in a job store, which must be open from before `start` to after `stop`."""

    def __init__(
        self,
        next_broker: Broker,
        region: RegionBroker,
        store: JobSchedulerStore,
        usage: DiskUsage,
        max_repeat_allowed: int,
    ) -> None:
        super().__init__(next_broker)
        self._max_repeat_allowed = max_repeat_allowed
        jobs, deliveries = store.scheduler(), Deliveries()
        throttle = DestinationThrottle(next_broker, region)
        arriving: set[str] = set()
        self._dispatcher = JobDispatcher(store, deliveries, throttle, usage, arriving)
        self._requests = ScheduleRequests(
            region, next_broker, jobs, usage, arriving, self._dispatcher.wake
        )
        self._management = Management(jobs, deliveries, next_broker)
        self._dispatching: _wakeup.BackgroundTask | None = None

    @property
    def scheduler_support(self) -> bool:
        """Always True: messages are scheduled."""
        return True

    async def start(self) -> None:
        await self.next.start()
        self._requests.attach()
        self._dispatching = _wakeup.spawn(self._dispatcher.run, name="message scheduler")

    async def stop(self) -> None:
        await _wakeup.end_tasks(self._dispatching)
        await self._management.close()
        await self._dispatcher.close()
        await self.next.stop()

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        self._management.remove_connection(context)
        self.next.remove_connection(context, info, error)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        if destination == SCHEDULED:
            raise IllegalStateException(
                f"{destination} is reserved for the scheduler: it cannot be removed"
            )
        self.next.remove_destination(context, destination, timeout)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        to, context = message.destination, exchange.context
        # dead letters and advisories are never scheduled
        if to is None or (context.is_broker and not exchange.is_redelivery):
            return self.next.send(exchange, message)
        if is_management(to):
            return self._management.serve(context, message)
        check_source(to)
        if read_schedule(message, self._max_repeat_allowed) is None:
            return self.next.send(exchange, message)
        check_target(to)
        forwarding = exchange.for_internal()
        copy = copy_for_destination(message, SCHEDULED, to)
        defer_fields(copy, to, is_redelivery=exchange.is_redelivery)
        return self.next.send(forwarding, copy)
