"""Assembles the filters around a broker's region, in their order. (activemq-broker B1)"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pyjms.selector import SelectorLimits
from pyjms.wire.openwire.commands import BrokerId
from pyjms_broker.api.broker import Broker, BrokerPlugin
from pyjms_broker.filters.advisories import AdvisoryBroker, AdvisoryProducer
from pyjms_broker.filters.composite_destinations import CompositeDestinationBroker
from pyjms_broker.filters.offline_subscriptions import OfflineSubscriptionsBroker
from pyjms_broker.filters.ranges.filter import RangesBroker
from pyjms_broker.filters.scheduler.schedule_properties import UnscheduledSendsBroker
from pyjms_broker.filters.stop_guard import StopGuard
from pyjms_broker.filters.transactions import TransactionBroker
from pyjms_broker.filters.user_id import UserIDBroker
from pyjms_broker.filters.virtual_topics import (
    VirtualDestination,
    VirtualDestinationInterceptor,
    VirtualTopic,
)
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.selector_meter import SelectorMeter
from pyjms_broker.region.system_usage import DestinationLimits, SystemUsage
from pyjms_broker.region.transaction_work import recovered_work
from pyjms_broker.service.configuration import BrokerConfiguration
from pyjms_broker.service.stores import BrokerStores

if TYPE_CHECKING:
    from pyjms_broker.management import Management

__all__ = [
    "build_filter_chain",
    "create_region",
    "intercept_destinations",
    "virtual_destinations_of",
]


def create_region(
    config: BrokerConfiguration, broker_id: BrokerId, stores: BrokerStores, usage: SystemUsage
) -> RegionBroker:
    """Create the innermost broker of the chain, with the opened store."""
    rate = config.maximum_selector_steps_per_second
    region = RegionBroker(
        stores.store,
        config.policies or PolicyMap(),
        config.broker_name,
        system_usage=usage,
        allow_temp_auto_creation_on_send=config.allow_temp_auto_creation_on_send,
        destination_limits=DestinationLimits(
            maximum=config.maximum_destinations,
            per_connection=config.maximum_destinations_per_connection,
            per_user=config.maximum_destinations_per_user,
            purge_period=config.schedule_period_for_destination_purge,
            purge_maximum=config.max_purged_destinations_per_sweep,
        ),
        selector_limits=SelectorLimits(
            config.maximum_selector_steps, config.maximum_selector_characters
        ),
        selector_meter=SelectorMeter(rate) if rate else None,
        temp_store=stores.temp_store,
    )
    region.own_path = frozenset((broker_id,))
    region.expires_for_active_durables = config.enable_message_expiration_on_active_durable_subs
    if virtual_destinations_of(config):
        intercept_destinations(region, config)
    return region


def intercept_destinations(region: RegionBroker, config: BrokerConfiguration) -> None:
    """Apply the virtual destinations of `config` to all destinations from now on."""
    interceptor = VirtualDestinationInterceptor(region, virtual_destinations_of(config))
    region.destination_interceptor = interceptor
    region.queue_consumer_added = interceptor.queue_consumer_added
    region.change_filters(interceptor)


def build_filter_chain(
    region: RegionBroker,
    config: BrokerConfiguration,
    stores: BrokerStores,
    advisories: AdvisoryProducer,
    management: Callable[[], Management],
) -> Broker:
    """Wrap the region in the filters; the last one in the list below sees every call first.

    The filters of plug-ins are recorded in `config.configured`; `management` returns the views,
    for the plug-ins that need them.

    Plug-ins are outside all filters that may change a message, and inside the guard that refuses
    calls once the broker stops. (activemq-broker B1)
    """
    config.configured.filters.clear()
    filters: list[tuple[bool, Callable[[Broker], Broker]]] = [
        (
            config.advisory_support,
            lambda inner: AdvisoryBroker(
                inner,
                advisories,
                region,
                anonymous_producers=config.anonymous_producer_advisory_support,
                virtual_sources=virtual_destinations_of(config)
                if config.use_virtual_dest_subs
                else (),
                virtual_demand_of_queues=config.use_virtual_dest_subs_on_creation,
            ),
        ),
        (
            config.offline_durable_subscriber_timeout > 0
            and config.offline_durable_subscriber_task_schedule > 0,
            lambda inner: OfflineSubscriptionsBroker(
                inner,
                region,
                config.offline_durable_subscriber_timeout,
                config.offline_durable_subscriber_task_schedule,
            ),
        ),
        (True, lambda inner: RangesBroker(inner, region)),
        (True, lambda inner: CompositeDestinationBroker(inner, region)),
        # outside that filter: a message scheduled for several destinations is one job
        (True, lambda inner: _scheduler(inner, region, config, stores)),
        (
            True,
            lambda inner: TransactionBroker(
                inner,
                stores.store.transaction_store(),
                lambda transaction: recovered_work(region, transaction),
            ),
        ),
        (
            config.populate_jmsx_user_id,
            lambda inner: UserIDBroker(
                inner, of_principal=config.use_authenticated_principal_for_jmsx_user_id
            ),
        ),
        *(
            (True, _noted(_installer_of(plugin, management), config.configured.filters))
            for plugin in config.plugins
        ),
        (True, StopGuard),
    ]
    broker: Broker = region
    for enabled, install in filters:
        if enabled:
            broker = install(broker)
    return broker


def _installer_of(
    plugin: BrokerPlugin | Callable[[Broker], Broker], management: Callable[[], Management]
) -> Callable[[Broker], Broker]:
    if callable(plugin):  # a filter class, or a function that returns a filter
        return plugin
    # imported here, so that a broker without plug-ins starts without its views
    from pyjms_broker.management import ManagedPlugin  # noqa: PLC0415

    if isinstance(plugin, ManagedPlugin):
        return partial(plugin.install_managed_plugin, management=management())
    return plugin.install_plugin


def _noted(
    install: Callable[[Broker], Broker], installed: list[Broker]
) -> Callable[[Broker], Broker]:
    def install_and_note(inner: Broker) -> Broker:
        installed.append(install(inner))
        return installed[-1]

    return install_and_note


def _scheduler(
    inner: Broker, region: RegionBroker, config: BrokerConfiguration, stores: BrokerStores
) -> Broker:
    if not config.scheduler_support:
        return UnscheduledSendsBroker(inner)
    from pyjms_broker.filters.scheduler.filter import SchedulerBroker  # noqa: PLC0415 - few brokers have one

    store = stores.job_store
    assert store is not None, "opened with the other stores"
    usage = region.system_usage.job_scheduler
    return SchedulerBroker(inner, region, store, usage, config.max_scheduler_repeat_allowed)


def virtual_destinations_of(config: BrokerConfiguration) -> list[VirtualDestination]:
    """Return the virtual destinations that the broker's attributes enable."""
    virtual = config.virtual_destinations
    if virtual is None:
        virtual = (VirtualTopic(),) if config.use_virtual_topics else ()
    if not config.use_mirrored_queues:
        return [*virtual]
    from pyjms_broker.filters.mirrored_queues import MirroredQueue  # noqa: PLC0415 - few brokers have them

    return [MirroredQueue(temporary=config.use_temp_mirrored_queues), *virtual]
