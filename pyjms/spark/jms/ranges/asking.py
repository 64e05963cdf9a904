"""Requests to the broker's queue `PyJMS.Ranges`, and its answers.

One asker a process and broker, on the connection that all of the process share: many requests may
be under way, told apart by their correlation ids. Belongs to the shared loop.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
from tenacity import AsyncRetrying, retry_if_exception, wait_exponential

from pyjms import _clock
from pyjms.client.connection import ActiveMQConnection
from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import DeliveryMode
from pyjms.errors import (
    JMSException,
    JMSSecurityException,
    RequestTimeoutException,
)
from pyjms.jms.bodies import TextMessage
from pyjms.jms.destination import Queue, TemporaryQueue
from pyjms.jms.message import Message
from pyjms.spark.jms.client import LOST, connected, forget
from pyjms.spark.jms.options import JmsOptions

__all__ = ["Asker", "RangesRefused", "asker", "has_ranges", "patiently"]

R = TypeVar("R")

RANGES: Final = Queue("PyJMS.Ranges")
_ANSWERED_WITHIN: Final = 60.0
"""Seconds that an answer may take beyond what it was told to wait."""
_KNOWN_WITHIN: Final = (1.0, 3.0)
"""Seconds in which a broker that has ranges says so; another one forgets the question then.

Asked twice, and in between it has to answer something else: one that is busy is not taken for one
that has none, which would have the query go through a spool for ever.
"""
_LOOK_AGAIN: Final = 0.5
"""Seconds after which a lost connection is noticed by who waits for an answer."""
_NO_LEASE: Final = "is-anybody-there"
_PASSING: Final = frozenset(("leased", "in_flight", "unknown_token"))
"""Refusals that may be over later: of a lease that somebody has, or that has to be taken again."""


class RangesRefused(JMSException):
    """The broker refuses a request; `code` is one of the protocol's."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Question:
    def __init__(self) -> None:
        self.answer: Message | None = None
        self.answered = anyio.Event()


class Asker:
    """Asks over one connection, for as long as that lives."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self.connection = connection
        self._session: ActiveMQSession | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[str, _Question] = {}

    async def open(self) -> None:
        """Make what is needed to ask."""
        session = self._session = await self.connection.create_session()
        self._answers: TemporaryQueue = await session.create_temporary_queue()
        self._consumer: ActiveMQMessageConsumer = await session.create_consumer(self._answers)
        await self._consumer.set_message_listener(self._answered)
        self._producer: ActiveMQMessageProducer = await session.create_producer(RANGES)

    @property
    def is_dead(self) -> bool:
        """Whether the connection has failed."""
        return self.connection.failure is not None

    async def ask(
        self, operation: str, *, within: float = _ANSWERED_WITHIN, **fields: object
    ) -> Message:
        """Ask and return the answer.

        Raises:
            RangesRefused: the broker says no, and why.
            RequestTimeoutException: it says nothing.
            JMSException: the connection is lost.
        """
        message = TextMessage(json.dumps({"op": operation, **fields}))
        name = message.correlation_id = str(next(self._numbers))
        message.reply_to = self._answers
        waiting = self._waiting[name] = _Question()
        until = _clock.now() + within
        try:
            await self._producer.send(
                message, delivery_mode=DeliveryMode.NON_PERSISTENT, time_to_live=within
            )
            while waiting.answer is None:
                if self.is_dead:
                    raise self.connection.failed_error()
                if _clock.now() >= until:
                    raise RequestTimeoutException(
                        f"{RANGES} did not answer {operation} within {within} s"
                    )
                with _clock.timeout(min(until - _clock.now(), _LOOK_AGAIN)):
                    await waiting.answered.wait()
        finally:
            del self._waiting[name]
        if isinstance(waiting.answer, TextMessage):
            _values(waiting.answer)
        return waiting.answer

    async def meet(self) -> None:
        """Wait until the broker answers something that every broker answers.

        Raises:
            JMSException: the connection is lost.
        """
        assert self._session is not None
        producer = await self._session.create_producer(RANGES)
        await producer.close()

    async def values(
        self, operation: str, *, within: float = _ANSWERED_WITHIN, **fields: object
    ) -> dict[str, Any]:
        """Ask and return the JSON of the answer.

        Raises:
            JMSException: as `ask` says.
        """
        return _values(await self.ask(operation, within=within, **fields))

    def _answered(self, message: Message) -> None:
        question = self._waiting.get(message.correlation_id or "")
        if question is not None:
            question.answer = message
            question.answered.set()


_askers: dict[ActiveMQConnection, Asker] = {}
_turn = anyio.Lock()


async def asker(options: JmsOptions) -> Asker:
    """Return this process's asker for the options' broker.

    Raises:
        JMSException: the broker cannot be reached, or refuses.
    """
    async with _turn:
        connection = await connected(options)
        if connection.failure is not None:
            await forget(options)
            connection = await connected(options)
        for old in [each for each in _askers if each.failure is not None]:
            del _askers[old]
        known = _askers.get(connection)
        if known is None:
            known = Asker(connection)
            await known.open()
            _askers[connection] = known
        return known


async def has_ranges(options: JmsOptions) -> bool:
    """Whether the broker answers at `PyJMS.Ranges`; one that does not let us ask has none.

    Raises:
        JMSException: the broker cannot be reached, or refuses the connection.
    """
    await connected(options)
    try:
        there = await asker(options)
        for seconds in _KNOWN_WITHIN:
            with suppress(RequestTimeoutException):
                await there.ask("stat", within=seconds, token=_NO_LEASE)
                return True
            await there.meet()
    except RangesRefused:
        return True
    except JMSSecurityException:
        return False
    return False


async def patiently(work: Callable[[], Awaitable[R]], seconds: float) -> R:
    """Do `work`, again and again while the broker or the lease may come back, for `seconds`.

    Raises:
        JMSException: neither did, or the broker refuses for good.
    """
    until = _clock.now() + seconds
    return await AsyncRetrying(
        retry=retry_if_exception(_is_passing),
        stop=lambda _: _clock.now() >= until,
        wait=wait_exponential(0.1, max=3.0),
        sleep=_clock.sleep,
        reraise=True,
    )(work)


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, LOST) or (isinstance(error, RangesRefused) and error.code in _PASSING)


def _values(message: Message) -> dict[str, Any]:
    text = message.text if isinstance(message, TextMessage) else None
    found: dict[str, Any] = json.loads(text or "{}")
    if "error" in found:
        raise RangesRefused(str(found.get("code")), str(found["error"]))
    return found
