"""Redelivery by the client: messages that were rolled back are delivered again, or refused.

As in ActiveMQ, redelivery is the client's task: it works with every broker, costs the broker
nothing, and keeps the order of messages. The broker sees a REDELIVERED acknowledgement, which
changes nothing there, and a POISON acknowledgement when the policy's maximum is exceeded; then
its dead-letter strategy applies.

Triggers: rollback of a transaction, `recover()`, closing a session with an open transaction, and
a listener that raises in AUTO, DUPS_OK and INDIVIDUAL. In CLIENT and TRANSACTED sessions a
listener that raises does not trigger it: the next message follows. (activemq-broker R2)

One rollback, step by step:

    1. All messages delivered and not settled leave the ledger, oldest first.
    2. The redelivery counter of each is incremented, and the duplicate audit forgets it.
    3. If the listener raised a PoisonMessageException: POISON for each such message.
    4. If the counter is above the maximum: POISON for all others, end. (activemq-broker R4)
    5. Otherwise REDELIVERED, except for the first redelivery, as in ActiveMQ.
    6. The messages return to the front of the buffer in their old order, after a delay:

        delay 0                 at once
        blocking (default)      the consumer is paused, so nothing overtakes them
        non_blocking            they wait in `waiting` while later messages are delivered, each
                                for the delay of its own counter

A message whose listener was `Interrupted` has not failed: its counter stays, and it is never
refused. The broker counts the first interruption alone, so that the message is marked as
redelivered, but further ones do not make it a dead letter.

The counter of a group of messages is that of the last one, as in ActiveMQ: they fail together. The
delay follows the policy: first the initial delay, then fixed or exponential. (activemq-broker R1) A
listener that raises Retry sets another delay for its message, which does not count in that series.

The counters are not reported to the broker. When the consumer ends, the broker counts one failed
delivery for every message up to the last one delivered, however often the client has tried, so
`last_delivered_sequence_id` includes the messages that wait here. (activemq-broker R6)

A transacted consumer also refuses a message whose counter exceeds the maximum on arrival, before
any delivery: other consumers have failed to handle it. Messages that the broker redelivers on
purpose (its redelivery plug-in) are exempt. (activemq-broker R5)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from pyjms.client.messages import from_command
from pyjms.errors import PoisonMessageException, Retry
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask
from pyjms.runtime.logging import error_text, get_logger, last_frame, log_fields, one_line, shorten
from pyjms.wire.openwire.commands import MessageDispatch, Throwable

if TYPE_CHECKING:
    from pyjms.client.consumer import ActiveMQMessageConsumer

logger: Final = get_logger("pyjms.client.refusals")  # by which applications silence it

_BROKER_DELAY = "redeliveryDelay"  # the broker's redelivery plug-in sets this property

_LONGEST_TEXT: Final = 2048
"""Maximum characters of an error's text in a dead letter."""
_WINDOW: Final = 2.0
"""Seconds in which refusals count as one burst."""
_LINES: Final = 3
"""The number of refusals of a burst that are logged separately."""


class Interrupted(Exception):
    """Why a message is rolled back that did not fail: its listener was interrupted."""


