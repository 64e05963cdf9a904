"""The interface of the broker service for the web server."""

from __future__ import annotations

from typing import Protocol

from pyjms_broker.connector.listening import ServerHost
from pyjms_broker.management.host import ManagedBroker
from pyjms_broker.management.management import Management

__all__ = ["WebHost"]


class WebHost(ManagedBroker, ServerHost, Protocol):
    """The part of the broker service that the web server uses."""

    @property
    def management(self) -> Management:
        """The management views of the broker."""
