"""Network connectors in broker.yaml (`network_connectors`)."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from pyjms_broker.network import NetworkConnectorAttributes, read_remotes
from pyjms_broker.settings.values import DestinationName, Section, arguments_of, check_by

__all__ = ["NetworkConnectorSettings"]


class NetworkConnectorSettings(Section, NetworkConnectorAttributes):
    """Other brokers that get the messages for their consumers (`network_connectors`)."""

    uri: str
    """The remote brokers: static:(tcp://b:61616), masterslave:(tcp://b1:61616,tcp://b2:61616)."""
    dynamically_included_destinations: tuple[DestinationName, ...] = ()
    """Destinations forwarded to remote consumers, may be patterns; empty: all."""
    statically_included_destinations: tuple[DestinationName, ...] = ()
    """Destinations forwarded even without remote consumers."""
    excluded_destinations: tuple[DestinationName, ...] = ()
    """Destinations never forwarded, even if they are also included."""

    @model_validator(mode="after")
    def _check_uri(self) -> Self:
        check_by(lambda: read_remotes(self.uri))
        return self

    def attributes(self) -> NetworkConnectorAttributes:
        """Return the attributes other than the URI."""
        return NetworkConnectorAttributes(**arguments_of(NetworkConnectorAttributes, self))
