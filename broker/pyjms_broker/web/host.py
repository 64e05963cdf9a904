"""The broker service as the web server sees it."""

from __future__ import annotations

from typing import Protocol

from pyjms_broker.management.host import ManagedBroker
from pyjms_broker.management.management import Management

__all__ = ["WebHost"]


class WebHost(ManagedBroker, Protocol):
    """The part of the broker service that the web server uses."""

    @property
    def management(self) -> Management:
        """The views of everything in the broker."""

    @property
    def store_failed(self) -> bool:
        """Whether a store can no longer promise anything."""

    @property
    def allow_anonymous_remote(self) -> bool:
        """Whether other machines may connect though the broker has no users."""

    @property
    def reserved_file_handles(self) -> int:
        """How many file handles of the process clients must leave to the stores."""
