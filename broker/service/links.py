"""The filters around a broker's regions, in their order. (ActiveMQ B1)"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.advisory.filter import AdvisoryBroker
from broker.advisory.messages import AdvisoryProducer
from broker.api.broker import Broker
from broker.chain.composite import CompositeDestinationBroker
from broker.chain.stop_guard import StopGuard
from broker.chain.user_id import UserIDBroker
from broker.ranges.filter import RangesBroker
from broker.region.recovered import recovered_work
from broker.region.region_broker import RegionBroker
from broker.transaction.filter import TransactionBroker
from broker.virtual.interceptor import VirtualDestination
from broker.virtual.mirrored import MirroredQueue
from broker.virtual.topic import VirtualTopic

if TYPE_CHECKING:
    from broker.service.service import BrokerService

__all__ = ["BrokerPlugin", "chain_around", "virtual_destinations_of"]

BrokerPlugin = Callable[[Broker], Broker]
"""Puts a filter around the rest of the chain; the last one listed is the outermost (B1)."""


def chain_around(region: RegionBroker, service: BrokerService) -> Broker:
    """Put the filters around the region; the last one here sees every call first (B1)."""
    advisories = AdvisoryProducer(
        service.broker_name, service.broker_id, lambda: service.connect_uri
    )
    links: list[tuple[bool, BrokerPlugin]] = [
        (
            service.advisory_support,
            lambda inner: AdvisoryBroker(
                inner,
                advisories,
                region,
                anonymous_producers=service.anonymous_producer_advisory_support,
            ),
        ),
        (True, lambda inner: RangesBroker(inner, region)),
        (True, CompositeDestinationBroker),
        # outside that: what is ordered for several destinations is one job
        (service.scheduler_support, lambda inner: _scheduler(inner, region, service)),
        (
            True,
            lambda inner: TransactionBroker(
                inner,
                service.store_keeper.store.transaction_store(),
                lambda transaction: recovered_work(region, transaction),
            ),
        ),
        (service.populate_jmsx_user_id, UserIDBroker),
        *((True, plugin) for plugin in service.plugins),
        (True, StopGuard),
    ]
    broker: Broker = region
    for enabled, link in links:
        if enabled:
            broker = link(broker)
    return broker


def _scheduler(inner: Broker, region: RegionBroker, service: BrokerService) -> Broker:
    from broker.scheduler.filter import SchedulerBroker  # noqa: PLC0415 - few brokers have one

    store = service.store_keeper.job_store
    assert store is not None, "it is opened with the other stores"
    usage = service.system_usage.job_scheduler
    return SchedulerBroker(inner, region, store, usage, service.max_scheduler_repeat_allowed)


def virtual_destinations_of(service: BrokerService) -> list[VirtualDestination]:
    """Return the virtual destinations that the service's attributes ask for."""
    virtual = service.virtual_destinations
    if virtual is None:
        virtual = (VirtualTopic(),) if service.use_virtual_topics else ()
    mirrored = (
        (MirroredQueue(temporary=service.use_temp_mirrored_queues),)
        if service.use_mirrored_queues
        else ()
    )
    return [*mirrored, *virtual]
