"""Message listeners as users write them, and one call for all their forms.

A listener takes `(message)` or `(message, session)`, is `def` or `async def`, or is an object
with such a method `on_message`. The form is determined once, when the listener is set.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from pyjms.core.workers import Worker
from pyjms.jms.api import Session
from pyjms.jms.message import Message

__all__ = ["ListenerCall", "OnMessage", "listener_name"]


class OnMessage(Protocol):
    """A listener that is an object. JMS: MessageListener, Spring: SessionAwareMessageListener."""

    @property
    def on_message(self) -> Callable[..., Any]:
        """The method that is called with (message) or (message, session)."""


class ListenerCall:
    """A listener whose form has been determined."""

    __slots__ = ("is_async", "listener", "wants_session")

    def __init__(self, listener: Callable[..., Any] | OnMessage) -> None:
        """Determine how `listener` is called.

        Raises:
            ValueError: it is not a listener.
        """
        function = getattr(listener, "on_message", listener)
        if not callable(function):
            raise ValueError(  # noqa: TRY004 - Java's IllegalArgument is ValueError here
                f"Message listener needs to be a callable of (message) or (message, session), "
                f"or to have on_message: {type(listener).__name__} is neither"
            )
        self.listener: Callable[..., Any] = function
        self.is_async: bool = _is_coroutine_function(function)
        self.wants_session: bool = _wants_session(function)

    async def __call__(self, message: Message, session: Session, worker: Worker) -> None:
        """Call the listener: on the loop if it is a coroutine function, otherwise in `worker`."""
        args = (message, session) if self.wants_session else (message,)
        if self.is_async:
            await self.listener(*args)
            return
        result = await worker.run(self.listener, *args)
        if inspect.isawaitable(result):  # a lambda or a wrapper around a coroutine function
            await result


def listener_name(listener: Callable[..., Any] | OnMessage) -> str:
    """Return the default name of the durable subscription of `listener`.

    It is the listener's own `subscription_name` if it has one (Spring: SubscriptionNameProvider),
    else `module.Class` of an object, `module.function` of a function.
    """
    own = getattr(listener, "subscription_name", None)
    if isinstance(own, str) and own:
        return own
    named = listener if hasattr(listener, "__qualname__") else type(listener)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    )


def _wants_session(function: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature accepts what it is given
        return False
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is inspect.Parameter.empty or second.name == "session"
