"""The broker's web server, for a broker that is configured with one (`web`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms._distribution import install_command
from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException
from pyjms_broker.web import WebConfiguration
from pyjms_broker.web.host import WebHost

if TYPE_CHECKING:
    from pyjms_broker.web.server import WebServer

__all__ = ["Website"]

logger = get_logger(__name__)


class Website:
    """Starts and stops the web server with the broker.

    It listens before the store is open, so that health checks of a slave, and of a broker that
    replays its journal, are answered.
    """

    def __init__(self, host: WebHost) -> None:
        self._host = host
        self._server: WebServer | None = None

    @property
    def url(self) -> str | None:
        """The site's URL; None: it is not served."""
        return None if self._server is None else self._server.url

    async def start(self, configuration: WebConfiguration | None) -> None:
        """Listen, if the broker is configured so.

        Raises:
            ConfigurationException: a setting is wrong, or the extra `web` is not installed.
            ResourceAllocationException: the address cannot be bound.
        """
        self._server = None
        if configuration is None or not configuration.enabled:
            return
        try:
            # imported when it is needed: few embedded brokers have a web server
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
        """Check who can reach the site, and log where it is, once the broker's users are known.

        Raises:
            ConfigurationException: other machines can, and the broker has no users.
        """
        if self._server is not None:
            self._server.check_exposure()
            logger.info("Web server started: %s", self._server.url)

    async def stop(self) -> None:
        """End all requests, and free the port. Idempotent."""
        if self._server is not None:
            await self._server.stop()
