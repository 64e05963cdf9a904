"""Assembles the filters around a broker's region, in their order. (activemq-broker B1, B2)"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from pyjms.errors import IllegalStateException
from pyjms.runtime import clock as _clock
from pyjms.selector import SelectorLimits
from pyjms.selector.budget import SelectorMeter
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker, BrokerFilter, BrokerPlugin
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.filters.advisories import AdvisoryBroker
from pyjms_broker.filters.composite_destinations import CompositeDestinationBroker
from pyjms_broker.filters.offline_subscriptions import OfflineSubscriptionsBroker
from pyjms_broker.filters.ranges.filter import RangesBroker
from pyjms_broker.filters.scheduler.schedule_properties import UnscheduledSendsBroker
from pyjms_broker.filters.transactions import TransactionBroker
from pyjms_broker.filters.virtual_destinations import (
    MirroredQueue,
    VirtualDestination,
    VirtualDestinationInterceptor,
    VirtualTopic,
)
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.system_usage import DestinationLimits
from pyjms_broker.region.transaction_work import recovered_work
from pyjms_broker.service.configuration import BrokerConfiguration

if TYPE_CHECKING:
    from pyjms_broker.service.service import BrokerService


class ErrorBroker(Broker):
    """A stopped broker, which refuses every call. Source: ActiveMQ ErrorBroker."""

    @property
    def broker_name(self) -> str:
        """Refused like every call."""
        self._refuse()

    @property
    def scheduler_support(self) -> bool:
        """Always False."""
        return False

    async def start(self) -> None:
        self._refuse()

    async def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    @property
    def authenticates_clients(self) -> bool:
        return True  # nobody can connect

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise IllegalStateException("Broker has been stopped")

    authenticate = _refuse
    add_connection = _refuse
    remove_connection = _refuse
    add_session = _refuse
    remove_session = _refuse
    add_producer = _refuse
    remove_producer = _refuse
    add_consumer = _refuse
    remove_consumer = _refuse
    remove_subscription = _refuse
    add_destination_info = _refuse
    remove_destination_info = _refuse
    add_destination = _refuse
    remove_destination = _refuse
    send = _refuse
    is_awaited = _refuse
    acknowledge = _refuse
    message_pull = _refuse
    process_consumer_control = _refuse
    begin_transaction = _refuse
    prepare_transaction = _refuse
    commit_transaction = _refuse
    rollback_transaction = _refuse
    forget_transaction = _refuse
    set_rollback_only = _refuse
    prepared_transactions = _refuse
    message_expired = _refuse
    send_to_dead_letter_queue = _refuse
    message_consumed = _refuse
    message_discarded = _refuse
    slow_consumer = _refuse
    message_delivered = _refuse
    message_dispatched = _refuse
    message_without_consumers = _refuse
    fast_producer = _refuse
    destination_full = _refuse
    now_master_broker = _refuse
    network_bridge_started = _refuse
    network_bridge_stopped = _refuse
    network_forward_failed = _refuse
    destinations = _refuse


class StopGuard(BrokerFilter):
    """Passes all calls on until it is stopped, and refuses them afterwards.

    It must be the outermost filter: a filter around it might be wired to bypass it (see
    BrokerFilter).
    """

    async def stop(self) -> None:
        try:
            await self.next.stop()
        finally:
            self.connect(ErrorBroker())


# --- populateJMSXUserID: sets the sender's user id in each message. (activemq-broker B5)


class UserIDBroker(BrokerFilter):
    """Overwrites the user id of each message, so that clients cannot forge it.

    It is the login name or, with `of_principal`, the name of the authenticated user; these differ
    with client certificates and mapped logins.
    """

    def __init__(self, next_broker: Broker, *, of_principal: bool = False) -> None:
        super().__init__(next_broker)
        self._of_principal = of_principal

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        context = exchange.context
        security = context.security if self._of_principal else None
        user_name = context.user_name if security is None else security.user_name
        if message.user_id != user_name:
            message.user_id = user_name
            message.raw = None
        return self.next.send(exchange, message)


def create_region(config: BrokerService) -> RegionBroker:
    """Create the innermost broker of the chain, with the opened store."""
    rate = config.maximum_selector_steps_per_second
    region = RegionBroker(
        config.stores.store,
        config.policies or PolicyMap(),
        config.broker_name,
        system_usage=config.system_usage,
        allow_temp_auto_creation_on_send=config.allow_temp_auto_creation_on_send,
        destination_limits=DestinationLimits(
            maximum=config.maximum_destinations,
            per_connection=config.maximum_destinations_per_connection,
            per_user=config.maximum_destinations_per_user,
            purge_period=config.schedule_period_for_destination_purge,
            purge_maximum=config.max_purged_destinations_per_sweep,
        ),
        selector_limits=SelectorLimits(
            config.maximum_selector_steps,
            config.maximum_selector_characters,
            nodes=config.maximum_selector_nodes,
            depth=config.maximum_selector_depth,
        ),
        selector_meter=SelectorMeter(rate, _clock.now) if rate else None,
        temp_store=config.stores.temp_store,
    )
    region.own_path = frozenset((config.broker_id,))
    region.expires_for_active_durables = config.enable_message_expiration_on_active_durable_subs
    region.keep_durable_subs_active = config.keep_durable_subs_active
    region.reject_durable_consumers = config.reject_durable_consumers
    if _virtual_destinations(config):
        intercept_destinations(region, config)
    return region


def intercept_destinations(region: RegionBroker, config: BrokerConfiguration) -> None:
    """Apply the virtual destinations of `config` to all destinations from now on."""
    interceptor = VirtualDestinationInterceptor(region, _virtual_destinations(config))
    region.destination_interceptor = interceptor
    region.queue_consumer_added = interceptor.queue_consumer_added
    region.change_filters(interceptor)


def build_filter_chain(region: RegionBroker, config: BrokerService) -> Broker:
    """Wrap the region in the filters; the one that is added last sees every call first.

    Plug-ins are outside all filters that may change a message, and inside the guard that refuses
    calls once the broker stops. Their filters are recorded in `config.plugin_filters`.
    """
    broker: Broker = region
    if config.advisory_support:
        broker = AdvisoryBroker(
            broker,
            region,
            config.broker_id,
            lambda: config.connect_uri,
            anonymous_producers=config.anonymous_producer_advisory_support,
            virtual_sources=_virtual_destinations(config) if config.use_virtual_dest_subs else (),
            virtual_demand_of_queues=config.use_virtual_dest_subs_on_creation,
        )
    timeout = config.offline_durable_subscriber_timeout
    period = config.offline_durable_subscriber_task_schedule
    if timeout > 0 and period > 0:
        broker = OfflineSubscriptionsBroker(broker, region, timeout, period)
    broker = RangesBroker(broker, region)
    broker = CompositeDestinationBroker(broker, region)
    # outside that filter: a message scheduled for several destinations is one job
    broker = _add_scheduler(broker, region, config)
    transactions = config.stores.store.transaction_store()
    broker = TransactionBroker(broker, transactions, lambda found: recovered_work(region, found))
    if config.populate_jmsx_user_id:
        of_principal = config.use_authenticated_principal_for_jmsx_user_id
        broker = UserIDBroker(broker, of_principal=of_principal)
    if config.monitor_connection_splits:
        from pyjms_broker.network.networks import ConnectionSplitBroker  # noqa: PLC0415 - few brokers have one

        broker = ConnectionSplitBroker(broker, config.networks.demand)
    return StopGuard(_install_plugins(broker, config))


def _install_plugins(broker: Broker, config: BrokerService) -> Broker:
    """Install the plug-ins in their order, but those last that convert names.

    Rights are checked inside of them, so that they are those on the converted names.
    """
    installed: dict[int, Broker] = {}
    for index, plugin in sorted(
        enumerate(config.plugins), key=lambda each: getattr(each[1], "converts_names", False)
    ):
        broker = installed[index] = _install(plugin, broker, config)
    config.plugin_filters[:] = [installed[index] for index in range(len(installed))]
    return broker


def _install(
    plugin: BrokerPlugin | Callable[[Broker], Broker], broker: Broker, config: BrokerService
) -> Broker:
    if callable(plugin):  # a filter class, or a function that returns a filter
        return plugin(broker)
    # imported here, so that a broker without plug-ins starts without its views
    from pyjms_broker.management import ManagedPlugin  # noqa: PLC0415

    if isinstance(plugin, ManagedPlugin):
        return plugin.install_managed_plugin(broker, management=config.management)
    return plugin.install_plugin(broker)


def _add_scheduler(broker: Broker, region: RegionBroker, config: BrokerService) -> Broker:
    if not config.scheduler_support:
        return UnscheduledSendsBroker(broker)
    from pyjms_broker.filters.scheduler.filter import SchedulerBroker  # noqa: PLC0415 - few brokers have one

    store = config.stores.job_store
    assert store is not None, "opened with the other stores"
    usage = region.system_usage.job_scheduler
    return SchedulerBroker(broker, region, store, usage, config.max_scheduler_repeat_allowed)


def _virtual_destinations(config: BrokerConfiguration) -> list[VirtualDestination]:
    """Return the virtual destinations that the broker's attributes enable."""
    virtual = config.virtual_destinations
    if virtual is None:
        virtual = (VirtualTopic(),) if config.use_virtual_topics else ()
    if not config.use_mirrored_queues:
        return [*virtual]
    return [MirroredQueue(temporary=config.use_temp_mirrored_queues), *virtual]
