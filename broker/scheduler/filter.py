"""The filter that keeps messages back until their time. (ActiveMQ SchedulerBroker; B1, S1 to S9)"""

from __future__ import annotations

from broker.chain.copies import readdressed
from broker.completion import Completion
from broker.context import ConnectionContext, ProducerExchange
from broker.filter import Broker, BrokerFilter
from broker.region.disk_usage import DiskUsage
from broker.region.flow_control import abort_parked
from broker.region.region_broker import RegionBroker
from broker.scheduler.deliveries import Deliveries
from broker.scheduler.duplicates import of_one_destination
from broker.scheduler.firing import Firing
from broker.scheduler.intake import SCHEDULED, Intake
from broker.scheduler.management import Management, is_management
from broker.scheduler.orders import read_order
from broker.store.jobs.api import JobSchedulerStore
from pyjms import _wakeup
from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo

__all__ = ["SchedulerBroker"]


class SchedulerBroker(BrokerFilter):
    """Has a job store, which is open while this runs."""

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
        self._context = ConnectionContext()
        """Its deliveries wait for space, as a client's sends do."""
        self._context.is_broker = True
        jobs, deliveries = store.scheduler(), Deliveries()
        self._firing = Firing(store, jobs, deliveries, self._deliver)
        self._intake = Intake(region, next_broker, jobs, usage, self._firing.wake)
        self._management = Management(jobs, deliveries, next_broker)
        self._clock: _wakeup.BackgroundTask | None = None

    async def start(self) -> None:
        await self.next.start()
        self._intake.attach()
        self._clock = _wakeup.spawn(self._firing.run, name="message scheduler")

    async def stop(self) -> None:
        self._firing.close()
        if self._clock is not None:
            self._clock.cancel()
            await self._clock.wait()
        await self._management.close()
        abort_parked(self._context)
        await self.next.stop()

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        self._management.forget(context)
        self.next.remove_connection(context, info, error)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        if destination == SCHEDULED:
            raise IllegalStateException(f"{destination} is what the scheduler takes in")
        self.next.remove_destination(context, destination, timeout)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        if is_management(message.destination):
            self._management.serve(exchange.context, message)
            return None
        if message.destination == SCHEDULED:
            raise IllegalStateException(
                f"{SCHEDULED} is what the scheduler takes in",
                hint="send to the destination itself, with AMQ_SCHEDULED_DELAY",
            )
        order = read_order(message, self._max_repeat_allowed)
        if order is None or message.destination is None:
            return self.next.send(exchange, message)
        part = ProducerExchange(exchange.context, exchange.info)
        copy = readdressed(message, SCHEDULED, message.destination)
        of_one_destination(copy, message.destination)
        return self.next.send(part, copy)

    def _deliver(self, message: ActiveMQMessage) -> Completion | None:
        return self.next.send(ProducerExchange(self._context), message)
