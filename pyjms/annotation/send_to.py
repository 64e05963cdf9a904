"""`@send_to`: the destination of a handler's result if the message has no reply destination."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyjms.annotation.destinations import destination_text
from pyjms.annotation.marks import marking
from pyjms.jms.destination import Destination

__all__ = ["send_to", "send_to_destination"]

T = TypeVar("T", bound=Callable[..., object] | type)

_ATTRIBUTE = "__jms_send_to__"


def send_to(destination: str | Destination) -> Callable[[T], T]:
    """Send the handler's result to `destination`, unless the message has a reply_to.

    A name means a queue or a topic, as for the listener's destination; the prefix `queue://` or
    `topic://` makes it explicit. On a class it applies to all handlers that have no `@send_to`.
    Spring: @SendTo; as there, the message's reply_to takes precedence.

    Raises:
        TypeError: there is no destination.
    """
    return marking(_ATTRIBUTE, destination_text(destination, "send_to"))


def send_to_destination(handler: object) -> str | None:
    """Return the destination of `@send_to` on this handler or its class, or None."""
    own: str | None = getattr(handler, _ATTRIBUTE, None)
    if own is None:
        instance = getattr(handler, "__self__", None)
        own = getattr(instance, _ATTRIBUTE, None)
    return own
