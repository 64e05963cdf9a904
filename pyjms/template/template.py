"""JmsTemplate: sending and receiving without managing connections and sessions.

Each operation opens a connection and a session and closes them again, unless a session is bound
to the same factory object (`pyjms.template.resources`), in a listener or a transaction. Wrap the
factory in a CachingConnectionFactory to keep them open. (spring-jms 4)
"""

from __future__ import annotations

import builtins
import copy
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, TypeVar, Unpack, overload

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import (
    DestinationResolutionException,
    IllegalStateException,
    RequestTimeoutException,
)
from pyjms.jms.api import ConnectionFactory, MessageProducer, QueueBrowser, Session, check_factory
from pyjms.jms.destination import AnyDestination, Destination, Queue
from pyjms.jms.message import DEFAULT_PRIORITY, Message
from pyjms.runtime.clock import FOR_EVER, check_seconds
from pyjms.runtime.keywords import constructor_names_keywords, names_keywords
from pyjms.support.converter import DefaultMessageConverter, MessageConverter
from pyjms.support.destination import DestinationResolver, SimpleDestinationResolver
from pyjms.support.qos import QosSettings
from pyjms.support.retry import checked_reply
from pyjms.template import resources
from pyjms.template.interceptors import (
    InterceptorChain,
    Interceptors,
    ReceiveInterceptor,
    ReceiveInvocation,
    SendInterceptor,
    chain_of,
)
from pyjms.template.operations import (
    OperationSession,
    create_and_send,
    create_message,
    create_producer,
    send_message,
)
from pyjms.template.replies import (
    check_consumer,
    reply_from_response_queue,
    reply_from_shared_queue,
    reply_from_temporary_queue,
)
from pyjms.template.resources import BoundResource, call, using
from pyjms.template.send_options import (
    MessageCreator,
    MessageOptions,
    MessagePostProcessor,
    SendOptions,
    checked_creator,
)

if TYPE_CHECKING:
    from pathlib import Path

# --- The settings of a template, and the options of a single send. (spring-jms 4.1 to 4.5)

_PROVIDER_DEFAULTS: Final = (DeliveryMode.PERSISTENT, DEFAULT_PRIORITY, 0.0)


class Unset(Enum):
    """The default of arguments for which None has a different meaning."""

    UNSET = "the template's setting"


UNSET: Final = Unset.UNSET

Timeout = float | Unset | None
"""Seconds, None: for ever, or the template's setting."""


class TemplateOptions(TypedDict, total=False):
    """The keyword arguments of JmsTemplate, described by `TemplateSettings`."""

    default_destination: Destination | None
    default_destination_name: str | None
    pub_sub_domain: bool
    session_transacted: bool
    session_acknowledge_mode: AcknowledgeMode
    receive_timeout: float | None
    explicit_qos_enabled: bool | None
    delivery_mode: DeliveryMode
    priority: int
    time_to_live: float
    delivery_delay: float | None
    message_converter: MessageConverter | None
    destination_resolver: DestinationResolver | None
    message_id_enabled: bool
    message_timestamp_enabled: bool
    pub_sub_no_local: bool
    shared_reply_queue: bool
    raise_on_timeout: bool
    require_consumer: bool
    send_interceptors: Iterable[SendInterceptor]
    receive_interceptors: Iterable[ReceiveInterceptor]


class Variants(ABC):
    """Methods that return copies of a template, or of `JmsClient` operations, with other settings.

    The delivery mode, priority and time to live of a copy take effect, as they do with
    `explicit_qos_enabled`.
    """

    @abstractmethod
    def _with(self, **settings: Any) -> Self:
        """Return a copy with these template settings."""

    def with_delivery_persistent(self, persistent: bool) -> Self:
        """Return a copy that sends persistent (or non-persistent) messages."""
        return self._with(delivery_persistent=persistent, explicit_qos_enabled=True)

    def with_priority(self, priority: int) -> Self:
        """Return a copy that sends with `priority`, 0 to 9."""
        return self._with(priority=priority, explicit_qos_enabled=True)

    def with_time_to_live(self, seconds: float) -> Self:
        """Return a copy whose messages expire in `seconds`; 0: never.

        Raises:
            TypeError: it is not a number.
            ValueError: it is negative or not finite.
        """
        check_seconds("time_to_live", seconds)
        return self._with(time_to_live=seconds, explicit_qos_enabled=True)

    def with_receive_timeout(self, seconds: float | None) -> Self:
        """Return a copy that waits `seconds` for messages; None: for ever.

        Raises:
            TypeError: it is not a number.
            ValueError: it is not finite.
        """
        if seconds is not None:
            check_seconds("timeout", seconds, least=None, otherwise=FOR_EVER)
        return self._with(receive_timeout=seconds)


