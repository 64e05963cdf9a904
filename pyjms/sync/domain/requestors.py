"""Blocking requestors."""

from __future__ import annotations

from typing import Final

from pyjms.jms import domain
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.domain.requestors import Requestor
from pyjms.sync.closing import CloseableFacade
from pyjms.sync.facade import SessionPart, blocking
from pyjms.sync.session import Session

__all__ = ["QueueRequestor", "TopicRequestor"]


class _Requestor(SessionPart[Requestor], CloseableFacade[Requestor]):
    """The base class of both requestors."""

    __slots__ = ("session",)

    session: Session

    request: Final = blocking(Requestor.request)

    def _over(self, session: Session, core: Requestor) -> None:
        self.attach(core, session.loop, session)
        self.session = session


class QueueRequestor(_Requestor):
    """Sends requests to a queue and waits for the reply to each. JMS: QueueRequestor.

    For one thread at a time; see `pyjms.aio.QueueRequestor`.

    Args:
        session: neither transacted nor used for anything else; `close` closes it.
        queue: the queue to which requests are sent.

    Raises:
        IllegalStateException: the session is transacted.
        InvalidDestinationException: the queue is None.
    """

    __slots__ = ()

    def __init__(self, session: Session, queue: Queue) -> None:
        self._over(session, domain.QueueRequestor(session.core, queue))


class TopicRequestor(_Requestor):
    """Publishes requests to a topic and waits for the reply to each. JMS: TopicRequestor.

    For one thread at a time; see `pyjms.aio.TopicRequestor`.

    Args:
        session: neither transacted nor used for anything else; `close` closes it.
        topic: the topic to which requests are published.

    Raises:
        IllegalStateException: the session is transacted.
        InvalidDestinationException: the topic is None.
    """

    __slots__ = ()

    def __init__(self, session: Session, topic: Topic) -> None:
        self._over(session, domain.TopicRequestor(session.core, topic))
