"""Redelivery by the client: rolled-back messages wait here, then come again, or are refused.

The broker hears of nothing but a REDELIVERED acknowledgement, and of POISON at the end.
(ActiveMQ R1 to R5, R9)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from pyjms import _clock
from pyjms._wakeup import BackgroundTask
from pyjms.client.messages import from_command
from pyjms.wire.openwire.commands import MessageDispatch, Throwable

if TYPE_CHECKING:
    from pyjms.client.consumer import ActiveMQMessageConsumer

__all__ = ["Redeliverer", "is_delayed_by_broker", "poison_cause"]

_BROKER_DELAY = "redeliveryDelay"  # the broker's redelivery plug-in sets this property


class Redeliverer:
    """What of one consumer was rolled back."""

    def __init__(self, consumer: ActiveMQMessageConsumer) -> None:
        self._consumer = consumer
        self._delay: float | None = None
        self._timers: list[BackgroundTask] = []
        self.waiting: list[MessageDispatch] = []
        """What waits beside the buffer, while later messages pass (nonBlockingRedelivery)."""

    def roll_back(self, cause: Exception | None) -> None:
        """Count a failed delivery of all that was handed out; have it come again or refuse it."""
        consumer = self._consumer
        taken = consumer.ledger.take_back()
        if not taken:
            return
        redeliveries = taken[-1].redelivery_counter
        for dispatch in taken:
            dispatch.redelivery_counter += 1
            consumer.forget(dispatch)
        if consumer.redelivery_policy.is_exceeded(redeliveries + 1):
            self._delay = None
            consumer.ledger.poison(taken, _exceeded(consumer, redeliveries + 1, cause))
            return
        if redeliveries > 0:
            consumer.ledger.redelivered(taken)
        if consumer.is_closed:
            return
        previous = None if redeliveries == 0 else self._delay or 0.0
        self._delay = consumer.redelivery_policy.next_delay(previous)
        self._redeliver(taken, self._delay)

    def close(self) -> None:
        """Let nothing come again."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

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


def poison_cause(consumer: ActiveMQMessageConsumer, dispatch: MessageDispatch) -> Throwable:
    """Say why a message is refused before any delivery here. (R5)"""
    return Throwable(
        "java.lang.Throwable",
        f"Dispatch[{dispatch.redelivery_counter}] to {consumer.info.consumer_id}"
        f" exceeds redelivery policy limit:{consumer.redelivery_policy}",
    )


def is_delayed_by_broker(dispatch: MessageDispatch) -> bool:
    """Whether the broker redelivered it on purpose, so that its count is not ours to judge."""
    assert dispatch.message is not None
    return _BROKER_DELAY in from_command(dispatch.message).properties


def _exceeded(
    consumer: ActiveMQMessageConsumer, deliveries: int, cause: Exception | None
) -> Throwable:
    text = (
        f"Delivery[{deliveries}] exceeds redelivery policy limit:{consumer.redelivery_policy},"
        f" cause:{'null' if cause is None else _java_text(cause)}"
    )
    return Throwable(
        "java.lang.Throwable",
        text,
        (),
        None if cause is None else Throwable(_class_name(cause), str(cause)),
    )


def _class_name(error: Exception) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _java_text(error: Exception) -> str:
    text = str(error)
    return f"{_class_name(error)}: {text}" if text else _class_name(error)
