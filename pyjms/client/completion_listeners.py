"""The callbacks of asynchronous sends: JMS's CompletionListener and ActiveMQ's AsyncCallback."""

from __future__ import annotations

from collections.abc import Awaitable

from pyjms.errors import JMSException
from pyjms.jms.api import AsyncCallback, CompletionListener
from pyjms.jms.message import Message

__all__ = ["checked_listener"]


class _CallbackListener:
    """An AsyncCallback as a completion listener."""

    def __init__(self, callback: AsyncCallback) -> None:
        self._callback = callback

    def on_completion(self, _: Message) -> Awaitable[None] | None:
        """Call `on_success`."""
        return self._callback.on_success()

    def on_exception(self, _: Message, error: JMSException) -> Awaitable[None] | None:
        """Call `on_exception`."""
        return self._callback.on_exception(error)


def checked_listener(
    listener: CompletionListener | None, callback: AsyncCallback | None
) -> CompletionListener:
    """Return the completion listener of a send; a callback is wrapped in one.

    Raises:
        TypeError: both are given, or the given object lacks one of the two methods.
    """
    if listener is not None and callback is not None:
        raise TypeError("Give a completion_listener or a callback, not both")
    given, first = (listener, "on_completion") if callback is None else (callback, "on_success")
    for name in (first, "on_exception"):
        if not callable(getattr(given, name, None)):
            raise TypeError(
                f"A {type(given).__name__} has no {name}(): a completion listener has "
                "on_completion(message) and on_exception(message, error), an AsyncCallback "
                "on_success() and on_exception(error)"
            )
    if callback is not None:
        return _CallbackListener(callback)
    assert listener is not None
    return listener
