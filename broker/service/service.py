"""BrokerService: one broker, embedded or as a server.

Make it, name its connectors, `async with` it. It belongs to the loop that started it.
Attributes are ActiveMQ's with ActiveMQ's defaults, in snake_case. (ActiveMQ 1.1 to 1.3)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from broker.api.broker import Broker
from broker.api.context import ConnectionContext
from broker.connector.base import TransportConnector, stop_all
from broker.connector.connection_registry import ConnectionRegistry
from broker.connector.registry import create_connector
from broker.connector.vm import registry as vm_registry
from broker.policy.map import PolicyMap
from broker.region import usage
from broker.region.region_broker import RegionBroker
from broker.service.configured import ServiceConfiguration
from broker.service.io_errors import IOExceptionHandler
from broker.service.links import BrokerPlugin, chain_around, virtual_destinations_of
from broker.service.persistence import (
    DEFAULT_DATA_DIRECTORY,
    KahaDBPersistenceFactory,
    PersistenceFactory,
)
from broker.service.store_keeper import StoreKeeper
from broker.service.uri import read_broker_uri
from broker.store.api import PersistenceAdapter
from broker.virtual.interceptor import VirtualDestination, VirtualDestinationInterceptor
from pyjms import _clock
from pyjms._ids import IdGenerator
from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerId, ProducerId

__all__ = ["BrokerPlugin", "BrokerService"]

logger = logging.getLogger(__name__)

_NO_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9._:-]")


class BrokerService:
    """A broker with its connectors, started and stopped as one.

    Args:
        broker_name: unique in the process; characters outside `[a-zA-Z0-9._:-]` become `_`.
        persistent: whether messages outlive the process, in a store on the disk.
        data_directory: where brokers keep what they keep, each in a folder of its name.
        store_directory: where this one's store lies; None: in its folder, such as
            `activemq-data/localhost/KahaDB`.
        persistence: makes the store; None: KahaDB with its defaults.
        persistence_adapter: a store of your own instead; `persistent` does not matter then.
        delete_all_messages_on_startup: begin with an empty store.
        io_exception_handler: what an error of the store leads to.
        advisory_support: tell clients of connections, destinations, consumers and producers;
            Java clients send to no temporary destination without it.
        anonymous_producer_advisory_support: tell of producers without a destination, too.
        use_virtual_topics: have `VirtualTopic.>` feed the queues `Consumer.*.VirtualTopic.>`.
        virtual_destinations: instead of that one; the default is gone then (V8).
        use_mirrored_queues: send what comes to a queue to `VirtualTopic.Mirror.<queue>` first.
        use_temp_mirrored_queues: temporary queues as well.
        populate_jmsx_user_id: stamp each message with the login name of its sender.
        allow_temp_auto_creation_on_send: make an unknown temporary destination at send.
        rollback_only_on_async_exception: a oneway command that fails in a transaction makes
            its commit fail.
        memory_limit: bytes of messages held in all; senders wait above it.
        store_limit: bytes on the disk; senders of persistent messages wait above it; 0: none.
        temp_limit: the same for other messages that memory has no room for.
        job_scheduler_limit: the same for messages with orders.
        send_fail_if_no_space: let them fail instead of wait.
        send_fail_if_no_space_after_timeout: seconds to wait before they fail; 0: for ever.
        restart_allowed: whether `start` may follow `stop`.
        maximum_destinations: how many there may be; temporary ones and advisories' count.
        scheduler_support: keep messages with `AMQ_SCHEDULED_DELAY` and the like until their time.
        max_scheduler_repeat_allowed: the highest `AMQ_SCHEDULED_REPEAT`.
        scheduler_directory: where these lie, of master and slave the same; None: in its folder.
        policies: what destinations do, by name; plugins: filters of your own.
        destinations: made at start.
    """

    def __init__(
        self,
        broker_name: str = "localhost",
        *,
        persistent: bool = True,
        data_directory: Path | str = DEFAULT_DATA_DIRECTORY,
        store_directory: Path | str | None = None,
        persistence: PersistenceFactory | None = None,
        persistence_adapter: PersistenceAdapter | None = None,
        delete_all_messages_on_startup: bool = False,
        io_exception_handler: IOExceptionHandler | None = None,
        advisory_support: bool = True,
        anonymous_producer_advisory_support: bool = False,
        use_virtual_topics: bool = True,
        virtual_destinations: Sequence[VirtualDestination] | None = None,
        use_mirrored_queues: bool = False,
        use_temp_mirrored_queues: bool = True,
        populate_jmsx_user_id: bool = False,
        allow_temp_auto_creation_on_send: bool = False,
        maximum_destinations: int = usage.MAXIMUM_DESTINATIONS,
        scheduler_support: bool = False,
        max_scheduler_repeat_allowed: int = 1000,
        scheduler_directory: Path | str | None = None,
        rollback_only_on_async_exception: bool = True,
        memory_limit: int = usage.MAIN_MEMORY_LIMIT,
        store_limit: int = usage.STORE_LIMIT,
        temp_limit: int = usage.TEMP_LIMIT,
        job_scheduler_limit: int = usage.JOB_SCHEDULER_LIMIT,
        send_fail_if_no_space: bool = False,
        send_fail_if_no_space_after_timeout: float = 0,
        restart_allowed: bool = True,
        policies: PolicyMap | None = None,
        plugins: Sequence[BrokerPlugin] = (),
        destinations: Sequence[Destination] = (),
    ) -> None:
        self.broker_name = broker_name
        self.persistent = persistent
        self.data_directory = Path(data_directory)
        self.store_directory = None if store_directory is None else Path(store_directory)
        self.persistence: PersistenceFactory = persistence or KahaDBPersistenceFactory()
        self.delete_all_messages_on_startup = delete_all_messages_on_startup
        self.io_exception_handler = io_exception_handler or IOExceptionHandler()
        self.advisory_support = advisory_support
        self.anonymous_producer_advisory_support = anonymous_producer_advisory_support
        self.use_virtual_topics = use_virtual_topics
        self.virtual_destinations = virtual_destinations
        self.use_mirrored_queues = use_mirrored_queues
        self.use_temp_mirrored_queues = use_temp_mirrored_queues
        self.populate_jmsx_user_id = populate_jmsx_user_id
        self.allow_temp_auto_creation_on_send = allow_temp_auto_creation_on_send
        self.maximum_destinations = maximum_destinations
        self.scheduler_support = scheduler_support
        self.max_scheduler_repeat_allowed = max_scheduler_repeat_allowed
        self.scheduler_directory = (
            None if scheduler_directory is None else Path(scheduler_directory)
        )
        self.rollback_only_on_async_exception = rollback_only_on_async_exception
        self.restart_allowed = restart_allowed
        self.restart_requested = False
        """Whether whoever runs it should start it again: it lost its store's lock. (H2)"""
        self.policies = policies or PolicyMap()
        self.plugins = tuple(plugins)
        self.destinations = tuple(destinations)
        self.system_usage = usage.SystemUsage(
            memory_limit,
            send_fail_if_no_space,
            send_fail_if_no_space_after_timeout,
            store_limit=store_limit,
            temp_limit=temp_limit,
            job_scheduler_limit=job_scheduler_limit,
        )
        self.broker_id = BrokerId(IdGenerator().generate())
        self.connections = ConnectionRegistry()
        self.connectors: list[TransportConnector] = []
        self._broker: Broker | None = None
        self._region: RegionBroker | None = None
        self.store_keeper = StoreKeeper(self, persistence_adapter)
        self._started_before = False
        self._opening: anyio.CancelScope | None = None
        self._stopped: anyio.Event | None = None
        self._stopping = False

    @classmethod
    def from_uri(cls, uri: str) -> BrokerService:
        """Make the broker that `broker:(tcp://h:p,...)/name?persistent=false` describes.

        Raises:
            ConfigurationException: the URI cannot be read, or asks for what is not built.
        """
        wanted = read_broker_uri(uri)
        keywords: dict[str, Any] = dict(wanted.keywords)
        service = cls(**keywords)
        for connector in wanted.connectors:
            service.add_connector(connector)
        return service

    @classmethod
    def from_settings(cls, settings: ServiceConfiguration) -> BrokerService:
        """Make the broker that a configuration file describes (`broker.settings`).

        Raises:
            ConfigurationException: nothing serves a connector's scheme.
        """
        service = cls(**settings.keywords())
        for connector in settings.connectors:
            made = service.add_connector(connector.uri, name=connector.name)
            made.allow_link_stealing = connector.allow_link_stealing
        return service

    @property
    def broker_name(self) -> str:
        """The name, with `_` for what names may not have. Set it before the start."""
        return self._broker_name

    @broker_name.setter
    def broker_name(self, name: str) -> None:
        self._broker_name = _NO_NAME_CHARACTER.sub("_", name)

    @property
    def broker(self) -> Broker:
        """The outermost link of the filter chain.

        Raises:
            IllegalStateException: the broker has not been started.
        """
        if self._broker is None:
            raise IllegalStateException("Broker has not been started", hint="await broker.start()")
        return self._broker

    @property
    def region_broker(self) -> RegionBroker:
        """The end of the chain, for statistics and for tests.

        Raises:
            IllegalStateException: the broker has not been started.
        """
        if self._region is None:
            raise IllegalStateException("Broker has not been started", hint="await broker.start()")
        return self._region

    @property
    def store_failed(self) -> bool:
        """Whether the store can promise nothing more. (K24)"""
        return self.store_keeper.failed

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest sequence number stored of a producer, -1 if unknown. (T27)"""
        return self.store_keeper.store.last_producer_sequence_id(producer_id)

    @property
    def slave(self) -> bool:
        """Whether the broker waits for another one's lock on the store (H3, H4)."""
        return self.store_keeper.is_slave

    @property
    def started(self) -> bool:
        """Whether the broker takes connections."""
        return self._stopped is not None and not self._stopped.is_set() and self._opening is None

    @property
    def vm_uri(self) -> str:
        """Where clients of this process connect to."""
        return f"vm://{self.broker_name}"

    @property
    def connect_uri(self) -> str:
        """Where clients connect to: the first connector, else `vm://`."""
        return self.connectors[0].connect_uri if self.connectors else self.vm_uri

    def add_connector(
        self, uri: str | TransportURI, *, name: str | None = None
    ) -> TransportConnector:
        """Add a door, such as `tcp://127.0.0.1:61616`, port 0 for any free one.

        It opens at `start`. On a broker that runs already, `await connector.start()`.

        Raises:
            ConfigurationException: the URI cannot be read, or nothing serves its scheme.
        """
        parsed = TransportURI.parse(uri) if isinstance(uri, str) else uri
        connector = create_connector(self, parsed, name)
        self.connectors.append(connector)
        return connector

    async def start(self) -> None:
        """Open the broker: store, regions, destinations, then the connectors (B7).

        Waits while another broker has the store's lock; nothing is open meanwhile, and `stop`
        ends the wait (H3, H4). A second call is ignored. A failure stops everything and is raised.

        Raises:
            ConfigurationException: an option of the store or of a connector is wrong.
            IllegalStateException: a broker of that name runs in this process already, or this
                one was stopped meanwhile, or was stopped before and may not be restarted.
            ResourceAllocationException: an address cannot be bound.
            JMSException: the store cannot be opened.
        """
        if self._stopped is not None and not self._stopped.is_set():
            return
        if self._started_before and not self.restart_allowed:
            raise IllegalStateException(f"Restart of broker '{self.broker_name}' is not allowed")
        self._started_before = True
        self.restart_requested = False
        self._stopped = anyio.Event()
        self._region = None
        self._opening = opening = anyio.CancelScope()
        try:
            with opening:
                await self._open()
            if opening.cancel_called:
                raise IllegalStateException(
                    f"Broker '{self.broker_name}' was stopped while it was starting"
                )
            self._opening = None
        except BaseException:
            self._opening = None
            await self.stop()
            raise

    async def stop(self, timeout: float | None = 10) -> None:
        """Close connectors, then regions and store (B9). Idempotent; not cancellable.

        Connections get `timeout` seconds in all to take what is queued for them. A start that
        is still going on is given up.
        """
        stopped = self._stopped
        if stopped is None or stopped.is_set():
            return
        if self._opening is not None:
            self._opening.cancel()
        if self._stopping or self._opening is not None:
            await stopped.wait()
            return
        self._stopping = True
        try:
            with anyio.CancelScope(shield=True):
                await self._close(timeout)
        finally:
            self._stopping = False
            stopped.set()
        logger.info("Broker %s stopped", self.broker_name)

    async def wait_until_stopped(self) -> None:
        """Wait for the end of the broker, whoever stops it; at once if it does not run."""
        if self._stopped is not None:
            await self._stopped.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _open(self) -> None:
        store = await self.store_keeper.open()
        self._region = region = RegionBroker(
            store,
            self.policies,
            self.broker_name,
            system_usage=self.system_usage,
            allow_temp_auto_creation_on_send=self.allow_temp_auto_creation_on_send,
            maximum_destinations=self.maximum_destinations,
            temp_store=self.store_keeper.temp_store,
        )
        virtual = virtual_destinations_of(self)
        if virtual:
            region.destination_interceptor = VirtualDestinationInterceptor(region, virtual)
        self._broker = broker = chain_around(region, self)
        region.root = broker
        await broker.start()
        self.store_keeper.say_what_is_stored(region)
        context = ConnectionContext()
        context.is_broker = True
        for destination in self.destinations:
            broker.add_destination(context, destination)
        vm_registry.register(self.broker_name, self)
        for connector in self.connectors:
            await connector.start()
            logger.info("Connector %s started: %s", connector.name, connector.connect_uri)
        logger.info("Broker %s started, at %s", self.broker_name, self.connect_uri)

    async def _close(self, timeout: float | None) -> None:
        try:
            with _clock.timeout(timeout) as scope:
                await self.store_keeper.leave_connectors_alone()
                await stop_all(self.connectors)
                await vm_registry.unregister(self.broker_name, self)
            if scope.cancelled_caught:
                logger.warning(
                    "Broker %s: connections did not close within %s s", self.broker_name, timeout
                )
        finally:
            await self._close_broker()

    async def _close_broker(self) -> None:
        await vm_registry.unregister(self.broker_name, self)
        try:
            if self._broker is not None:
                await self._broker.stop()
        finally:
            await self.store_keeper.close()
