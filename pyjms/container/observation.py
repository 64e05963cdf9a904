"""The health of one application: its phase, its checks, and the port that answers them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyjms._distribution import optional
from pyjms.container.interceptors import ApplicationInterceptors
from pyjms.listener.container.base import AbstractMessageListenerContainer
from pyjms.observability.asgi import HealthApp
from pyjms.observability.health import Health, Phase, health_of
from pyjms.settings.observability import HealthSettings

__all__ = ["Observation"]


class Observation:
    """Knows where an application is in its life, and answers for it. Use it on its loop.

    Args:
        settings: the section `health`.
        containers: iterates over the containers of the listeners.
        interceptors: those of the application, with its instrumentations.
    """

    def __init__(
        self,
        settings: HealthSettings,
        containers: Iterable[AbstractMessageListenerContainer],
        interceptors: ApplicationInterceptors,
    ) -> None:
        self._settings = settings
        self._containers = containers
        self._interceptors = interceptors
        self._server: Any = None
        self.phase: Phase = "starting"
        """starting, running, stopping or stopped."""
        self.port = settings.port
        """The port to serve health checks on, set before the start; None: none. While the
        application runs, the one that is used."""
        self.reuse_port = False
        """Whether another process may serve the same port meanwhile, such as a worker's
        successor."""

    def use_port_of_worker(self, number: int) -> None:
        """Serve the checks of one of several processes: on the port plus `number` - 1.

        While a successor takes over both processes may have the port.
        """
        self.reuse_port = True
        if self.port:
            self.port += number - 1

    def health(self) -> Health:
        """Return the health of the application now."""
        return health_of(self.phase, self._containers, self._settings.stuck_after)

    def app(self) -> HealthApp:
        """Return an ASGI application that answers health checks, and /metrics if they are on."""
        return HealthApp(self.health, self._interceptors.metrics)

    async def start(self) -> None:
        """Answer from now on: the application starts.

        Raises:
            ConfigurationException: a port is wanted, and uvicorn is not installed, or the loop is
                trio's.
            ResourceAllocationException: the port cannot be bound.
        """
        self.phase = "starting"
        self._interceptors.attach(self.health)
        if self.port is not None:
            kind = optional("pyjms.observability.server", "health.port", "web").HealthServer
            server = kind(self.app(), self._settings.host, self.port, reuse_port=self.reuse_port)
            await server.start()
            self._server = server
            self.port = server.port

    async def stop(self) -> None:
        """Free the port: the application has stopped. Idempotent."""
        self.phase = "stopped"
        self._interceptors.detach()
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
