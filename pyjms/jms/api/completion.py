"""Callbacks of asynchronous sends. (jms-api 3.11)"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from pyjms.errors import JMSException
from pyjms.jms.message import Message

__all__ = ["AsyncCallback", "CompletionListener"]


class CompletionListener(Protocol):
    """Called with the outcome of an asynchronous send. JMS 2.0: javax.jms.CompletionListener.

    One of the two methods, functions or coroutine functions, is called once for each send: in the
    order of the sends, one at a time in a session, and never while a listener of that session runs.
    With `pyjms.aio` they are called on the loop and must not block; with `pyjms` in a thread.
    Exceptions that they raise are logged.
    """

    def on_completion(self, message: Message, /) -> Awaitable[None] | None:
        """Handle a message that the broker has accepted, when a synchronous send would return."""

    def on_exception(self, message: Message, error: JMSException, /) -> Awaitable[None] | None:
        """Handle a failed send, when a synchronous send would raise `error`."""


class AsyncCallback(Protocol):
    """Called with the outcome of an asynchronous send. ActiveMQ: AsyncCallback.

    The rules are those of `CompletionListener`.
    """

    def on_success(self) -> Awaitable[None] | None:
        """Handle a message that the broker has accepted."""

    def on_exception(self, error: JMSException, /) -> Awaitable[None] | None:
        """Handle a failed send."""
