"""An application: its listeners, its hooks, and their start and stop.

Start: settings, container, start-up hooks, listener containers. Stop: the listener containers
drain (handlers in progress have a deadline, prefetched messages return to the broker), shutdown
hooks run, connections close; an embedded broker stops with the last of them. The first SIGINT or
SIGTERM stops that way, a second one ends the process at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import anyio

from pyjms.app.held_loop import HeldLoop
from pyjms.app.lifecycle import Hook, run_shutdown, run_startup
from pyjms.errors import IllegalStateException, InvalidClientIDException
from pyjms.jms.api import ConnectionFactory
from pyjms.jms.destination import Destination
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.decorators import ListenerOptions
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.listener.properties import ErrorHandler
from pyjms.listener.registry import JmsListenerEndpointRegistry
from pyjms.observability.health import BrokerProbes, Health, Phase, health_of
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import check_seconds
from pyjms.runtime.distribution import optional
from pyjms.runtime.event_loop import loop_options, spawn
from pyjms.runtime.keywords import constructor_names_keywords
from pyjms.runtime.logging import get_logger
from pyjms.runtime.signals import act_on_signals, require_main_thread, stop_on_signals
from pyjms.template.interceptors import HandlerInterceptor, SendInterceptor
from pyjms.template.template import JmsTemplate

if TYPE_CHECKING:
    from dependency_injector import containers

    from pyjms.app.container import ApplicationContainer
    from pyjms.app.interceptors import ApplicationInterceptors
    from pyjms.app.wiring import Wiring
    from pyjms.observability.http_endpoints import ASGIApp, ControlApp, HealthApp
    from pyjms.settings.model import HealthSettings, PyjmsSettings
    from pyjms.sync.template import JmsTemplate as BlockingTemplate
    from pyjms.template.scheduler import JmsScheduler

logger: Final = get_logger(__name__)

_LEAST_FOR_HOOKS = 3.0
"""Seconds that the shutdown hooks have even if the handlers have used all their time."""

_CLOSE_TIMEOUT = 3.0
"""Seconds for connections to close, after the handlers' time."""

_CLIENT_ID_HINT = (
    "give each process and worker its own client id: set jms.client_id, or "
    "listeners.<id>.client_id, to a text with ${PYJMS_WORKER} or ${HOSTNAME}"
)


