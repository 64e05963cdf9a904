"""The receive operations of a template."""

from __future__ import annotations

import builtins
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar, overload

from pyjms.core import resources
from pyjms.core.closing import using
from pyjms.core.execution import TemplateExecution
from pyjms.core.interceptors import InterceptorChain, ReceiveInterceptor, ReceiveInvocation
from pyjms.core.resources import BoundResource
from pyjms.core.settings import UNSET, Timeout
from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import Session
from pyjms.jms.destination import AnyDestination, Destination
from pyjms.jms.message import Message

__all__ = ["TemplateReceiving"]

_T = TypeVar("_T")

_ACKNOWLEDGED_BY_TEMPLATE = (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL)


class TemplateReceiving(TemplateExecution):
    """Receives messages or their payloads, one per call."""

    async def receive(
        self, destination: AnyDestination = None, *, timeout: Timeout = UNSET
    ) -> Message | None:
        """Wait for a message as `receive_selected` does, and return it or None."""
        return await self.receive_selected(destination, None, timeout=timeout)

    async def receive_selected(
        self, destination: AnyDestination, selector: str | None, *, timeout: Timeout = UNSET
    ) -> Message | None:
        """Wait for a message that `selector` matches, and return it or None.

        No other message leaves the queue. The message is acknowledged; if the template opened a
        transacted session for the call, it commits. Cancelling the wait loses no message.

        Args:
            destination: a destination or its name; None: the default.
            selector: None: any message.
            timeout: seconds to wait, None: for ever, 0: do not wait; left out: the template's
                `receive_timeout`.

        Raises:
            InvalidSelectorException: the selector is malformed.
            IllegalStateException: there is neither a destination nor a default.
            JMSException: the connection has failed, or the broker refused.
        """
        seconds = self.seconds_to_wait(timeout)
        resource = resources.bound(self.connection_factory)
        async with self._session(start_connection=True) as session:
            receive = partial(
                _receive_from,
                session,
                self.resolve(session, destination),
                selector,
                timeout=_limited(seconds, resource),
                no_local=self.pub_sub_domain and self.pub_sub_no_local,
                commit=resource is None,
            )
            if self._receive_chain is None:
                return await receive()
            return await _surrounded(self._receive_chain, session, receive)

    @overload
    async def receive_and_convert(
        self, destination: AnyDestination = None, *, timeout: Timeout = UNSET
    ) -> Any: ...

    @overload
    async def receive_and_convert(
        self, destination: AnyDestination, type: builtins.type[_T], *, timeout: Timeout = UNSET
    ) -> _T | None: ...

    @overload
    async def receive_and_convert(
        self, destination: AnyDestination = None, type: object = None, *, timeout: Timeout = UNSET
    ) -> Any: ...

    async def receive_and_convert(
        self,
        destination: AnyDestination = None,
        type: object = None,  # noqa: A002 - JMS's word
        *,
        timeout: Timeout = UNSET,
    ) -> Any:
        """Receive a message and return its payload, as `type` if given; None if none arrives.

        Raises:
            MessageConversionException: the message cannot be read, or not converted to `type`. It
                is consumed nevertheless, unless a surrounding transaction rolls back.
        """
        return self._payload(await self.receive(destination, timeout=timeout), type)

    @overload
    async def receive_selected_and_convert(
        self,
        destination: AnyDestination,
        selector: str | None,
        type: builtins.type[_T],
        *,
        timeout: Timeout = UNSET,
    ) -> _T | None: ...

    @overload
    async def receive_selected_and_convert(
        self,
        destination: AnyDestination,
        selector: str | None,
        type: object = None,
        *,
        timeout: Timeout = UNSET,
    ) -> Any: ...

    async def receive_selected_and_convert(
        self,
        destination: AnyDestination,
        selector: str | None,
        type: object = None,  # noqa: A002 - JMS's word
        *,
        timeout: Timeout = UNSET,
    ) -> Any:
        """Receive a message that `selector` matches, like `receive_and_convert`."""
        message = await self.receive_selected(destination, selector, timeout=timeout)
        return self._payload(message, type)

    def _payload(self, message: Message | None, kind: Any) -> Any:
        return None if message is None else self.message_converter.from_message(message, kind)


async def _receive_from(
    session: Session,
    destination: Destination,
    selector: str | None,
    *,
    timeout: float | None,
    no_local: bool,
    commit: bool,
) -> Message | None:
    """Receive one message; acknowledge it as the session requires, or commit if `commit`."""
    if destination.is_queue and not destination.is_temporary:
        # No other message leaves the queue; on a topic the copies are this consumer's anyway.
        opened = await session.create_pull_consumer(destination, selector, timeout=timeout)
    else:
        opened = await session.create_consumer(destination, selector, no_local=no_local)
    async with using(opened) as consumer:
        message = await consumer.receive(timeout)
        if session.transacted:
            if commit:
                await session.commit()
        elif message is not None and session.acknowledge_mode in _ACKNOWLEDGED_BY_TEMPLATE:
            await message.acknowledge()
        return message


def _limited(timeout: float | None, resource: BoundResource | None) -> float | None:
    """Return `timeout`, or the time left to the transaction if that is shorter."""
    remaining = None if resource is None else resource.remaining()
    # As in Spring, a template that waits for ever also does so in a transaction with a deadline.
    return timeout if timeout is None or remaining is None else min(timeout, remaining)


async def _surrounded(
    chain: InterceptorChain[ReceiveInterceptor],
    session: Session,
    receive: partial[Coroutine[Any, Any, Message | None]],
) -> Message | None:
    invocation = ReceiveInvocation(receive.args[1], session)

    async def proceed() -> None:
        invocation.message = await receive()

    await chain.around_operation(invocation, proceed)
    return invocation.message