class Redeliverer:
    """The redelivery of one consumer."""

    def __init__(self, consumer: ActiveMQMessageConsumer) -> None:
        self._consumer = consumer
        self._delay: float | None = None
        self._timers: list[BackgroundTask] = []
        self.waiting: list[MessageDispatch] = []
        """Messages that wait outside the buffer (non_blocking_redelivery)."""

    def roll_back(self) -> None:
        """Count a failed delivery of all unsettled messages; redeliver or refuse them."""
        consumer = self._consumer
        for dispatch in consumer.ledger.pop_stale():
            consumer.forget(dispatch)
        copies = consumer.ledger.pop_copies()
        self.redeliver(consumer.ledger.pop_delivered())
        if copies:
            consumer.requeue(copies)

    def redeliver(self, unsettled: list[MessageDispatch]) -> None:
        """Count a failed delivery of these messages, oldest first; redeliver or refuse them."""
        consumer = self._consumer
        for dispatch in unsettled:
            consumer.forget(dispatch)
        if any(isinstance(dispatch.rollback_cause, Interrupted) for dispatch in unsettled):
            self._give_back(unsettled)
            return
        for dispatch in unsettled:
            dispatch.redelivery_counter += 1
        failed = [dispatch for dispatch in unsettled if not self._refuse_poison(dispatch)]
        if not failed:
            return
        delay = _wanted_delay(failed)
        cause = _pop_cause(failed)
        redeliveries = failed[-1].redelivery_counter - 1
        if consumer.redelivery_policy.is_exceeded(redeliveries + 1):
            self._delay = None
            thrown = None if cause is None else _as_throwable(cause)
            reason = "null" if thrown is None else _text_of(thrown)
            text = (
                f"Delivery[{redeliveries + 1}] exceeds redelivery policy limit:"
                f"{consumer.redelivery_policy}, cause:{reason}"
            )
            refusal = Throwable("java.lang.Throwable", text, (), thrown)
            self._poison(failed, refusal, f"after delivery {redeliveries + 1}", cause)
            return
        if redeliveries > 0:
            consumer.ledger.acknowledge_redelivered(failed)
        if consumer.is_closed:
            return
        if delay is None and self._is_non_blocking:
            for dispatch in failed:
                delay = consumer.redelivery_policy.delay_before(dispatch.redelivery_counter)
                self._redeliver([dispatch], delay)
            return
        if delay is None:
            previous = None if redeliveries == 0 else self._delay or 0.0
            delay = self._delay = consumer.redelivery_policy.next_delay(previous)
        self._redeliver(failed, delay)

    @property
    def _is_non_blocking(self) -> bool:
        return self._consumer.session.connection.options.non_blocking_redelivery

    def _give_back(self, interrupted: list[MessageDispatch]) -> None:
        """Return messages that have not failed to the buffer, and to the broker at the end."""
        consumer = self._consumer
        if all(dispatch.redelivery_counter > 0 for dispatch in interrupted):
            consumer.last_delivered_sequence_id = -1
        for dispatch in interrupted:
            dispatch.rollback_cause = None
        consumer.requeue(interrupted)

    def pop_waiting(self) -> list[MessageDispatch]:
        """Return the messages that wait outside the buffer, and cancel their redelivery."""
        waiting, self.waiting = self.waiting, []
        return waiting

    def is_exceeded(self, dispatch: MessageDispatch) -> bool:
        """Return whether a transacted consumer refuses it on arrival. (activemq-broker R5)"""
        consumer = self._consumer
        policy = consumer.redelivery_policy
        return (
            consumer.session.transacted
            and policy.pre_dispatch_check
            and policy.is_exceeded(dispatch.redelivery_counter)
            and not _is_delayed_by_broker(dispatch)
        )

    def refuse(self, dispatch: MessageDispatch) -> None:
        """Refuse a message on arrival, because other consumers failed to handle it too often."""
        when = f"before delivery {dispatch.redelivery_counter + 1}"
        consumer = self._consumer
        text = (
            f"Dispatch[{dispatch.redelivery_counter}] to {consumer.consumer_id}"
            f" exceeds redelivery policy limit:{consumer.redelivery_policy}"
        )
        self._poison([dispatch], Throwable("java.lang.Throwable", text), when, None)

    def close(self) -> None:
        """Cancel all pending redeliveries."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _refuse_poison(self, dispatch: MessageDispatch) -> bool:
        """Refuse a message at once if its listener requested that; return whether it did."""
        if not isinstance(dispatch.rollback_cause, PoisonMessageException):
            return False
        self._delay = None
        cause = _pop_cause([dispatch])
        assert cause is not None
        self._poison(
            [dispatch], _as_throwable(cause), f"at delivery {dispatch.redelivery_counter}", cause
        )
        return True

    def _poison(
        self,
        failed: list[MessageDispatch],
        refusal: Throwable,
        when: str,
        cause: BaseException | None,
    ) -> None:
        listener = log_fields.get({}).get("listener_id")
        subject = "Message" if listener is None else f"Listener {listener}: message"
        reason = ""
        if cause is not None:
            reason = f". Cause: {one_line(_text_of(_as_throwable(cause)))}{last_frame(cause)}"
        for dispatch in failed:
            command = dispatch.message
            assert command is not None
            assert dispatch.destination is not None
            kept = "" if command.persistent else ", if the broker keeps non-persistent dead letters"
            session = self._consumer.session
            session.connection.refusals.report(
                f"{subject} {command.message_id} of {dispatch.destination} is refused {when} and "
                f"becomes a dead letter{kept}{reason}",
                str(command.message_id),
                command.correlation_id,
                dispatch.destination,
                session.tasks.spawn,
            )
        self._consumer.ledger.acknowledge_poison(failed, refusal)

    def _redeliver(self, failed: list[MessageDispatch], delay: float) -> None:
        consumer = self._consumer
        if delay <= 0:
            consumer.requeue(failed)
        elif self._is_non_blocking:
            self.waiting.extend(failed)
            self._later(self._requeue, failed, delay)
        else:
            self.close()
            consumer.pause(True)
            consumer.requeue(failed)
            self._later(self._resume, delay)

    def _later(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        self._timers = [timer for timer in self._timers if not timer.done]
        self._timers.append(self._consumer.session.tasks.spawn(function, *args))

    async def _resume(self, delay: float) -> None:
        await _clock.sleep(delay)
        self._consumer.pause(False)

    async def _requeue(self, failed: list[MessageDispatch], delay: float) -> None:
        await _clock.sleep(delay)
        ready, waiting = set(map(id, failed)), self.waiting
        self.waiting = [dispatch for dispatch in waiting if id(dispatch) not in ready]
        self._consumer.requeue([dispatch for dispatch in waiting if id(dispatch) in ready])


def _is_delayed_by_broker(dispatch: MessageDispatch) -> bool:
    """Return whether the broker's redelivery plug-in sent it, so that its counter is exempt."""
    assert dispatch.message is not None
    return _BROKER_DELAY in from_command(dispatch.message).properties


