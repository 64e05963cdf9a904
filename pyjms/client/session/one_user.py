"""Detects concurrent use of a session in the coroutine API.

JMS: a session is for one thread at a time, except `close` (JMS 1.1, section 4.4.6). Tasks of one
event loop do not run at the same time, so fewer calls are errors. The following are refused:

- a call from another thread or event loop than the connection's, to which the transport belongs;
- `commit`, `rollback` and `recover` while another task waits in `receive`, and any call while
  another task is in `commit` or `rollback`: the transaction of such a call would be undetermined.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident

from anyio import get_current_task
from anyio.lowlevel import current_token

from pyjms.client.delivery.dispatcher import ListenerDispatcher
from pyjms.client.session.resources import SessionResources
from pyjms.errors import IllegalStateException

__all__ = ["SessionUse"]

_ends: ContextVar[tuple[SessionUse, ...]] = ContextVar("pyjms_ending_sessions", default=())
"""The sessions whose unit of work ends in the current context, as seen by synchronizations."""


class SessionUse:
    """The thread of one session, and the task that ends its unit of work.

    `thread` and `ending` are public because the methods called for every message compare them, and
    call `check` only if it may raise.
    """

    __slots__ = ("_dispatcher", "_name", "_thread_name", "_token", "ending", "thread")

    def __init__(self, name: object, dispatcher: ListenerDispatcher) -> None:
        """Record the running loop as the session's; `name` is used in error messages.

        Listeners called by `dispatcher` may use the session at any time.
        """
        self._name = name
        self._dispatcher = dispatcher
        self._token = current_token()
        self._thread_name = threading.current_thread().name
        self.thread: int = get_ident()
        self.ending: str | None = None
        """The call in progress that ends the unit of work, with its task; or None."""

    def check(self, call: str) -> None:
        """Refuse a call that must not be made now.

        Raises:
            IllegalStateException: the call is made on another event loop, or while another task is
                in `commit` or `rollback`.
        """
        if self.thread != get_ident():
            self._check_loop(call)
        is_part = self in _ends.get() or self._dispatcher.is_own_call
        if self.ending is not None and not is_part:
            raise self._refusal(f"task {get_current_task().name!r} called {call}", self.ending)

    @contextmanager
    def end(self, call: str, resources: SessionResources) -> Iterator[None]:
        """Record that the current task is in `call`, which ends the unit of work.

        Raises:
            IllegalStateException: as for `check`, or another task waits in `receive`.
        """
        self.check(call)
        self.check_receives(call, resources)
        if self.ending is not None:  # called by a synchronization, thus within `commit`
            yield
            return
        self.ending = f"task {get_current_task().name!r} is in {call}"
        token = _ends.set((*_ends.get(), self))
        try:
            yield
        finally:
            _ends.reset(token)
            self.ending = None

    def check_receives(self, call: str, resources: SessionResources) -> None:
        """Refuse `call` while a task waits in `receive`.

        Raises:
            IllegalStateException: a task waits.
        """
        for consumer in resources.consumers:
            if consumer.receivers.waiting:
                raise self._refusal(
                    f"task {get_current_task().name!r} called {call}",
                    f"another task waits in receive() of consumer {consumer.consumer_id}",
                )

    def _check_loop(self, call: str) -> None:
        try:
            is_own = current_token() == self._token
        except RuntimeError:
            is_own = False
        here = threading.current_thread().name
        if not is_own:
            raise self._refusal(
                f"thread {here!r} called {call}",
                f"it belongs to the event loop of thread {self._thread_name!r}",
            )
        self.thread, self._thread_name = get_ident(), here  # the loop runs in another thread now

    def _refusal(self, this: str, other: str) -> IllegalStateException:
        return IllegalStateException(
            f"The session {self._name} is used twice at the same time: {this}, and {other}",
            hint="create one session for each task or thread that works at the same time",
        )
