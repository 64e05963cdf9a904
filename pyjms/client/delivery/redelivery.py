"""Redelivery by the client: rolled-back messages wait here, then come again, or are refused.

The broker hears of nothing but a REDELIVERED acknowledgement, and of POISON at the end.
(ActiveMQ R1 to R5, R9)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from pyjms import _clock
from pyjms._wakeup import BackgroundTask
from pyjms.client.messages import from_command
from pyjms.wire.openwire.commands import MessageDispatch, Throwable

if TYPE_CHECKING:
    from pyjms.client.delivery.consumer import ActiveMQMessageConsumer

__all__ = ["Redeliverer", "is_delayed_by_broker"]

logger = logging.getLogger(__name__)

_BROKER_DELAY = "redeliveryDelay"  # the broker's redelivery plug-in sets this property

_LONGEST_TEXT: Final = 2048
"""Characters of an error's text that a dead letter carries."""


class Redeliverer:
    """What of one consumer was rolled back."""

    def __init__(self, consumer: ActiveMQMessageConsumer) -> None:
        self._consumer = consumer
        self._delay: float | None = None
        self._timers: list[BackgroundTask] = []
        self.waiting: list[MessageDispatch] = []
        """What waits beside the buffer, while later messages pass (nonBlockingRedelivery)."""

    def roll_back(self) -> None:
        """Count a failed delivery of all that was handed out; have it come again or refuse it."""
        consumer = self._consumer
        taken = consumer.ledger.take_back()
        if not taken:
            return
        cause = _take_cause(taken)
        redeliveries = taken[-1].redelivery_counter
        for dispatch in taken:
            dispatch.redelivery_counter += 1
            consumer.forget(dispatch)
        if consumer.redelivery_policy.is_exceeded(redeliveries + 1):
            self._delay = None
            times = f"after delivery {redeliveries + 1}"
            self._poison(taken, _exceeded(consumer, redeliveries + 1, cause), times, cause)
            return
        if redeliveries > 0:
            consumer.ledger.redelivered(taken)
        if consumer.is_closed:
            return
        previous = None if redeliveries == 0 else self._delay or 0.0
        self._delay = consumer.redelivery_policy.next_delay(previous)
        self._redeliver(taken, self._delay)

    def refuse(self, dispatch: MessageDispatch) -> None:
        """Refuse a message before any delivery here: it came too often elsewhere. (R5)"""
        times = f"before delivery {dispatch.redelivery_counter + 1}"
        self._poison([dispatch], _came_too_often(self._consumer, dispatch), times, None)

    def close(self) -> None:
        """Let nothing come again."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _poison(
        self, taken: list[MessageDispatch], refusal: Throwable, times: str, cause: Throwable | None
    ) -> None:
        for dispatch in taken:
            command = dispatch.message
            assert command is not None
            logger.warning(
                "Message %s of %s is refused %s and becomes a dead letter%s%s",
                command.message_id,
                dispatch.destination,
                times,
                "" if command.persistent else ", if the broker keeps non-persistent ones",
                "" if cause is None else f". Cause: {_text_of(cause)}",
            )
        self._consumer.ledger.poison(taken, refusal)

    def _redeliver(self, taken: list[MessageDispatch], delay: float) -> None:
        consumer = self._consumer
        if delay <= 0:
            consumer.put_back(taken)
        elif consumer.session.connection.options.non_blocking_redelivery:
            self.waiting.extend(taken)
            self._later(self._put_back, taken, delay)
        else:
            self.close()
            consumer.pause(True)
            consumer.put_back(taken)
            self._later(self._resume, delay)

    def _later(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        self._timers = [timer for timer in self._timers if not timer.done]
        self._timers.append(self._consumer.session.tasks.spawn(function, *args))

    async def _resume(self, delay: float) -> None:
        await _clock.sleep(delay)
        self._consumer.pause(False)

    async def _put_back(self, taken: list[MessageDispatch], delay: float) -> None:
        await _clock.sleep(delay)
        ready = set(map(id, taken))
        self.waiting = [dispatch for dispatch in self.waiting if id(dispatch) not in ready]
        self._consumer.put_back(taken)


def is_delayed_by_broker(dispatch: MessageDispatch) -> bool:
    """Whether the broker redelivered it on purpose, so that its count is not ours to judge."""
    assert dispatch.message is not None
    return _BROKER_DELAY in from_command(dispatch.message).properties


def _came_too_often(consumer: ActiveMQMessageConsumer, dispatch: MessageDispatch) -> Throwable:
    return Throwable(
        "java.lang.Throwable",
        f"Dispatch[{dispatch.redelivery_counter}] to {consumer.info.consumer_id}"
        f" exceeds redelivery policy limit:{consumer.redelivery_policy}",
    )


def _exceeded(
    consumer: ActiveMQMessageConsumer, deliveries: int, cause: Throwable | None
) -> Throwable:
    return Throwable(
        "java.lang.Throwable",
        f"Delivery[{deliveries}] exceeds redelivery policy limit:{consumer.redelivery_policy},"
        f" cause:{'null' if cause is None else _text_of(cause)}",
        (),
        cause,
    )


def _text_of(cause: Throwable) -> str:
    return f"{cause.class_name}: {cause.message}" if cause.message else f"{cause.class_name}"


def _take_cause(taken: list[MessageDispatch]) -> Throwable | None:
    """Return why the last message failed of those that did; none keeps its error any longer."""
    cause = None
    for dispatch in taken:
        error, dispatch.rollback_cause = dispatch.rollback_cause, None
        if error is not None:
            cause = _as_throwable(error)
    return cause


def _as_throwable(error: BaseException) -> Throwable:
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    try:
        text = str(error)
    except Exception as second:  # an application's class: the message must go its way all the same
        text = f"its text cannot be had: {type(second).__name__}"
    if len(text) > _LONGEST_TEXT:
        text = text[: _LONGEST_TEXT - 3] + "..."
    return Throwable(name, text)