@constructor_names_keywords
class TemplateSettings(Variants):
    """The settings of a JmsTemplate: arguments, and attributes of the same names.

    Args:
        connection_factory: opens the connections.
        default_destination: the destination of operations that name none.
        default_destination_name: the name of the default destination, instead of an object.
        pub_sub_domain: whether destination names are those of topics.
        session_transacted: whether each operation outside a transaction commits by itself.
        session_acknowledge_mode: the mode of sessions that are not transacted.
        receive_timeout: seconds to wait for a message; None: for ever, 0: do not wait.
        explicit_qos_enabled: whether the next three arguments apply instead of the provider's
            defaults; None: if one of them is given here. Setting these attributes later does not
            enable it, as in Spring.
        delivery_mode: PERSISTENT or NON_PERSISTENT.
        priority: 0 to 9.
        time_to_live: seconds until a message expires; 0: never.
        delivery_delay: seconds before the broker delivers a message, sent as the property
            AMQ_SCHEDULED_DELAY. Without a scheduler (`scheduler_support`, ActiveMQ:
            `schedulerSupport`) the bundled broker refuses the message, and ActiveMQ delivers it at
            once. None: no delay.
        message_converter: None: a DefaultMessageConverter.
        destination_resolver: None: a SimpleDestinationResolver.
        message_id_enabled: False: a hint that message ids are not needed.
        message_timestamp_enabled: False: messages are sent without a timestamp.
        pub_sub_no_local: on topics, do not receive messages sent by the same connection.
        shared_reply_queue: whether requests over a shared connection share a temporary queue for
            their replies, which then need a correlation id; False: each request has a separate
            queue, as in Spring.
        raise_on_timeout: whether a request without a reply in time raises
            RequestTimeoutException instead of returning None.
        require_consumer: whether a request to a destination without a consumer raises
            NoConsumerException at once instead of being sent. The broker is asked before each
            request, by its consumer advisories: that takes some more round trips, and the right to
            read them. Not for destinations that the broker forwards to others.
        send_interceptors: functions `(invocation, proceed)` around each send and request, the
            first is the outermost (see `pyjms.template.interceptors`).
        receive_interceptors: such functions around each receive, except receives of replies.

    Raises:
        ConfigurationException: an interceptor cannot be called.
        TypeError: a duration is not a number.
        ValueError: a duration is negative or not finite; a `receive_timeout` may be negative.
    """

    def __init__(
        self,
        connection_factory: ConnectionFactory,
        *,
        default_destination: Destination | None = None,
        default_destination_name: str | None = None,
        pub_sub_domain: bool = False,
        session_transacted: bool = False,
        session_acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO,
        receive_timeout: float | None = None,
        explicit_qos_enabled: bool | None = None,
        delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT,
        priority: int = DEFAULT_PRIORITY,
        time_to_live: float = 0.0,
        delivery_delay: float | None = None,
        message_converter: MessageConverter | None = None,
        destination_resolver: DestinationResolver | None = None,
        message_id_enabled: bool = True,
        message_timestamp_enabled: bool = True,
        pub_sub_no_local: bool = False,
        shared_reply_queue: bool = True,
        raise_on_timeout: bool = False,
        require_consumer: bool = False,
        send_interceptors: Iterable[SendInterceptor] = (),
        receive_interceptors: Iterable[ReceiveInterceptor] = (),
    ) -> None:
        check_factory(connection_factory, type(self).__name__)
        self.connection_factory = connection_factory
        self.default_destination = default_destination
        self.default_destination_name = default_destination_name
        self.pub_sub_domain = pub_sub_domain
        self.session_transacted = session_transacted
        self.session_acknowledge_mode = session_acknowledge_mode
        self.receive_timeout = receive_timeout
        given = (delivery_mode, priority, time_to_live)
        self.explicit_qos_enabled: bool = (
            given != _PROVIDER_DEFAULTS if explicit_qos_enabled is None else explicit_qos_enabled
        )
        self.delivery_mode: DeliveryMode = delivery_mode
        self.priority: int = priority
        self.time_to_live: float = time_to_live
        self.delivery_delay = delivery_delay
        self.message_converter: MessageConverter = message_converter or DefaultMessageConverter()
        self.destination_resolver: DestinationResolver = (
            destination_resolver or SimpleDestinationResolver()
        )
        self.message_id_enabled = message_id_enabled
        self.message_timestamp_enabled = message_timestamp_enabled
        self.pub_sub_no_local = pub_sub_no_local
        self.shared_reply_queue = shared_reply_queue
        self.raise_on_timeout = raise_on_timeout
        self.require_consumer = require_consumer
        self._send_chain = chain_of(send_interceptors)
        self._receive_chain = chain_of(receive_interceptors)
        self.seconds_to_wait(UNSET)
        check_seconds("time_to_live", time_to_live)
        if delivery_delay is not None:
            check_seconds("delivery_delay", delivery_delay)

    send_interceptors: Interceptors[SendInterceptor] = Interceptors(
        "_send_chain", "The interceptors around sends, outermost first; can be set at any time."
    )
    receive_interceptors: Interceptors[ReceiveInterceptor] = Interceptors(
        "_receive_chain",
        "The interceptors around receives, outermost first; can be set at any time.",
    )

    @property
    def send_chain(self) -> InterceptorChain[SendInterceptor] | None:
        """The send interceptors as a chain that can be called; None if there are none."""
        return self._send_chain

    @property
    def delivery_persistent(self) -> bool:
        """Whether `delivery_mode` is PERSISTENT; setting it sets `delivery_mode`."""
        return self.delivery_mode == DeliveryMode.PERSISTENT

    @delivery_persistent.setter
    def delivery_persistent(self, persistent: bool) -> None:
        self.delivery_mode = DeliveryMode.PERSISTENT if persistent else DeliveryMode.NON_PERSISTENT

    def with_delay(self, seconds: float) -> Self:
        """Return a copy of this template whose messages the broker delivers `seconds` later.

        This template is not changed. The broker needs a scheduler, see `delivery_delay`. Spring's
        JmsClient has such methods.

        Raises:
            TypeError: it is not a number.
            ValueError: it is negative or not finite.
        """
        check_seconds("delay", seconds)
        return self._with(delivery_delay=seconds)

    def _with(self, **settings: Any) -> Self:
        changed = copy.copy(self)
        for name, value in settings.items():
            setattr(changed, name, value)
        return changed

    def seconds_to_wait(self, timeout: Timeout) -> float | None:
        """Return the seconds to wait for a message: `timeout`, or else `receive_timeout`.

        Raises:
            TypeError: it is not a number.
            ValueError: it is not finite.
        """
        is_own = isinstance(timeout, Unset)
        seconds = self.receive_timeout if isinstance(timeout, Unset) else timeout
        if seconds is not None:
            name = "receive_timeout" if is_own else "timeout"
            check_seconds(name, seconds, least=None, otherwise=FOR_EVER)
        return seconds

    def set_qos_settings(self, settings: QosSettings) -> None:
        """Set the QoS settings, and enable `explicit_qos_enabled`."""
        self.explicit_qos_enabled = True
        self.delivery_mode = settings.delivery_mode
        self.priority = settings.priority
        self.time_to_live = settings.time_to_live

    def resolve(self, session: Session, destination: AnyDestination) -> Destination:
        """Return the destination for an object or a name, or the default destination.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
        """
        if destination is None:
            destination = self.default_destination or self.default_destination_name
        if isinstance(destination, str):
            return self.destination_resolver.resolve_destination_name(
                session, destination, self.pub_sub_domain
            )
        if destination is None:
            raise IllegalStateException(
                "No 'default_destination' or 'default_destination_name' specified",
                hint="pass a destination, or set a default on the template",
            )
        return destination

    def resolve_or_none(self, session: Session, destination: AnyDestination) -> Destination | None:
        """Resolve like `resolve`; return None if there is neither a destination nor a default."""
        if destination is None:
            destination = self.default_destination or self.default_destination_name
        return None if destination is None else self.resolve(session, destination)


