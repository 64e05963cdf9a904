"""The web server of a broker that is configured with `web`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms._distribution import install_command
from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
    from pyjms_broker.web import WebConfiguration
    from pyjms_broker.web.host import WebHost
    from pyjms_broker.web.server import WebServer

__all__ = ["Website"]

logger = get_logger(__name__)


class Website:
    """Starts and stops the web server with the broker.

    It listens before the store is open, so that it can answer health checks while the broker is a
    slave or replays its journal.
    """

    def __init__(self, host: WebHost) -> None:
        self._host = host
        self._server: WebServer | None = None

    @property
    def url(self) -> str | None:
        """The URL of the web server; None if there is none."""
        return None if self._server is None else self._server.url

    async def start(self, configuration: WebConfiguration | None) -> None:
        """Start the web server, if one is configured.

        Raises:
            ConfigurationException: a setting is invalid, or the extra `web` is not installed.
            ResourceAllocationException: the address cannot be bound.
        """
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

    def check(self) -> None:
        """Refuse a public web server without users, and log its URL; call it when users are known.

        Raises:
            ConfigurationException: other machines can reach it, and the broker has no users.
        """
        if self._server is not None:
            self._server.check_exposure()
            logger.info("Web server started: %s", self._server.url)

    async def stop(self) -> None:
        """End all requests and close the port. Idempotent."""
        if self._server is not None:
            await self._server.stop()
