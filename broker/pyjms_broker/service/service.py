"""BrokerService: one broker, embedded or as a server.

Create it, add connectors, and start it with `async with`. Use it only on the event loop that
started it. Attributes have ActiveMQ's names in snake_case. (activemq-broker 1.1 to 1.3)

Its states:

    state      start() leads to                  stop() leads to     entered by
    ---------  --------------------------------  ------------------  -----------------------------
    CREATED    STARTING                          nothing to do       creation
    STARTING   nothing to do                     a cancelled start,  start()
                                                 which is STOPPING
    RUNNING    nothing to do                     STOPPING            a start that has succeeded
    STOPPING   nothing to do                     the end of it       stop(), a start that failed
    STOPPED    STARTING with `restart_allowed`,  nothing to do       the end of STOPPING, whether
               else an error                                         it failed or not
    INHERITED  an error                          nothing to do       a fork, in the child process,
                                                                     of a broker that was started

A stop cancels only a start; STOPPING always ends in STOPPED. A caller of `stop` waits for that end,
even if another caller requested it. (activemq-broker B7, B9)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio

from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.runtime import clock as _clock
from pyjms.runtime.build import build_name
from pyjms.runtime.distribution import install_command
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.fork import inherited_error, inherits
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.runtime.watchdog import LoopWatchdog, watch_loop
from pyjms.transport.unsent import UnsentBudget
from pyjms.transport.uri import TransportURI
from pyjms.wire.limits import FrameBudget
from pyjms.wire.openwire.commands import BrokerId, ProducerId
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.connector.base import TransportConnector, stop_all
from pyjms_broker.connector.connection_registry import ConnectionRegistry
from pyjms_broker.connector.registry import create_connector
from pyjms_broker.connector.vm import registry as vm_registry
from pyjms_broker.network.networks import Networks
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.service.configuration import BrokerConfiguration, run_hooks, run_stop_hooks
from pyjms_broker.service.filter_chain import build_filter_chain, create_region
from pyjms_broker.service.stores import BrokerStores, require_started
from pyjms_broker.service.uri import BrokerURI, keywords_from, read_broker_uri
from pyjms_broker.service.usage_limits import check_disk, check_memory, system_usage_of

if TYPE_CHECKING:
    from pyjms_broker.management import Management
    from pyjms_broker.management.history import History
    from pyjms_broker.management.host import ManagedBroker
    from pyjms_broker.network import NetworkConnector, NetworkConnectorAttributes
    from pyjms_broker.settings import BrokerLoggingSettings, BrokerSettings, ConnectorSettings
    from pyjms_broker.settings.runtime import RuntimeConfiguration
    from pyjms_broker.store.jobs.scheduler import JobSchedulerStore
    from pyjms_broker.web import WebConfiguration
    from pyjms_broker.web.server import WebServer

logger = get_logger(__name__)

_FORBIDDEN_IN_NAMES = re.compile(r"[^a-zA-Z0-9._:-]")
_STOP_TIMEOUT = 10


class BrokerState(Enum):
    """The state of a broker; the module has the transitions."""

    CREATED = auto()
    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()
    STOPPED = auto()
    INHERITED = auto()

    @property
    def is_in_use(self) -> bool:
        """Whether the broker is starting, running or stopping."""
        return self in (BrokerState.STARTING, BrokerState.RUNNING, BrokerState.STOPPING)


class Website:
    """Starts and stops the web server of a broker that is configured with `web`.

    It listens before the store is open, so that it can answer health checks while the broker is a
    slave or replays its journal.
    """

    def __init__(self, host: ManagedBroker) -> None:
        self._host = host
        self._server: WebServer | None = None

    @property
    def url(self) -> str | None:
        """The URL of the web server; None if there is none."""
        return None if self._server is None else self._server.url

    @property
    def history(self) -> History | None:
        """What is recorded of the started broker; None: nothing."""
        return None if self._server is None else self._server.history

    async def start(self, configuration: WebConfiguration | None) -> None:
        """Start the web server, if one is configured."""
        self._server = None
        if configuration is None or not configuration.enabled:
            return
        try:
            # imported only when needed: few embedded brokers have a web server
            from pyjms_broker.web.server import WebServer  # noqa: PLC0415
        except ImportError as error:
            raise ConfigurationException(
                f"web: the web server needs a package that is not installed: {error.name}",
                hint=install_command("web"),
            ) from error
        server = WebServer(self._host, configuration)
        self._server = server
        await server.start()

    def on_broker_started(self, directory: Path | None) -> None:
        """Refuse a public web server without users, log its URL, and begin its history.

        The history is saved in `directory`, that of the broker; None: nowhere.
        """
        if self._server is not None:
            self._server.check_exposure()
            self._server.record(directory)
            logger.info("Web server started: %s", self._server.url)

    async def stop(self) -> None:
        """End all requests and close the port. Idempotent."""
        if self._server is not None:
            await self._server.stop()


@dataclass(kw_only=True, eq=False, repr=False)
class BrokerService(BrokerConfiguration):
    """A broker with its connectors, started and stopped as one.

    Args:
        broker_name: the name; `pyjms_broker.service.attributes` documents it and all attributes
            that are also in config/broker.yaml.
        store_directory: directory of this broker's store; by default below `data_directory`,
            such as `activemq-data/localhost/KahaDB`.
        persistence: creates the store; KahaDB with its defaults by default.
        persistence_adapter: a custom store instead; `persistent` then has no effect.
        io_exception_handler: the reaction to a failure of the store.
        virtual_destinations: replace the default virtual topics `VirtualTopic.>`.
        policies: the behaviour of destinations, by name pattern.
        plugins: objects with `install_plugin(broker)`, or filter classes, whose filters are put
            around the chain; the last one is the outermost.
        destinations: created at start.
        web: the configuration of the web server (docs/http.md); None: no web server.
        startup_hooks: functions called when all connectors are open; an error aborts the start.
            pre_shutdown_hooks: called before anything closes; shutdown_hooks: after everything has
            closed. Each of these has the timeout of `stop`; errors are logged.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.restart_requested = False
        """Whether the caller should start `successor`, or this broker again if it is None."""
        self.change_logging: Callable[[BrokerLoggingSettings | None], None] | None = None
        """Changes the log of the process; None: it belongs to the program around the broker."""
        self.read_again: Callable[[], BrokerService] | None = None
        """Makes a broker of the configuration, read again; blocking. None: there is none."""
        self.successor: BrokerService | None = None
        """The broker that a requested restart starts, made of the configuration read again."""
        self.system_usage = system_usage_of(self)
        self.frame_budget = FrameBudget(
            self.unfinished_frames_limit, self.frame_read_timeout, _clock.now
        )
        self.unsent_budget = UnsentBudget(self.unsent_frames_limit, self.frame_write_timeout)
        """The memory budget for long messages that clients have not read: `used` and `limit`."""
        self.broker_id = BrokerId(IdGenerator().generate())
        self.connections = ConnectionRegistry()
        self.connectors: list[TransportConnector] = []
        self.networks = Networks(self)
        self.stores = BrokerStores(self)
        self.website = Website(self)
        self.settings: BrokerSettings | None = None
        """The settings passed to `from_settings`."""
        self.configured_connectors: list[tuple[ConnectorSettings, TransportConnector]] = []
        self.plugin_filters: list[Broker] = []
        """The filters of `plugins`, once the broker has started."""
        self.updates: RuntimeConfiguration | None = None
        """Reloads the settings; None without the plug-in `runtime_configuration`."""
        self.watchdog: LoopWatchdog | None = None
        """Measures how late the event loop is; None: the broker is not running."""
        self._started_at: float | None = None
        self._broker: Broker | None = None
        self._region: RegionBroker | None = None
        self._own_stop: BackgroundTask | None = None
        self._state = BrokerState.CREATED
        self._opening: anyio.CancelScope | None = None  # while STARTING
        self._stopped: anyio.Event | None = None  # set at the end of this or the last run

    @classmethod
    def from_uri(cls, uri: str) -> BrokerService:
        """Create a broker from a URI such as `broker:(tcp://h:p,...)/name?persistent=false`.

        `xbean:activemq.xml` and `properties:FILE` name files, which are read: the call may block.
        See `pyjms_broker.service.factories` for URIs of other packages.

        Raises:
            ConfigurationException: the URI is invalid, or has an unsupported component.
        """
        from pyjms_broker.service.factories import create_broker  # noqa: PLC0415 - it needs this

        return create_broker(uri)

    @classmethod
    def from_description(cls, described: BrokerURI, **overrides: Any) -> BrokerService:
        """Create a broker from the contents of a `broker:` URI, with other attributes."""
        keywords: dict[str, Any] = {**described.keywords, **overrides}
        service = cls(**keywords)
        for connector in described.connectors:
            service.add_connector(connector)
        for network in described.networks:
            service.networks.add_unnamed(network)
        return service

    @classmethod
    async def start_for_vm(
        cls, name: str, options: Mapping[str, str], broker_config: str | None
    ) -> BrokerService:
        """Create and start the broker for `vm://name` if none of that name is running.

        `broker_config` is a broker URI that describes it. `options` are the `broker.<attribute>`
        options of the URL; they override those of a `broker:` URI.

        Raises:
            ConfigurationException: an option or the URI is invalid.
            JMSException: the broker cannot start.
        """
        if broker_config is not None and broker_config.startswith("peer:"):
            from pyjms_broker.service.factories import create_peer  # noqa: PLC0415 - few are peers

            return await create_peer(name, broker_config)
        if broker_config is not None and not broker_config.startswith("broker:"):
            return await cls._start_from_file(name, options, broker_config)
        described = BrokerURI({}, ()) if broker_config is None else read_broker_uri(broker_config)
        keywords = {"broker_name": name, **described.keywords, **keywords_from(options)}
        service = cls.from_description(described, **keywords)
        await service.start()
        return service

    @classmethod
    async def _start_from_file(
        cls, name: str, options: Mapping[str, str], broker_config: str
    ) -> BrokerService:
        if options:
            listed = ", ".join(f"broker.{each}" for each in sorted(options))
            raise ConfigurationException(
                f"vm://{name}: {listed} and brokerConfig={broker_config} contradict each other",
                hint="set the attributes in that file",
            )
        service = await anyio.to_thread.run_sync(cls.from_uri, broker_config)
        if service.broker_name != name:
            raise ConfigurationException(
                f"vm://{name}: the broker of {broker_config} is named {service.broker_name}",
                hint=f"write vm://{service.broker_name}?brokerConfig={broker_config}",
            )
        await service.start()
        return service

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> BrokerService:
        """Create a broker from the settings of a configuration file (`pyjms_broker.settings`).

        Raises:
            ConfigurationException: no connector is known for a URI's scheme.
        """
        service = cls(**settings.keywords())
        service.settings = settings
        for connector in settings.connectors:
            service.add_configured_connector(connector)
        for network in settings.network_connectors:
            service.add_network_connector(network.uri, network.build())
        return service

    @property  # type: ignore[misc]  # dataclasses allow a property for a field, mypy does not
    def broker_name(self) -> str:
        """The name, with forbidden characters replaced by `_`. Set it before the start."""
        return self._broker_name

    @broker_name.setter
    def broker_name(self, name: str) -> None:
        self._broker_name = _FORBIDDEN_IN_NAMES.sub("_", name)

    @property
    def broker(self) -> Broker:
        """The outermost filter of the filter chain.

        Raises:
            IllegalStateException: the broker has not been started.
        """
        return require_started(self._broker)

    @property
    def region_broker(self) -> RegionBroker:
        """The innermost broker of the filter chain, for statistics and tests.

        Raises:
            IllegalStateException: the broker has not been started.
        """
        return require_started(self._region)

    @cached_property
    def management(self) -> Management:
        """The management views of the broker. See docs/management.md."""
        from pyjms_broker.management import Management  # noqa: PLC0415 - a broker starts without

        return Management(self)

    @property
    def store_failed(self) -> bool:
        """Whether the message store or the job store has failed permanently."""
        return self.stores.failed

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest stored sequence number of a producer; -1 if it is unknown."""
        return self.stores.store.last_producer_sequence_id(producer_id)

    @property
    def slave(self) -> bool:
        """Whether the broker waits for a lock held by another."""
        return self.stores.is_slave

    @property
    def started(self) -> bool:
        """Whether the broker accepts connections."""
        return self._state in (BrokerState.RUNNING, BrokerState.STOPPING)

    @property
    def uptime(self) -> float:
        """Seconds since the start, after the store was opened; 0 before."""
        return 0.0 if self._started_at is None else _clock.now() - self._started_at

    @property
    def job_store(self) -> JobSchedulerStore | None:
        """The store of scheduled messages; None without a scheduler."""
        return self.stores.job_store

    @property
    def data_path(self) -> Path:
        """The data directory of all brokers."""
        return Path(self.data_directory)

    def stop_soon(self) -> None:
        """Stop in the background."""
        self._own_stop = spawn(self.stop, name=f"broker {self.broker_name} stop")

    @property
    def store_path(self) -> Path | None:
        """The directory of the message store; None in memory."""
        return self.stores.directory

    async def restart_soon(self) -> None:
        """Stop in the background, for a restart by the program that started this broker.

        Raises:
            IllegalStateException: `restart_allowed` is not set.
            ConfigurationException: the changed configuration is wrong; this broker keeps running.
        """
        if not self.restart_allowed:
            raise IllegalStateException(
                "Restart is not allowed", hint="set restart_allowed of the broker to true"
            )
        if self.read_again is not None:
            self.successor = await anyio.to_thread.run_sync(self.read_again)
        self.restart_requested = True
        self.stop_soon()

    @property
    def history(self) -> History | None:
        """What is recorded of the running broker for its web server; None: nothing."""
        return self.website.history

    @property
    def vm_uri(self) -> str:
        """The URI for clients in this process."""
        return f"vm://{self.broker_name}"

    @property
    def connect_uri(self) -> str:
        """The URI for JMS clients: that of the first connector for them, otherwise `vm://`."""
        uris = (each.connect_uri for each in self.connectors if each.serves_openwire)
        return next(uris, self.vm_uri)

    def add_connector(
        self, uri: str | TransportURI, *, name: str | None = None
    ) -> TransportConnector:
        """Add a connector, such as `tcp://127.0.0.1:61616`; with port 0, a free port is chosen.

        It is started with the broker. If the broker is running, call `await connector.start()`.

        Raises:
            ConfigurationException: the URI cannot be read, or no connector is known for
                its scheme.
        """
        parsed = TransportURI.parse(uri) if isinstance(uri, str) else uri
        connector = create_connector(self, parsed, name)
        self.connectors.append(connector)
        return connector

    def add_configured_connector(self, settings: ConnectorSettings) -> TransportConnector:
        """Add a connector of a configuration file, like `add_connector`."""
        made = self.add_connector(settings.transport_uri(), name=settings.name)
        made.allow_link_stealing |= settings.allow_link_stealing  # the URI may also set it
        made.enable_status_monitor |= settings.enable_status_monitor
        made.limit_clients(
            settings.maximum_producers_allowed_per_connection,
            settings.maximum_consumers_allowed_per_connection,
        )
        if settings.discovery_uri is not None:
            made.announcer.uri = TransportURI.parse(settings.discovery_uri)
        made.audit_network_producers = settings.audit_network_producers
        made.cluster.attributes = settings.cluster_attributes()
        if not made.serves_openwire and settings.update_cluster_clients:
            logger.info(
                "Connector %s: update_cluster_clients has no effect, only JMS clients that use "
                "failover: learn of other brokers",
                made.name,
            )
        self.configured_connectors.append((settings, made))
        return made

    def add_network_connector(
        self, uri: str, attributes: NetworkConnectorAttributes | None = None
    ) -> NetworkConnector:
        """Add a network connector to other brokers. It starts with this broker, or by its `start`.

        Raises:
            JMSException: the URI cannot be read, or a network connector of that name exists.
        """
        return self.networks.add(uri, attributes)

    async def start(self) -> None:
        """Open the store, the regions, the destinations, then the connectors.

        Waits while another broker holds the store's lock; meanwhile no connector is open, and
        `stop` ends the wait. A second call is ignored. After an error everything is stopped, and
        the error is raised.

        Raises:
            ConfigurationException: an option of the store or of a connector is wrong.
            IllegalStateException: a broker of that name is already running in this process, or
                this broker was stopped meanwhile, was stopped before and may not be restarted, or
                was started before this process was forked.
            ResourceAllocationException: an address cannot be bound.
            JMSException: the store cannot be opened.
        """
        if self._state is BrokerState.INHERITED:
            raise inherited_error(f"Broker '{self.broker_name}'")
        if self._state.is_in_use:
            return
        self._inheritance = inherits(self)
        if self._state is BrokerState.STOPPED and not self.restart_allowed:
            raise IllegalStateException(
                f"Restart of broker '{self.broker_name}' is not allowed",
                hint="set restart_allowed, or create a new BrokerService",
            )
        if self._state is BrokerState.STOPPED:
            self.system_usage = system_usage_of(self)  # the last start may have lowered its limits
        self._state = BrokerState.STARTING
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
            # not before: a start loads modules, which holds the loop and nobody up
            self.watchdog = watch_loop(f"broker {self.broker_name}")
            self._state = BrokerState.RUNNING
        except BaseException:
            await self._end(_STOP_TIMEOUT)
            raise

    async def stop(self, timeout: float | None = _STOP_TIMEOUT) -> None:
        """Close the connectors, then the regions and the stores. Idempotent; not cancellable.

        Clients have `timeout` seconds in total to read the commands queued for them (None: no
        limit). A start that is still in progress is cancelled.
        """
        if self._state is BrokerState.RUNNING:
            await self._end(timeout)
        elif self._state.is_in_use:
            if self._state is BrokerState.STARTING and self._opening is not None:
                self._opening.cancel()
            await self.wait_until_stopped()

    async def _end(self, timeout: float | None) -> None:
        self._state = BrokerState.STOPPING
        try:
            with anyio.CancelScope(shield=True):
                await self._close(timeout)
        finally:
            if self.watchdog is not None:
                self.watchdog.release()
                self.watchdog = None
            self._state = BrokerState.STOPPED
            if self._stopped is not None:
                self._stopped.set()
        logger.info("Broker %s stopped", self.broker_name)

    def on_fork(self) -> None:
        """Mark the broker as inherited by a forked process, where it must not run."""
        if self._state is not BrokerState.CREATED:
            self._state = BrokerState.INHERITED
        self._stopped = None

    async def wait_until_stopped(self) -> None:
        """Wait until the broker has stopped for any reason; return at once if it is not running."""
        if self._stopped is not None:
            await self._stopped.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def _open(self) -> None:
        await self.website.start(self.web)
        check_memory(self, self.system_usage)
        await self.stores.open()
        check_disk(self, self.system_usage)
        self._region = region = create_region(self)
        self._broker = broker = build_filter_chain(region, self)
        region.root = broker
        await broker.start()
        self.website.on_broker_started(self.stores.broker_directory)
        self._started_at = _clock.now()
        await self.stores.log_contents(region)
        context = ConnectionContext()
        context.is_broker = True
        for destination in self.destinations:
            broker.add_destination(context, destination)
        self.connections.start(self)
        vm_registry.register(self.broker_name, self)
        for connector in self.connectors:
            await connector.start()
            logger.info("Connector %s started: %s", connector.name, connector.connect_uri)
        broker.now_master_broker()
        self.networks.start()
        await run_hooks(self.startup_hooks)
        logger.info(
            "Broker %s started, at %s (%s)", self.broker_name, self.connect_uri, build_name()
        )

    def on_lock_lost(self, reason: str = "another broker has taken over its store") -> None:
        """Stop, because another broker may use the store; a restart makes this one a slave."""
        name = self.broker_name
        logger.error("Broker %s stops: %s", name, reason)
        if self._own_stop is None or self._own_stop.done:
            self.restart_requested = self.restart_allowed
            self._own_stop = spawn(self.stop, name=f"broker {name} stop without its lock")

    async def _close(self, timeout: float | None) -> None:
        await run_stop_hooks(self.pre_shutdown_hooks, self.broker_name, timeout)
        try:
            with _clock.timeout(timeout) as scope:
                await self.stores.stop_watching()
                await self.website.stop()
                await self.networks.stop()
                await stop_all(self.connectors)
                await self.connections.close()
                await vm_registry.unregister(self.broker_name, self)
            if scope.cancelled_caught:
                logger.warning(
                    "Broker %s: connections did not close within %s s", self.broker_name, timeout
                )
        finally:
            await self._close_broker()
            await run_stop_hooks(self.shutdown_hooks, self.broker_name, timeout)

    async def _close_broker(self) -> None:
        await vm_registry.unregister(self.broker_name, self)
        try:
            if self._broker is not None:
                await self._broker.stop()
        finally:
            await self.stores.close()