_T = TypeVar("_T")

SessionCallback = Callable[[Session], Awaitable[_T] | _T]
"""A function or coroutine function of a session."""

ProducerCallback = Callable[[Session, MessageProducer], Awaitable[_T] | _T]
"""A function or coroutine function of a session and a producer."""

BrowserCallback = Callable[[Session, QueueBrowser], Awaitable[_T] | _T]
"""A function or coroutine function of a session and a browser."""

_ACKNOWLEDGED_BY_TEMPLATE = (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL)


class JmsTemplate(TemplateSettings):
    """Sends and receives without managing connections and sessions. Spring: JmsTemplate.

    Every operation takes its destination first: an object, a name, or None for the default.
    Callbacks may be functions or coroutine functions. Any number of tasks of one loop may share a
    template once it is configured; for other threads use `pyjms.JmsTemplate`. Cancelling an
    operation closes what it has opened. JMS exceptions are not translated.
    """

    @staticmethod
    @names_keywords
    def from_settings(
        config: Path | str | None = None,
        *,
        profiles: Iterable[str] | None = None,
        broker: str | None = None,
    ) -> JmsTemplate:
        """Return the template that an application with these settings has, for other programs.

        See `pyjms.JmsTemplate.from_settings`, which has the same arguments and errors. Reads files;
        `await connection_factory.destroy()` closes the connections.
        """
        # the one import from above, which the contracts name: only this method needs an
        # application's settings and objects
        from pyjms.app.objects import template_from_settings  # noqa: PLC0415

        return template_from_settings(config, profiles, broker)

    async def send(
        self, destination: AnyDestination, creator: MessageCreator, **options: Unpack[SendOptions]
    ) -> None:
        """Send the message that `creator(session)` returns.

        Sending overwrites the headers that it sets (priority, delivery mode, expiration and
        others) and keeps reply_to, correlation_id, type and properties. Waits for the broker as
        the producer's `send` does.

        Args:
            destination: a destination or its name; None: the default.
            creator: returns the message.
            options: headers and properties of the message, see `SendOptions`.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            TypeError: `creator` is not callable, or an option unknown; `convert_and_send` takes
                a payload.
            JMSException: the message could not be sent.
        """
        await create_and_send(
            self, self._send_chain, destination, checked_creator(creator), None, options
        )

    async def convert_and_send(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        post_processor: MessagePostProcessor | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Convert `payload` to a message and send it, or the message that `post_processor` returns.

        A message as payload is sent without conversion, with the options set on it.

        Args:
            destination: a destination or its name; None: the default.
            payload: converted by `message_converter`.
            post_processor: gets the message, with its options, and returns the message to send.
            options: headers and properties of the message: `properties`, `correlation_id`,
                `reply_to`, `priority`, `time_to_live`, `delay`, `delivery_mode` and `group`; see
                `SendOptions`. For options that are omitted or None, the template's settings apply.

        Raises:
            MessageConversionException: the payload cannot be converted.
            IllegalStateException: there is neither a destination nor a default.
            TypeError: an option is unknown.
            JMSException: the message could not be sent.
        """
        creator = partial(self.message_converter.to_message, payload)
        await create_and_send(self, self._send_chain, destination, creator, post_processor, options)

    async def send_and_receive(
        self,
        destination: AnyDestination,
        creator: MessageCreator,
        *,
        response_queue: Destination | str | None = None,
        timeout: Timeout = UNSET,
        **options: Unpack[MessageOptions],
    ) -> Message | None:
        """Send a request and wait for its reply; return None if none arrives in time.

        Uses a separate session, never a transaction, because the request must be visible.
        Any number of requests may wait at the same time. With a factory that shares its
        connection (caching, single) they share a temporary queue, where a reply is recognized by
        its correlation id: the request's correlation id, or else its message id. With another
        factory, or with `shared_reply_queue` off, each request has a separate temporary queue, as
        in Spring.

        Args:
            destination: a destination or its name; None: the default.
            creator: returns the request.
            response_queue: a permanent queue where the reply is expected, with that correlation
                id; None: a temporary queue.
            timeout: seconds to wait, None: for ever; left out: the template's `receive_timeout`.
            options: headers and properties of the request, see `MessageOptions`.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            TypeError: an option is unknown.
            RequestTimeoutException: no reply arrived in time, and `raise_on_timeout` is set.
            NoConsumerException: nobody would reply, and `require_consumer` is set.
            JMSException: the request could not be sent, or the connection has failed.
        """
        return await self._request(
            destination, checked_creator(creator), None, response_queue, timeout, options
        )

    @overload
    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        type: builtins.type[_T],
        timeout: Timeout = UNSET,
        response_queue: Destination | str | None = None,
        post_processor: MessagePostProcessor | None = None,
        **options: Unpack[MessageOptions],
    ) -> _T | None: ...

    @overload
    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        type: object = None,
        timeout: Timeout = UNSET,
        response_queue: Destination | str | None = None,
        post_processor: MessagePostProcessor | None = None,
        **options: Unpack[MessageOptions],
    ) -> Any: ...

    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        type: object = None,  # noqa: A002 - JMS's word
        timeout: Timeout = UNSET,
        response_queue: Destination | str | None = None,
        post_processor: MessagePostProcessor | None = None,
        **options: Unpack[MessageOptions],
    ) -> Any:
        """Send a payload as a request and return the reply's payload; `request` is an alias.

        Waits for the reply as `send_and_receive` does; None if none arrives in time. Spring:
        JmsMessagingTemplate.convertSendAndReceive.

        Args:
            destination: a destination or its name; None: the default.
            payload: converted by `message_converter`, as the reply is.
            type: the type to which the reply is converted.
            timeout: seconds to wait, None: for ever; left out: the template's `receive_timeout`.
            response_queue: see `send_and_receive`.
            post_processor: gets the request, with its options, and returns the message to send.
            options: headers and properties of the request, see `MessageOptions`.

        Raises:
            MessageConversionException: the payload or the reply cannot be converted.
            IllegalStateException: there is neither a destination nor a default.
            TypeError: an option is unknown.
            RemoteError: the handler raised, and its listener has `errors="reply"`.
            RequestTimeoutException: no reply arrived in time, and `raise_on_timeout` is set.
            NoConsumerException: nobody would reply, and `require_consumer` is set.
            JMSException: the request could not be sent, or the connection has failed.
        """
        reply = await self._request(
            destination,
            partial(self.message_converter.to_message, payload),
            post_processor,
            response_queue,
            timeout,
            options,
        )
        return self._payload(checked_reply(reply), type)

    request = convert_send_and_receive

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
        resource = resources.bound_resource(self.connection_factory)
        async with OperationSession(self, start_connection=True) as session:
            target, limit = self.resolve(session, destination), _until_deadline(seconds, resource)
            receive = partial(
                self._receive_now, session, target, selector, limit, commit=resource is None
            )
            if self._receive_chain is None:
                return await receive()
            invocation = ReceiveInvocation(target, session)

            async def proceed() -> None:
                invocation.message = await receive()

            await self._receive_chain.around_operation(invocation, proceed)
            return invocation.message

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

    async def execute(self, action: SessionCallback[_T], *, start_connection: bool = False) -> _T:
        """Return the result of `action(session)`.

        Within a transaction or a listener, the session bound there is used, otherwise a new one.

        Args:
            action: a function or coroutine function of a session.
            start_connection: start the connection first, for actions that receive.

        Raises:
            JMSException: a connection or session could not be opened.
        """
        async with OperationSession(self, start_connection=start_connection) as session:
            return await call(action, session)

    async def execute_producer(
        self, destination: AnyDestination, action: ProducerCallback[_T]
    ) -> _T:
        """Return the result of `action(session, producer)`.

        Without a destination and a default destination, the producer has no destination.
        """
        async with OperationSession(self) as session:
            target = self.resolve_or_none(session, destination)
            async with using(await create_producer(self, session, target)) as producer:
                return await call(action, session, producer)

    async def browse(self, destination: AnyDestination, action: BrowserCallback[_T]) -> _T:
        """Return the result of `action(session, browser)`; see `browse_selected`."""
        return await self.browse_selected(destination, None, action)

    async def browse_selected(
        self, destination: AnyDestination, selector: str | None, action: BrowserCallback[_T]
    ) -> _T:
        """Return the result of `action(session, browser)` for the messages that match `selector`.

        The messages stay in the queue.

        Raises:
            IllegalStateException: the default destination is not a queue.
            DestinationResolutionException: the given destination is not a queue.
            InvalidSelectorException: the selector is malformed.
        """
        async with OperationSession(self, start_connection=True) as session:
            queue = self.resolve(session, destination)
            if not isinstance(queue, Queue):
                raise _not_a_queue(destination)
            async with using(await session.create_browser(queue, selector)) as browser:
                return await call(action, session, browser)

    async def _request(
        self,
        destination: AnyDestination,
        creator: MessageCreator,
        post_processor: MessagePostProcessor | None,
        response_queue: Destination | str | None,
        timeout: Timeout,
        options: MessageOptions,
    ) -> Message | None:
        seconds = self.seconds_to_wait(timeout)
        factory = self.connection_factory
        async with OperationSession(self, start_connection=True, is_separate=True) as session:
            target = self.resolve(session, destination)
            if self.require_consumer:
                await check_consumer(session, target)
            request = await create_message(self, session, creator, post_processor, options)

            async def send(reply_to: Destination) -> Message:
                request.reply_to = reply_to
                await send_message(self, self._send_chain, session, target, request, options)
                return request

            if response_queue is not None:
                queue = self.resolve(session, response_queue)
                reply = await reply_from_response_queue(session, send, seconds, queue)
            elif self.shared_reply_queue and factory.shares_connection:
                reply = await reply_from_shared_queue(factory, request, send, seconds)
            else:
                reply = await reply_from_temporary_queue(session, send, seconds)
        if reply is None and self.raise_on_timeout:
            raise RequestTimeoutException(
                f"No reply to request {request.message_id} to {target} within {seconds:g} s",
                hint="is a listener running there, and does it return a result in time?",
            )
        return reply

    async def _receive_now(
        self,
        session: Session,
        destination: Destination,
        selector: str | None,
        timeout: float | None,
        *,
        commit: bool,
    ) -> Message | None:
        """Receive one message; acknowledge it as the session requires, or commit if `commit`."""
        if destination.is_queue and not destination.is_temporary:
            # No other message leaves the queue; on a topic the copies are this consumer's anyway.
            opened = await session.create_pull_consumer(destination, selector, timeout=timeout)
        else:
            no_local = self.pub_sub_domain and self.pub_sub_no_local
            opened = await session.create_consumer(destination, selector, no_local=no_local)
        async with using(opened) as consumer:
            message = await consumer.receive(timeout)
            if session.transacted:
                if commit:
                    await session.commit()
            elif message is not None and session.acknowledge_mode in _ACKNOWLEDGED_BY_TEMPLATE:
                await message.acknowledge()
            return message

    def _payload(self, message: Message | None, kind: Any) -> Any:
        return None if message is None else self.message_converter.from_message(message, kind)


def _until_deadline(timeout: float | None, resource: BoundResource | None) -> float | None:
    """Return `timeout`, or the time left to the transaction if that is shorter."""
    remaining = None if resource is None else resource.remaining()
    # As in Spring, a template that waits for ever also does so in a transaction with a deadline.
    return timeout if timeout is None or remaining is None else min(timeout, remaining)


def _not_a_queue(destination: AnyDestination) -> Exception:
    if destination is None:
        return IllegalStateException(
            "The default destination does not correspond to a queue",
            hint="only queues can be browsed",
        )
    return DestinationResolutionException(
        f"Destination {destination} is not a queue", hint="only queues can be browsed"
    )
