"""A handle: one use of a session that is reused. The base of cached and pooled sessions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from pyjms.core.closing import called_back
from pyjms.errors import IllegalStateException
from pyjms.jms.api import MessageListener, Session
from pyjms.jms.api.delegating import DelegatingSession
from pyjms.jms.transaction.synchronization import LocalTransactionEventListener

__all__ = ["SessionHandle"]


class _Kept(Protocol):
    @property
    def session(self) -> Session: ...


_K = TypeVar("_K", bound=_Kept)


class SessionHandle(DelegatingSession, Generic[_K]):
    """Uses the session of `kept` until `close`, which cleans it up and returns it."""

    def __init__(self, kept: _K) -> None:
        self._kept: _K | None = kept
        self._listening = False
        self._observing = False

    def _use(self) -> _K:
        """Return the entry in use.

        Raises:
            IllegalStateException: the handle is closed.
        """
        if self._kept is None:
            raise IllegalStateException("The session is closed")
        return self._kept

    def _touched(self) -> _K:
        """Return the entry in use, for a call after which a cleanup may be needed."""
        return self._use()

    def _target(self) -> Session:
        return self._use().session

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the session's listener; `close` removes it."""
        await self._touched().session.set_message_listener(listener)
        self._listening = listener is not None

    def set_local_transaction_event_listener(
        self, listener: LocalTransactionEventListener | None
    ) -> None:
        """Set the session's transaction listener; `close` removes it."""
        self._touched().session.set_local_transaction_event_listener(listener)
        self._observing = listener is not None

    async def close(self) -> None:
        """Clean the session up and return it; close it if that fails.

        Raises:
            IllegalStateException: called by a completion listener, for which it would wait.
        """
        if self._kept is None:
            return
        try:
            await called_back(self._kept.session)
        except IllegalStateException:
            raise
        except BaseException as error:  # cancelled, or the broker does not respond
            await self._discard(self._take(), error)
            return
        kept = self._take()
        if kept is None:
            return  # another task has closed it
        try:
            await self._clean(kept)
        except BaseException as error:
            await self._discard(kept, error)
        else:
            await self._put_back(kept)

    def _take(self) -> _K | None:
        """Take over the entry in use; return None if another call has taken it."""
        kept, self._kept = self._kept, None
        return kept

    @abstractmethod
    async def _clean(self, kept: _K) -> None:
        """Close the objects that this use has left open; roll back."""

    @abstractmethod
    async def _put_back(self, kept: _K) -> None:
        """Return a clean session."""

    @abstractmethod
    async def _discard(self, kept: _K | None, error: BaseException) -> None:
        """Close a session that could not be cleaned up; raise `error` if the caller needs it."""
