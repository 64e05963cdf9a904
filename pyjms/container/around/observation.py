"""The health of one application: its phase, its checks, and the port that serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyjms._distribution import optional
from pyjms._logger import get_logger
from pyjms.container.around.interceptors import ApplicationInterceptors
from pyjms.jms.api import ConnectionFactory
from pyjms.listener.container.base import AbstractMessageListenerContainer
from pyjms.listener.outages import Outages
from pyjms.listener.registry import JmsListenerEndpointRegistry
from pyjms.observability.asgi import ASGIApp, HealthApp
from pyjms.observability.control import ControlApp, with_control
from pyjms.observability.health import Health, Phase, health_of
from pyjms.observability.probes import BrokerProbes
from pyjms.settings.observability import HealthSettings

__all__ = ["Observation", "log_started"]

logger: Final = get_logger("pyjms.app")


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
        return HealthApp(self.health, self._interceptors.metrics, self.probe)

    def _served(self) -> ASGIApp:
        token = self._settings.control_token
        if token is None:
            return self.app()
        return with_control(self.app(), ControlApp(self._registry, token.get_secret_value()))

    async def start(self) -> None:
        """Start to serve health checks, because the application starts.

        Raises:
            ConfigurationException: a port is set, but uvicorn is not installed, or the loop is
                trio's.
            ResourceAllocationException: the port cannot be bound.
        """
        self.phase = "starting"
        self._interceptors.attach(self.health)
        if self.port is not None:
            kind = optional("pyjms.observability.server", "health.port", "web").HealthServer
            server = kind(
                self._served(), self._settings.host, self.port, reuse_port=self.reuse_port
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


def log_started(
    registry: JmsListenerEndpointRegistry,
    outages: Outages,
    describe_brokers: Callable[[Iterable[AbstractMessageListenerContainer]], str],
) -> None:
    """Log what each listener consumes, or that it is not connected yet."""
    unreachable = outages.unreachable()
    for container in registry:
        logger.info(
            "Not connected yet: %s on %s, %s"
            if outages.of(container.require_connection_factory()).is_open
            else "Listening: %s on %s, %s",
            container.bean_name,
            _kind_and_name(container),
            _number_of_consumers(container),
        )
    if unreachable:
        logger.warning(
            "Application started, not connected yet: waiting for broker %s", ", ".join(unreachable)
        )
        return
    logger.info(
        "Application started: %d %s on %s",
        len(registry),
        "listener" if len(registry) == 1 else "listeners",
        describe_brokers(registry),
    )


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