class Observation:
    """Reports the phase and the health of an application. Use it on the application's loop.

    Args:
        settings: the section `health`.
        registry: the listeners.
        interceptors: the application's interceptors, with its instrumentations.
        factories: returns the connection factories of the brokers to probe.
    """

    def __init__(
        self,
        settings: HealthSettings,
        registry: JmsListenerEndpointRegistry,
        interceptors: ApplicationInterceptors,
        factories: Callable[[], Mapping[str, ConnectionFactory]],
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._interceptors = interceptors
        self._probes = BrokerProbes(factories, settings.probe_timeout)
        self._server: Any = None
        self.phase: Phase = "starting"
        """The phase: starting, running, stopping or stopped."""
        self.port = settings.port
        """The port on which to serve health checks, set before the start; None: no port. While the
        application runs, the port in use."""
        self.reuse_port: bool = False
        """Whether another process may serve the same port at the same time, such as a worker's
        successor."""

    def log_with(self, *, context: bool, tracebacks: bool) -> None:
        """Set how listeners log, before the start.

        Args:
            context: log records of handlers have the message's ids (`pyjms.observability.logs`).
            tracebacks: the first failure of each message is logged with its traceback.
        """
        self._interceptors.log_context = context
        self._interceptors.log_tracebacks = tracebacks

    def use_port_of_worker(self, number: int) -> None:
        """Serve the checks of one of several worker processes: on the port plus `number` - 1.

        While a successor takes over, both processes may have the port.
        """
        self.reuse_port = True
        if self.port:
            self.port += number - 1

    def health(self) -> Health:
        """Return the health of the application now."""
        return health_of(self.phase, self._registry, self._settings.stuck_after)

    async def probe(self) -> Health:
        """Return the health of the application, after probing its brokers."""
        brokers = await self._probes.probe() if self.phase == "running" else ()
        return replace(self.health(), brokers=brokers)

    def app(self) -> HealthApp:
        """Return an ASGI application that serves health checks, and /metrics if enabled."""
        from pyjms.observability.http_endpoints import HealthApp  # noqa: PLC0415 - few serve it

        return HealthApp(self.health, self._interceptors.metrics, self.probe)

    def _asgi_app(self) -> ASGIApp:
        token = self._settings.control_token
        if token is None:
            return self.app()
        from pyjms.observability.http_endpoints import ControlApp, with_control  # noqa: PLC0415 - as above

        return with_control(self.app(), ControlApp(self._registry, token.get_secret_value()))

    async def start(self) -> None:
        """Start to serve health checks, because the application starts."""
        self.phase = "starting"
        self._interceptors.attach(self.health)
        if self.port is not None:
            kind = optional("pyjms.observability.server", "health.port", "web").HealthServer
            server = kind(
                self._asgi_app(), self._settings.host, self.port, reuse_port=self.reuse_port
            )
            await server.start()
            self._server = server
            self.port = server.port

    async def stop(self) -> None:
        """Release the port, because the application has stopped. Idempotent."""
        self.phase = "stopped"
        self._interceptors.detach()
        server, self._server = self._server, None
        if server is not None:
            await server.stop()


def _kind_and_name(container: AbstractMessageListenerContainer) -> str:
    """Return the destination with its kind and subscription."""
    text = container.destination_description
    if container.pub_sub_domain and "://" not in text:
        text = f"topic://{text}"
    if container.subscription_durable:
        text += f" (durable subscription {container.subscription_name})"
    return text


def _number_of_consumers(container: AbstractMessageListenerContainer) -> str:
    lower, upper = container.concurrent_consumers, container.max_concurrent_consumers
    if lower == upper:
        return "1 consumer" if lower == 1 else f"{lower} consumers"
    return f"{lower}-{upper} consumers"


@constructor_names_keywords
class JmsApplication:
    """Listeners wired from settings, ready to run.

    Args:
        targets: modules, handler functions, or instances with handler methods.
        config: the YAML file; default: `PYJMS_CONFIG`, `./application.yaml` or that in `./config`.
        settings: settings created in code, instead of a file.
        container: a subclass or instance of ApplicationContainer, with your own providers.
        stop_timeout: seconds that handlers in progress, and then the shutdown hooks, have when the
            application stops; None: the setting `lifecycle.timeout_per_shutdown_phase`.
        interceptors: functions `(invocation, proceed)` around each call of a handler, `def` or
            `async def`; the first is the outermost (see `pyjms.template.interceptors`).
        send_interceptors: such functions around each send of the templates and each reply of a
            handler (see `pyjms.template.interceptors`).
        error_handler: called on the loop with each failure of a listener whose container factory
            sets no error handler; `def` or `async def`. The failure is then not logged. It is a
            ListenerExecutionFailedException with `listener_id`, `message` and the handler's
            exception as its cause.

    Raises:
        ConfigurationException: settings, handlers or injections are invalid; it names each problem.

    Example:
        @jms_listener("orders.new")
        def on_order(order: str) -> None:
            print(order)


        app = JmsApplication(on_order, settings=PyjmsSettings())
        # async with app: ... in a program of your own; app.run() runs it until a signal
    """

    def __init__(
        self,
        *targets: ModuleType | object,
        config: Path | str | None = None,
        settings: PyjmsSettings | None = None,
        container: containers.Container | type[ApplicationContainer] | None = None,
        stop_timeout: float | None = None,
        interceptors: Iterable[HandlerInterceptor] = (),
        send_interceptors: Iterable[SendInterceptor] = (),
        error_handler: ErrorHandler | None = None,
    ) -> None:
        if settings is None:
            from pyjms.settings import load_settings  # noqa: PLC0415 - needs pydantic

            settings = load_settings(Path(config) if config else None)
        self.settings: PyjmsSettings = settings
        self._targets = list(targets)
        around = tuple(interceptors), tuple(send_interceptors)
        self._given = container, *around, error_handler
        observability = settings.observability
        if container is not None or any(around) or observability != type(observability)():
            self.wiring  # noqa: B018 - so that what is wrong with them is an error here
        self.stop_timeout: float = (
            self.settings.lifecycle.timeout_per_shutdown_phase
            if stop_timeout is None
            else stop_timeout
        )
        check_seconds("stop_timeout", self.stop_timeout)
        self._hooks: list[Hook] = []
        self._running = False
        self._held_loop: HeldLoop | None = None
        self._stop_requested: anyio.Event | None = None

    @cached_property
    def wiring(self) -> Wiring:
        """Finds and checks the listeners and hooks."""
        from pyjms.app.wiring import Wiring  # noqa: PLC0415 - much, and needed at the start

        return Wiring(self._targets, self.settings, *self._given)

    @cached_property
    def observation(self) -> Observation:
        """The application's phase, and the port of its health checks."""
        wiring = self.wiring
        return Observation(
            self.settings.health, self.registry, wiring.interceptors, wiring.probed_factories
        )

    @property
    def container(self) -> Any:
        """The application's container, with the objects that it consists of.

        Without a `container` of the program it is created when it is first requested.
        """
        return self.wiring.objects.container

    @property
    def template(self) -> JmsTemplate:
        """The application's JmsTemplate (coroutines)."""
        template: JmsTemplate = self.wiring.objects.jms_template()
        return template

    @property
    def blocking_template(self) -> BlockingTemplate:
        """The same template for threads; its calls block, while the application runs.

        In a service it is the provider `blocking_jms_template` of the container. In a transaction
        of the calling thread, or a handler's, it takes part.
        """
        template: BlockingTemplate = self.wiring.objects.blocking_jms_template()
        return template

    @property
    def templates(self) -> Mapping[str, JmsTemplate]:
        """The templates of the additional brokers, by their names in `brokers`."""
        templates: Mapping[str, JmsTemplate] = self.wiring.objects.jms_templates()
        return templates

    @property
    def scheduler(self) -> JmsScheduler:
        """The scheduler of the application's broker (coroutines): lists, adds and removes jobs."""
        from pyjms.template.scheduler import JmsScheduler  # noqa: PLC0415 - few schedule

        return JmsScheduler(self.template)

    @property
    def registry(self) -> JmsListenerEndpointRegistry:
        """The listener containers by id."""
        registry: JmsListenerEndpointRegistry = self.wiring.objects.listener_registry()
        return registry

    @property
    def is_running(self) -> bool:
        """Whether `start` has been called and `stop` has not."""
        return self._running

    def health(self) -> Health:
        """Return whether the application is live, started and ready, and its listeners' state."""
        return self.observation.health()

    async def probe(self) -> Health:
        """Return the health including the brokers, as /health/ready does: each broker outside of
        the application must accept a connection within `health.probe_timeout` seconds.
        """
        return await self.observation.probe()

    def health_app(self) -> HealthApp:
        """Return an ASGI application with /health/live, /ready and /started, and /metrics.

        It can be mounted in FastAPI or Starlette, or served by any ASGI server on this loop.
        """
        return self.observation.app()

    def control_app(self, token: str | None = None) -> ControlApp:
        """Return an ASGI application that lists, pauses, resumes and scales listeners.

        See `pyjms.observability.http_endpoints` for its paths. Mount it where only operators have
        access; with a `token`, each request must contain it (Authorization: Bearer TOKEN).
        """
        from pyjms.observability.http_endpoints import ControlApp  # noqa: PLC0415 - few have one

        return ControlApp(self.registry, token)

    def register(self, target: ModuleType | object) -> None:
        """Add a module, a handler or an instance with handlers, before the start.

        Raises:
            IllegalStateException: the application is running.
        """
        if self._running:
            raise IllegalStateException(
                "The application is running", hint="register handlers before it starts"
            )
        self._targets.append(target)

    async def add_listener(
        self,
        handler: Callable[..., object],
        *destinations: str | Destination,
        **options: Unpack[ListenerOptions],
    ) -> AbstractMessageListenerContainer:
        """Add and start a listener (as `jms_listener` would) while the application runs.

        `registry.unregister(id)` removes it.

        Raises:
            ConfigurationException: the handler cannot work.
            IllegalStateException: the application is not running, or the id is in use.
        """
        if not self._running:
            raise IllegalStateException("The application is not running", hint="register(handler)")
        return await self.wiring.add_listener(handler, *destinations, **options)

    def endpoints(self) -> list[JmsListenerEndpoint]:
        """Return the listeners as configured, before they have containers.

        Raises:
            ConfigurationException: as for `check`.
        """
        return self.wiring.endpoints()

    def check(self) -> None:
        """Check settings and handlers, without connecting anywhere.

        Raises:
            ConfigurationException: there are problems; one line for each.
        """
        self.wiring.check()

    async def start(self) -> None:
        """Open the container's resources, run the start-up hooks and start the listeners.

        Returns when each listener consumes, or waits for its broker. With `failover:`, it waits for
        a broker up to the setting `lifecycle.startup_timeout`. After cancellation or an error,
        everything that has started is stopped again.

        Raises:
            ConfigurationException: as for `check`.
            JMSException: the broker will never accept a listener, for example because its client id
                is in use.
            Exception: a start-up hook raised it.
        """
        if self._running:
            return
        endpoints, self._hooks = self.wiring.check()
        self._running = True
        self.wiring.objects.application_loop().bind()
        try:
            await self.observation.start()
            await self.wiring.start_pools()
            await self.wiring.open_resources()
            await run_startup(self._hooks)
            self.wiring.watch_virtual_topics(lambda: self.registry)
            self.wiring.use_registry_of_registrar()
            for endpoint in endpoints:
                self.registry.register(endpoint, self.wiring.make_container)
            await self.registry.start(auto_startup_only=True)
            for container in self.registry:
                await container.wait_until_listening()
            await self.wiring.schedules.start(
                (self.registry[endpoint.id], endpoint.schedule)
                for endpoint in endpoints
                if endpoint.schedule is not None and self.registry[endpoint.id].auto_startup
            )
        except BaseException as error:
            if isinstance(error, InvalidClientIDException):
                error.hint = error.hint or _CLIENT_ID_HINT
            with anyio.CancelScope(shield=True):
                await self.stop()
            raise
        self._held_loop = HeldLoop(self.registry)
        self.observation.phase = "running"
        self._log_started()

    def _log_started(self) -> None:
        """Log what each listener consumes, or that it is not connected yet."""
        outages, registry = self.wiring.outages, self.registry
        for container in registry:
            if not container.has_started:
                name, place = container.bean_name, _kind_and_name(container)
                logger.info("Not started: %s on %s (auto_startup: false)", name, place)
                continue
            logger.info(
                "Not connected yet: %s on %s, %s"
                if outages.of(container.require_connection_factory()).is_open
                else "Listening: %s on %s, %s",
                container.bean_name,
                _kind_and_name(container),
                _number_of_consumers(container),
            )
        unreachable = outages.unreachable()
        if unreachable:
            logger.warning(
                "Application started, not connected yet: waiting for broker %s",
                ", ".join(unreachable),
            )
            return
        count = sum(container.has_started for container in registry)
        logger.info(
            "Application started: %d %s on %s",
            count,
            "listener" if count == 1 else "listeners",
            self.wiring.describe_brokers(registry),
        )

    async def stop(self, timeout: float | None = None) -> None:
        """Drain the listeners, run the shutdown hooks, close resources and connections. Idempotent.

        Handlers that do not finish in time are cancelled or abandoned, with a log line for each.

        Args:
            timeout: seconds for handlers in progress, in each phase; None: the application's
                `stop_timeout`.
        """
        if timeout is not None:
            check_seconds("timeout", timeout)
        if not self._running:
            return
        self._running = False
        self.observation.phase = "stopping"
        seconds = self.stop_timeout if timeout is None else timeout
        deadline = _clock.now() + seconds
        await self.wiring.schedules.stop()
        await self.registry.shutdown(seconds)
        held_loop, self._held_loop = self._held_loop, None
        if held_loop is not None:
            held_loop.release()
        await run_shutdown(self._hooks, max(deadline - _clock.now(), _LEAST_FOR_HOOKS))
        await self.wiring.close_resources(max(deadline - _clock.now(), _LEAST_FOR_HOOKS))
        with _clock.timeout(_CLOSE_TIMEOUT) as closing:
            await self.wiring.close_factories()
        if closing.cancelled_caught:
            logger.warning("Connections did not close within %g s", _CLOSE_TIMEOUT)
        self.wiring.objects.application_loop().release()
        await self.observation.stop()
        logger.info("Application stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def pause(self, *listener_ids: str, timeout: float | None = None) -> bool:
        """Pause listeners (all unless named) until `resume`. SIGUSR1 does this.

        Their messages wait in the broker. Returns True when none of their handlers is running any
        more, or False after `timeout` seconds (None waits for ever).

        Raises:
            KeyError: there is no listener of such an id.
        """
        return await self.registry.pause(*listener_ids, timeout=timeout)

    async def resume(self, *listener_ids: str) -> None:
        """Resume paused or stopped listeners (all unless named). SIGUSR2 does this.

        One that was never started, because of `auto_startup`, starts only if it is named.

        Raises:
            KeyError: there is no listener of such an id.
            JMSException: the broker will never accept a listener.
        """
        await self.registry.resume(*listener_ids)

    def request_stop(self) -> None:
        """Make `run` or `run_async` stop the application and return. Call it on the loop."""
        if self._stop_requested is not None:
            self._stop_requested.set()

    async def run_async(self, *, on_started: Callable[[], object] | None = None) -> None:
        """Start, wait for SIGINT, SIGTERM or `request_stop`, then stop. The main thread only.

        While it runs, SIGUSR1 pauses all listeners and SIGUSR2 resumes them.

        Args:
            on_started: called on the loop once the application has started; not if it is stopped
                before.

        Raises:
            IllegalStateException: this is not the main thread.
            Exception: as for `start`.
        """
        require_main_thread()
        requested = self._stop_requested = anyio.Event()
        async with stop_on_signals(requested, logger, "work in progress"):
            await self._start_unless(requested)
            if on_started is not None and self._running:
                on_started()
            async with act_on_signals({"SIGUSR1": self.pause, "SIGUSR2": self.resume}, logger):
                await requested.wait()
            await self.stop()

    async def _start_unless(self, stopping: anyio.Event) -> None:
        """Start; abort the start if `stopping` is set during it."""

        async def give_up() -> None:
            await stopping.wait()
            scope.cancel()

        with anyio.CancelScope() as scope:
            watcher = spawn(give_up, name="pyjms start")
            try:
                await self.start()
            finally:
                watcher.cancel()

    def run(
        self, *, on_started: Callable[[], object] | None = None, **backend_options: object
    ) -> None:
        """Run until SIGINT or SIGTERM. Blocks; the main thread only.

        Args:
            on_started: called on the loop once the application has started.
            backend_options: those of `anyio.run` for asyncio; by default uvloop if installed.

        Raises:
            IllegalStateException: this is not the main thread.
            Exception: as for `start`.
        """
        run = partial(self.run_async, on_started=on_started)
        anyio.run(run, backend_options=backend_options or loop_options())
