"""`@send_to`: where a handler's result goes when the message names no reply destination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyjms.annotation.destinations import destination_text
from pyjms.jms.destination import Destination

__all__ = ["send_to", "send_to_destination"]

T = TypeVar("T", bound=Callable[..., Any] | type)

_ATTRIBUTE = "__jms_send_to__"


def send_to(destination: str | Destination) -> Callable[[T], T]:
    """Send the handler's result to `destination`, unless the message has a reply_to.

    A name is a queue or a topic as the listener's is; `queue://` or `topic://` before it says
    which. On a class it holds for all its handlers that have none of their own. Spring:
    @SendTo; as there, the message's own reply_to wins.

    Raises:
        TypeError: there is no destination.
    """
    text = destination_text(destination, "send_to")

    def add_mark(target: T) -> T:
        setattr(target, _ATTRIBUTE, text)
        return target

    return add_mark


def send_to_destination(handler: object) -> str | None:
    """What `@send_to` says of this handler, or of the class of its instance."""
    own: str | None = getattr(handler, _ATTRIBUTE, None)
    if own is None:
        instance = getattr(handler, "__self__", None)
        own = getattr(type(instance), _ATTRIBUTE, None) if instance is not None else None
    return own
