"""The path of a send through a template: its session, its message, and the producer's call.

In a module of its own so that it can be compiled: tests of applications replace methods of
JmsTemplate, which stays interpreted.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import Connection, MessageProducer, Session
from pyjms.jms.destination import AnyDestination, Destination
from pyjms.jms.message import Message
from pyjms.runtime.clock import check_seconds
from pyjms.template import resources
from pyjms.template.interceptors import InterceptorChain, SendInterceptor, SendInvocation
from pyjms.template.resources import close_quietly
from pyjms.template.send_options import (
    MessageCreator,
    MessageOptions,
    MessagePostProcessor,
    prepare,
)

if TYPE_CHECKING:
    from pyjms.template.template import TemplateSettings

_QOS: Final = ("delivery_mode", "priority", "time_to_live")


class OperationSession:
    """The session of one operation of a template, in an `async with` block.

    It is the session that is bound to the current task. Without one it is a new session on a new
    connection; both are closed at the end of the block as by `using`, or, within the transaction
    of another resource, at its end. `is_separate`: always a new session, outside transactions.
    """

    __slots__ = ("_is_separate", "_opened", "_start", "_template")

    def __init__(
        self,
        template: TemplateSettings,
        *,
        start_connection: bool = False,
        is_separate: bool = False,
    ) -> None:
        self._template = template
        self._start = start_connection
        self._is_separate = is_separate
        self._opened: tuple[Connection, Session] | None = None

    async def __aenter__(self) -> Session:
        return await self.open()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.close(is_quiet=error is not None)

    async def open(self) -> Session:
        """Return the session."""
        template = self._template
        factory = template.connection_factory
        transacted, mode = False, AcknowledgeMode.AUTO
        if not self._is_separate:
            transacted, mode = template.session_transacted, template.session_acknowledge_mode
            resource = resources.bound_resource(factory)
            if (
                resource is None
                and (transaction := resources.current_synchronizations()) is not None
            ):
                resource = await transaction.open_session(factory, transacted, mode)
            if resource is not None:
                if self._start:
                    await resource.connection.start()
                return resource.session
        connection = await factory.create_connection()
        session: Session | None = None
        failed: list[BaseException] = []  # handled after `except`: see with_cleanup
        try:
            session = await connection.create_session(transacted, mode)
            if self._start:
                await connection.start()
        except BaseException as error:
            failed.append(error)
        if failed or session is None:
            await close_quietly(session, connection)
            raise failed.pop()  # a name for it would be a cycle, which keeps the message alive
        self._opened = connection, session
        return session

    async def close(self, *, is_quiet: bool) -> None:
        """Close the session if `open` has opened it; `is_quiet`: an error is on its way."""
        if self._opened is None:
            return
        connection, session = self._opened
        if is_quiet:
            await close_quietly(session, connection)
            return
        failed: list[BaseException] = []  # as above
        try:
            await session.close()
        except BaseException as error:
            failed.append(error)
        if failed:
            await close_quietly(connection)
            raise failed.pop()
        await connection.close()


async def create_and_send(
    template: TemplateSettings,
    chain: InterceptorChain[SendInterceptor] | None,
    destination: AnyDestination,
    creator: MessageCreator,
    post_processor: MessagePostProcessor | None,
    options: MessageOptions,
) -> None:
    """Send what `creator` returns, with a session for this operation."""
    operation = OperationSession(template)
    session = await operation.open()
    failed: list[BaseException] = []  # as in OperationSession
    try:
        target = template.resolve(session, destination)
        message = await create_message(template, session, creator, post_processor, options)
        await send_message(template, chain, session, target, message, options)
    except BaseException as error:
        failed.append(error)
    await operation.close(is_quiet=bool(failed))
    if failed:
        raise failed.pop()


async def create_message(
    template: TemplateSettings,
    session: Session,
    creator: MessageCreator,
    post_processor: MessagePostProcessor | None,
    options: MessageOptions,
) -> Message:
    """Return the message that `creator` makes, with its options."""
    message = creator(session)
    if not isinstance(message, Message):
        message = await _awaited_message(message, "The message creator")
    if options:
        prepare(template, session, message, options)
    if post_processor is not None:
        message = post_processor(message)
        if not isinstance(message, Message):
            message = await _awaited_message(message, "The post processor")
    return message


async def send_message(
    template: TemplateSettings,
    chain: InterceptorChain[SendInterceptor] | None,
    session: Session,
    destination: Destination,
    message: Message,
    options: MessageOptions,
) -> None:
    """Send through the chain of send interceptors; commit a session of the template's own."""
    if chain is not None:
        await chain.around_operation(
            SendInvocation(destination, message, session),
            partial(_send_now, template, session, destination, message, options),
        )
    else:
        await _send_now(template, session, destination, message, options)


async def _send_now(
    template: TemplateSettings,
    session: Session,
    destination: Destination,
    message: Message,
    options: MessageOptions,
) -> None:
    producer = await create_producer(template, session, destination)
    failed: list[BaseException] = []  # as in OperationSession
    try:
        await producer.send(message, **_qos_of(template, options))
    except BaseException as error:
        failed.append(error)
    if failed:
        await close_quietly(producer)
        raise failed.pop()
    await producer.close()
    if session.transacted and resources.bound_resource(template.connection_factory) is None:
        await session.commit()


async def _awaited_message(result: object, maker: str) -> Message:
    """Return the message that a creator or a post processor is a coroutine function for."""
    value = await result if inspect.isawaitable(result) else result
    if not isinstance(value, Message):
        raise TypeError(f"{maker} must return the message to send, not {value!r:.50}")
    return value


def _qos_of(template: TemplateSettings, options: MessageOptions) -> dict[str, Any]:
    """Return the QoS arguments for a producer's `send`; omitted ones are the producer's."""
    qos: dict[str, Any] = {}
    if template.explicit_qos_enabled:
        qos["delivery_mode"] = template.delivery_mode
        qos["priority"] = template.priority
        qos["time_to_live"] = template.time_to_live
    if options:
        given: Mapping[str, Any] = options
        qos.update({name: given[name] for name in _QOS if given.get(name) is not None})
    delay, name = options.get("delay"), "delay"
    if delay is None:
        delay, name = template.delivery_delay, "delivery_delay"
    if delay is not None:
        check_seconds(name, delay)
        qos["delivery_delay"] = delay
    return qos


async def create_producer(
    template: TemplateSettings, session: Session, destination: Destination | None
) -> MessageProducer:
    """Return a producer with the template's hints."""
    producer = await session.create_producer(destination)
    if not template.message_id_enabled:
        producer.disable_message_id = True
    if not template.message_timestamp_enabled:
        producer.disable_message_timestamp = True
    return producer
