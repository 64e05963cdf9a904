"""BrokerService: one broker, embedded or as a server.

Make it, name its connectors, `async with` it. It belongs to the loop that started it.
Attributes are ActiveMQ's with ActiveMQ's defaults, in snake_case. (ActiveMQ 1.1 to 1.3)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import anyio

from broker.advisory.filter import AdvisoryBroker
from broker.advisory.messages import AdvisoryProducer
from broker.chain.composite import CompositeDestinationBroker
from broker.chain.stop_guard import StopGuard
from broker.chain.user_id import UserIDBroker
from broker.connector import vm_registry
from broker.connector.base import ConnectionRegistry, TransportConnector
from broker.connector.registry import create_connector
from broker.context import ConnectionContext
from broker.filter import Broker
from broker.policy.map import PolicyMap
from broker.region.region_broker import RegionBroker
from broker.region.usage import MAIN_MEMORY_LIMIT, SystemUsage
from broker.service.configured import ServiceConfiguration
from broker.service.uri import read_broker_uri
from broker.store.memory import MemoryPersistenceAdapter
from broker.transaction.filter import TransactionBroker
from broker.virtual.interceptor import VirtualDestination, VirtualDestinationInterceptor
from broker.virtual.mirrored import MirroredQueue
from broker.virtual.topic import VirtualTopic
from pyjms import _clock
from pyjms._ids import IdGenerator
from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerId

__all__ = ["BrokerPlugin", "BrokerService"]

logger = logging.getLogger(__name__)

BrokerPlugin = Callable[[Broker], Broker]
"""Puts a filter around the rest of the chain; the last one listed is the outermost (B1)."""

_NO_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9._:-]")


class BrokerService:
    """A broker with its connectors, started and stopped as one.

    Args:
        broker_name: unique in the process; characters outside `[a-zA-Z0-9._:-]` become `_`.
        persistent: whether messages outlive the process. Refused at start for now: give False.
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
        send_fail_if_no_space: let them fail instead of wait.
        send_fail_if_no_space_after_timeout: seconds to wait before they fail; 0: for ever.
        restart_allowed: whether `start` may follow `stop`.
        policies: what destinations do, by name.
        plugins: filters of your own.
        destinations: made at start.

    """

    def __init__(
        self,
        broker_name: str = "localhost",
        *,
        persistent: bool = True,
        advisory_support: bool = True,
        anonymous_producer_advisory_support: bool = False,
        use_virtual_topics: bool = True,
        virtual_destinations: Sequence[VirtualDestination] | None = None,
        use_mirrored_queues: bool = False,
        use_temp_mirrored_queues: bool = True,
        populate_jmsx_user_id: bool = False,
        allow_temp_auto_creation_on_send: bool = False,
        rollback_only_on_async_exception: bool = True,
        memory_limit: int = MAIN_MEMORY_LIMIT,
        send_fail_if_no_space: bool = False,
        send_fail_if_no_space_after_timeout: float = 0,
        restart_allowed: bool = True,
        policies: PolicyMap | None = None,
        plugins: Sequence[BrokerPlugin] = (),
        destinations: Sequence[Destination] = (),
    ) -> None:
        self.broker_name = broker_name
        self.persistent = persistent
        self.advisory_support = advisory_support
        self.anonymous_producer_advisory_support = anonymous_producer_advisory_support
        self.use_virtual_topics = use_virtual_topics
        self.virtual_destinations = virtual_destinations
        self.use_mirrored_queues = use_mirrored_queues
        self.use_temp_mirrored_queues = use_temp_mirrored_queues
        self.populate_jmsx_user_id = populate_jmsx_user_id
        self.allow_temp_auto_creation_on_send = allow_temp_auto_creation_on_send
        self.rollback_only_on_async_exception = rollback_only_on_async_exception
        self.restart_allowed = restart_allowed
        self.policies = policies or PolicyMap()
        self.plugins = tuple(plugins)
        self.destinations = tuple(destinations)
        self.system_usage = SystemUsage(
            memory_limit, send_fail_if_no_space, send_fail_if_no_space_after_timeout
        )
        self.broker_id = BrokerId(IdGenerator().generate())
        self.connections = ConnectionRegistry()
        self.connectors: list[TransportConnector] = []
        self._broker: Broker | None = None
        self._region: RegionBroker | None = None
        self._store: MemoryPersistenceAdapter | None = None
        self._started_before = False
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
            service.add_connector(connector.uri, name=connector.name)
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
    def started(self) -> bool:
        """Whether the broker takes connections."""
        return self._stopped is not None and not self._stopped.is_set()

    @property
    def vm_uri(self) -> str:
        """Where clients of this process connect to."""
        return f"vm://{self.broker_name}"

    @property
    def connect_uri(self) -> str:
        """Where clients connect to: the first connector, or `vm://` if there is none."""
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

        A second call is ignored. A failure stops everything and is raised.

        Raises:
            ConfigurationException: `persistent` is set, or a connector's option is wrong.
            IllegalStateException: a broker of that name runs in this process already, or this
                one was stopped and may not be restarted.
            ResourceAllocationException: an address cannot be bound.

        """
        if self.started:
            return
        if self.persistent:
            raise ConfigurationException(
                f"Broker '{self.broker_name}' was to be persistent, and this version keeps "
                "messages in memory only",
                hint="start with persistent=False, vm://name?broker.persistent=false, "
                "or --ephemeral on the command line",
            )
        if self._started_before and not self.restart_allowed:
            raise IllegalStateException(f"Restart of broker '{self.broker_name}' is not allowed")
        self._started_before = True
        self._stopped = anyio.Event()
        try:
            await self._open()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, timeout: float | None = 10) -> None:
        """Close connectors, then regions and store (B9). Idempotent; not cancellable.

        Connections get `timeout` seconds to take what is queued for them.
        """
        stopped = self._stopped
        if stopped is None or stopped.is_set():
            return
        if self._stopping:
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
        self._store = store = MemoryPersistenceAdapter()
        await store.start()
        self._region = region = RegionBroker(
            store,
            self.policies,
            self.broker_name,
            system_usage=self.system_usage,
            allow_temp_auto_creation_on_send=self.allow_temp_auto_creation_on_send,
        )
        virtual = self._virtual_destinations()
        if virtual:
            region.destination_interceptor = VirtualDestinationInterceptor(region, virtual)
        self._broker = broker = self._chain(region, store)
        region.root = broker
        await broker.start()
        context = ConnectionContext()
        context.is_broker = True
        for destination in self.destinations:
            broker.add_destination(context, destination)
        vm_registry.register(self.broker_name, self)
        for connector in self.connectors:
            await connector.start()
            logger.info("Connector %s started: %s", connector.name, connector.connect_uri)
        logger.info("Broker %s started, at %s", self.broker_name, self.connect_uri)

    def _chain(self, region: RegionBroker, store: MemoryPersistenceAdapter) -> Broker:
        """Put the filters around the region; the last one here sees every call first (B1)."""
        advisories = AdvisoryProducer(self.broker_name, self.broker_id, lambda: self.connect_uri)
        links: list[tuple[bool, BrokerPlugin]] = [
            (
                self.advisory_support,
                lambda inner: AdvisoryBroker(
                    inner,
                    advisories,
                    region,
                    anonymous_producers=self.anonymous_producer_advisory_support,
                ),
            ),
            (True, CompositeDestinationBroker),
            (True, lambda inner: TransactionBroker(inner, store.transaction_store())),
            (self.populate_jmsx_user_id, UserIDBroker),
            *((True, plugin) for plugin in self.plugins),
            (True, StopGuard),
        ]
        broker: Broker = region
        for enabled, link in links:
            if enabled:
                broker = link(broker)
        return broker

    def _virtual_destinations(self) -> list[VirtualDestination]:
        virtual = self.virtual_destinations
        if virtual is None:
            virtual = (VirtualTopic(),) if self.use_virtual_topics else ()
        mirrored = (
            (MirroredQueue(temporary=self.use_temp_mirrored_queues),)
            if self.use_mirrored_queues
            else ()
        )
        return [*mirrored, *virtual]

    async def _close(self, timeout: float | None) -> None:
        try:
            with _clock.timeout(timeout) as scope:
                for connector in reversed(self.connectors):
                    await connector.stop()
                await vm_registry.unregister(self.broker_name, self)
            if scope.cancelled_caught:
                logger.warning(
                    "Broker %s: connections did not close within %s s", self.broker_name, timeout
                )
        finally:
            await self._close_broker()

    async def _close_broker(self) -> None:
        await vm_registry.unregister(self.broker_name, self)
        if self._broker is not None:
            await self._broker.stop()
        if self._store is not None:
            await self._store.stop()
