"""Destinations on the command line."""

from __future__ import annotations

from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import Destination, named_kind, parse_destination

__all__ = ["read_destination"]


def read_destination(text: str) -> Destination:
    """Return the destination of `queue://a`, `topic://b`, or of a queue's name.

    Raises:
        ConfigurationException: the name is empty, or of another kind.
    """
    try:
        named_kind(text)
        return parse_destination(text)
    except InvalidDestinationException as error:
        raise ConfigurationException(str(error)) from None