def _text_of(cause: Throwable) -> str:
    return f"{cause.class_name}: {cause.message}" if cause.message else f"{cause.class_name}"


def _wanted_delay(failed: list[MessageDispatch]) -> float | None:
    """Return the longest delay that listeners requested for these messages; None: the policy's."""
    causes = (dispatch.rollback_cause for dispatch in failed)
    wanted = [c.delay for c in causes if isinstance(c, Retry) and c.delay is not None]
    return max(wanted, default=None)


def _pop_cause(failed: list[MessageDispatch]) -> BaseException | None:
    """Return why the last message failed, and drop the errors of all messages."""
    cause = None
    for dispatch in failed:
        error, dispatch.rollback_cause = dispatch.rollback_cause, None
        if error is not None:
            cause = error
    while isinstance(cause, (PoisonMessageException, Retry)) and cause.__cause__ is not None:
        cause = cause.__cause__
    return cause


def _as_throwable(error: BaseException) -> Throwable:
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    return Throwable(name, shorten(error_text(error), _LONGEST_TEXT))


class RefusalLog:
    """Logs the messages that the consumers of one connection refuse. Use it on the loop.

    Each of the first in a burst gets a line, the others a summary.
    """

    def __init__(self) -> None:
        self._began = float("-inf")
        self._lines = 0
        self._others: Counter[str] = Counter()

    def report(
        self,
        text: str,
        message_id: str,
        correlation_id: str | None,
        destination: Destination,
        spawn: Callable[..., object],
    ) -> None:
        """Log `text` as a warning, or count the refusal for the summary at the end of the burst.

        The log record has `message_id`, `correlation_id`, the `destination`'s name and the fields
        of the delivery that is rolled back (listener, trace) as attributes. `spawn` starts the
        background task that logs the summary; if the task is cancelled, it logs it at once.
        """
        now = _clock.now()
        if not self._others and now - self._began > _WINDOW:
            self._began, self._lines = now, 0
        self._lines += 1
        attributes = {
            **log_fields.get({}),
            "message_id": message_id,
            "correlation_id": correlation_id,
            "destination": destination.physical_name,
        }
        if self._lines <= _LINES:
            logger.warning("%s", text, extra=attributes)
            return
        logger.debug("%s", text, extra=attributes)
        first = not self._others
        self._others[str(destination)] += 1
        if first:
            spawn(self._sum_up)

    async def _sum_up(self) -> None:
        try:
            await _clock.sleep(self._began + _WINDOW - _clock.now())
        finally:
            others, self._others = self._others, Counter()
            logger.warning(
                "%d more messages were refused in %.0f s and become dead letters: %s",
                others.total(),
                max(_clock.now() - self._began, 1.0),
                ", ".join(f"{count} of {name}" for name, count in others.most_common()),
            )
