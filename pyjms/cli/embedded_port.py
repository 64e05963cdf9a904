"""The port of the broker that `pyjms run` embeds, so that a first example can be talked to."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.runtime.logging import get_logger

if TYPE_CHECKING:
    from pyjms.app.application import JmsApplication

logger: Final = get_logger(__name__)

HOST: Final = "127.0.0.1"
FIRST_PORT: Final = 61616
_PORTS: Final = range(FIRST_PORT, FIRST_PORT + 100)


def open_port(application: JmsApplication) -> Callable[[], None]:
    """Have the embedded broker of an application listen, if its settings name no broker.

    Before its start. Returns what logs, after the start, how to reach that broker.
    """
    settings = application.settings
    port = next(filter(_is_free, _PORTS), None) if settings.activemq.is_embedded else None
    if port is None:
        return lambda: None
    address = f"tcp://{HOST}:{port}"
    application.settings = settings.with_broker_url(
        f"vm:(broker:({address})/localhost?persistent=false&schedulerSupport=true)"
    )
    return partial(_tell_what_to_try, application, address)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _tell_what_to_try(application: JmsApplication, address: str) -> None:
    """Log how another terminal sends to the first listener that runs."""
    names = [
        f"topic://{name}" if container.pub_sub_domain and "://" not in name else name
        for container in application.registry
        if (name := container.destination_name)
    ]
    logger.info(
        "No broker is configured: this process has one, in memory, at %s. From another terminal: "
        "pyjms send%s %s TEXT",
        address,
        "" if address.endswith(f":{FIRST_PORT}") else f" --url {address}",
        shlex.quote(names[0]) if names else "QUEUE",
    )
