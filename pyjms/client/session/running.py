"""`Session.run`: calls the session's listener with the messages buffered by its consumers."""

from __future__ import annotations

import anyio

from pyjms.client.interfaces import ListenerDispatch
from pyjms.client.session.resources import SessionResources
from pyjms.errors import IllegalStateException
from pyjms.jms.api import MessageListener

__all__ = ["SessionRuns"]


class _Run:
    """One call of `run`, made by the session's listener dispatcher, one message at a time."""

    is_queued = False
    listener_name = "the listener of a session"

    def __init__(self, resources: SessionResources, listener: MessageListener) -> None:
        self._resources = resources
        self._listener = listener
        self.done = anyio.Event()

    async def deliver_one(self) -> bool:
        """Deliver the next message of any consumer; return whether there may be more."""
        for consumer in list(self._resources.consumers):
            dispatch = consumer.next_dispatch()
            if dispatch is not None:
                await consumer.call_listener(self._listener, dispatch)
                return True
        self.done.set()
        return False


class SessionRuns:
    """The calls of `run` of one session."""

    def __init__(self, dispatcher: ListenerDispatch, resources: SessionResources) -> None:
        self._dispatcher = dispatcher
        self._resources = resources
        self._runs: set[_Run] = set()

    async def run(self, listener: MessageListener | None) -> None:
        """Call `listener` with the buffered messages; cancelling ends only the wait.

        Raises:
            IllegalStateException: there is no listener, or the caller is a listener of the session.
        """
        if listener is None:
            raise IllegalStateException("run() needs a listener: call set_message_listener() first")
        if self._dispatcher.is_own_call:
            raise IllegalStateException("run() cannot be called by a listener of the session")
        run = _Run(self._resources, listener)
        self._runs.add(run)
        try:
            self._dispatcher.wake(run)
            await run.done.wait()
        finally:
            self._runs.discard(run)

    def end(self) -> None:
        """End all waits, because the session is closed."""
        for run in self._runs:
            run.done.set()
