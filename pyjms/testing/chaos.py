"""Fault injection, for tests of how handlers cope with failures: the fixture `jms_chaos`.

    async def test_a_lost_connection(jms_app, jms_chaos):
        await jms_app.start(orders)
        jms_chaos.drop_connection(orders.on_order, at="after")
        await jms_app.template.convert_and_send("orders", order)
        await jms_app.drained("orders")
        assert database.rows == [order]  # though the handler was called twice

It is an interceptor of the application under test. The failures that are planned for a handler
happen at its next calls, in the order in which they were planned; then the handler works again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import check_seconds
from pyjms.support.embedded_broker import EmbeddedBroker
from pyjms.template.interceptors import HandlerInvocation, Proceed
from pyjms.testing.remote import RemoteBroker
from pyjms.wire.openwire.commands import ConnectionId, MessageDispatch

Moment = Literal["before", "after"]
_MOMENTS: Final = ("before", "after")


class ChaosError(Exception):
    """Raised by a failure that a test plans, unless the test names another exception."""


@dataclass(frozen=True, slots=True)
class _Failure:
    moment: Moment
    error: BaseException | None = None
    delay: float = 0.0
    drops: bool = False


class Chaos:
    """Plans failures of handlers, and makes connections and the broker fail. Use it on the loop.

    `at` is "before" the handler is called, or "after" it has returned, before the commit. "after"
    simulates a crash between a handler's effects and the commit: the message is delivered again,
    marked as redelivered.
    """

    order: ClassVar[float] = -1e9
    """Outside the application's interceptors, inside the recorder."""

    def __init__(self, broker: EmbeddedBroker | RemoteBroker) -> None:
        self._broker = broker
        self._planned: dict[Any, deque[_Failure]] = {}

    def fail(
        self,
        handler: Callable[..., Any],
        error: BaseException | None = None,
        *,
        at: Moment = "before",
        times: int = 1,
    ) -> None:
        """Make the next `times` calls of a handler fail with `error` (default: ChaosError)."""
        error = error or ChaosError(f"planned by the test, {at} {_name(handler)}")
        self._plan(handler, _Failure(_check_moment(at), error), times)

    def duplicate(self, handler: Callable[..., Any], *, times: int = 1) -> None:
        """Have the next `times` messages handled twice, by rolling back after the handler.

        Messages that the handler sent in the transaction are rolled back; its other effects remain.
        """
        self.fail(handler, ChaosError("planned by the test: a duplicate"), at="after", times=times)

    def delay(
        self, handler: Callable[..., Any], seconds: float, *, at: Moment = "before", times: int = 1
    ) -> None:
        """Make the next `times` calls of a handler take this number of seconds longer.

        With `jms_clock`, this is virtual time.
        """
        check_seconds("seconds", seconds)
        self._plan(handler, _Failure(_check_moment(at), delay=seconds), times)

    def drop_connection(
        self, handler: Callable[..., Any], *, at: Moment = "after", times: int = 1
    ) -> None:
        """Break the connection that a handler's message came by, during its next `times` calls.

        Other connections, such as the template's, are left alone.
        """
        self._plan(handler, _Failure(_check_moment(at), drops=True), times)

    async def drop_connections(self) -> int:
        """Break all connections of the broker now; return how many there were.

        Raises:
            UnsupportedOperationException: the broker is not embedded.
        """
        return await self._broker.drop_connections()

    async def restart_broker(self) -> None:
        """Stop the broker and start it again, at the same URL. Persistent messages survive.

        Raises:
            UnsupportedOperationException: the broker is not embedded.
        """
        await self._broker.restart()

    @property
    def is_over(self) -> bool:
        """Whether all planned failures have happened."""
        return not any(self._planned.values())

    async def __call__(self, invocation: HandlerInvocation, proceed: Proceed) -> object:
        """Apply the next failure planned for the handler: the interceptor."""
        planned = self._planned.get(invocation.handler)
        failure = planned.popleft() if planned else None
        if failure is None:
            return await proceed()
        if failure.moment == "before":
            await self._apply(failure, invocation.message)
        result = await proceed()
        if failure.moment == "after":
            await self._apply(failure, invocation.message)
        return result

    async def _apply(self, failure: _Failure, message: Message) -> None:
        if failure.delay:
            await _clock.sleep(failure.delay)
        if failure.drops:
            received = message.provider_delivery
            assert isinstance(received, MessageDispatch)
            assert received.consumer_id is not None
            await self._broker.drop_connections(ConnectionId(received.consumer_id.connection_id))
        if failure.error is not None:
            raise failure.error

    def _plan(self, handler: Callable[..., Any], failure: _Failure, times: int) -> None:
        if times < 1:
            raise ValueError(f"times is the number of calls, 1 or more, not {times}")
        self._planned.setdefault(handler, deque()).extend([failure] * times)


def _check_moment(moment: Moment) -> Moment:
    if moment not in _MOMENTS:
        raise ValueError(f"at is {' or '.join(map(repr, _MOMENTS))}, not {moment!r}")
    return moment


def _name(handler: Callable[..., Any]) -> str:
    return getattr(handler, "__qualname__", repr(handler))
