"""Message listeners as users write them, and one call for all their forms.

A listener takes `(message)` or `(message, session)`, is `def` or `async def`, or is an object
with such a method `on_message`. The form is determined once, when the listener is set.

`MessageListenerAdapter` makes a listener of a method of any object: one that does not depend on JMS
and has no `@jms_listener`. The method gets the converted body, and its result is the reply.
(spring-jms 6.3)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from pyjms.errors import JMSException, ListenerExecutionFailedException
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.listener.call_limits import CallTimeout, current_timeout
from pyjms.listener.error_handling import called_exit
from pyjms.listener.reply import ReplySender
from pyjms.runtime.logging import get_logger
from pyjms.support.converter import MessageConverter, SimpleMessageConverter
from pyjms.support.qos import QosSettings
from pyjms.template.interceptors import is_coroutine_function
from pyjms.template.workers import Worker, call_in_worker, current_worker

if TYPE_CHECKING:
    from pyjms.listener.batches import Batch

logger: Final = get_logger(__name__)


class OnMessage(Protocol):
    """A listener that is an object. JMS: MessageListener, Spring: SessionAwareMessageListener."""

    @property
    def on_message(self) -> Callable[..., Any]:
        """The method that is called with (message) or (message, session)."""


class ListenerCall:
    """A listener whose form has been determined."""

    __slots__ = ("applies_timeout", "is_async", "listener", "wants_session")

    def __init__(self, listener: Callable[..., Any] | OnMessage) -> None:
        """Determine how `listener` is called."""
        function = getattr(listener, "on_message", listener)
        if not callable(function):
            raise ValueError(  # noqa: TRY004 - Java's IllegalArgument is ValueError here
                f"Message listener needs to be a callable of (message) or (message, session), "
                f"or to have on_message: {type(listener).__name__} is neither"
            )
        self.listener: Callable[..., Any] = function
        self.is_async: bool = is_coroutine_function(function)
        self.wants_session: bool = _wants_session(function)
        self.applies_timeout: bool = getattr(listener, "applies_timeout", False)
        """Whether it applies `current_timeout` to the handler that it calls."""

    async def __call__(
        self, message: Message | Batch[Message], session: Session | None, worker: Worker
    ) -> None:
        """Call the listener: on the loop if it is a coroutine function, otherwise in `worker`."""
        args = (message, session) if self.wants_session else (message,)
        try:
            if self.is_async:
                await self.listener(*args)
                return
            result = await worker.run(self.listener, *args)
            if inspect.isawaitable(result):  # a lambda or a wrapper around a coroutine function
                await result
        except SystemExit as error:
            raise called_exit(error, message) from error

    async def within(
        self, timeout: CallTimeout, message: Message | Batch[Message], session: Session | None
    ) -> None:
        """Call the listener as above, with a timeout, in the task of a consumer.

        Raises:
            TimeoutError: a coroutine function was cancelled, because its time was over.
        """
        args = (message, session) if self.wants_session else (message,)
        token = current_timeout.set(timeout)
        try:
            if self.applies_timeout:
                await self.listener(*args)
            else:
                await timeout.call(self.listener, *args, is_coroutine=self.is_async)
        except SystemExit as error:
            raise called_exit(error, message) from error
        finally:
            current_timeout.reset(token)


def listener_name(listener: Callable[..., Any] | OnMessage) -> str:
    """Return the default name of the durable subscription of `listener`.

    It is the listener's own `subscription_name` if it has one (Spring: SubscriptionNameProvider),
    else `module.Class` of an object, `module.function` of a function.
    """
    own = getattr(listener, "subscription_name", None)
    if isinstance(own, str) and own:
        return own
    named = listener if hasattr(listener, "__qualname__") else type(listener)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"


def _wants_session(function: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature accepts what it is given
        return False
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is inspect.Parameter.empty or second.name == "session"


_DEFAULT: Final[Any] = SimpleMessageConverter()


class MessageListenerAdapter:
    """A message listener that calls a method of a delegate with the converted body.

    Use it as the `message_listener` of a container or of a SimpleJmsListenerEndpoint. The method is
    `def`, called in the container's thread, or `async def`. A JMSException of the method is passed
    on unchanged; others become ListenerExecutionFailedExceptions. Spring: MessageListenerAdapter.

    Args:
        delegate: any object; one that is itself a listener (`on_message`) is called with the
            message. None: the adapter itself, for subclasses.
        default_listener_method: the name of the method.
        message_converter: converts bodies and results; None: the method gets the message.
        default_response_destination: where results go if the message has no reply destination; a
            name is that of a queue unless it is `topic://NAME`.
        reply_qos_settings: quality of service of the replies; None: the producer's defaults.

    Raises:
        ValueError: the delegate has no such method.
    """

    applies_timeout: ClassVar[bool] = True

    def __init__(
        self,
        delegate: object | None = None,
        *,
        default_listener_method: str = "handle_message",
        message_converter: MessageConverter | None = _DEFAULT,
        default_response_destination: Destination | str | None = None,
        reply_qos_settings: QosSettings | None = None,
    ) -> None:
        self.delegate: object = self if delegate is None else delegate
        self.default_listener_method = default_listener_method
        self.message_converter = message_converter
        is_listener = delegate is not None and hasattr(delegate, "on_message")
        self._listener = ListenerCall(self.delegate) if is_listener else None  # type: ignore[arg-type]
        if self._listener is None and not callable(self._method()):
            raise ValueError(
                f"{type(self.delegate).__qualname__} has no method {default_listener_method!r}: "
                "name one with default_listener_method"
            )
        default = default_response_destination
        self._replies = ReplySender(
            message_converter or SimpleMessageConverter(),
            default_destination=(
                default.qualified_name if isinstance(default, Destination) else default
            ),
            qos=reply_qos_settings,
            listener=type(self.delegate).__qualname__,
        )

    async def on_message(self, message: Message, session: Session | None = None) -> None:
        """Call the delegate with one message and send its result.

        Without a session a result is not sent, which is logged.

        Raises:
            JMSException: the method raised it, or the body or the result cannot be converted.
            ListenerExecutionFailedException: the method raised something else (its cause), or the
                reply could not be sent.
        """
        if self._listener is not None:
            timeout = current_timeout.get()
            if timeout is None:
                await self._listener(message, session, current_worker.get())  # type: ignore[arg-type]
            else:
                await self._listener.within(timeout, message, session)
            return
        converter = self.message_converter
        argument = message if converter is None else converter.from_message(message)
        result = await self._invoke(argument, message)
        if result is None:
            return
        if session is None:
            logger.warning(
                "Listener method %r returned a result, but the listener has no session, so no "
                "reply is sent",
                self.default_listener_method,
            )
            return
        await self._replies.send(result, message, session)

    def _method(self) -> Any:
        return getattr(self.delegate, self.default_listener_method, None)

    async def _invoke(self, argument: object, message: Message) -> Any:
        method, timeout = self._method(), current_timeout.get()
        is_coroutine = inspect.iscoroutinefunction(method)
        try:
            if timeout is not None:
                return await timeout.call(method, argument, is_coroutine=is_coroutine)
            if is_coroutine:
                return await method(argument)
            return await call_in_worker(method, argument)
        except JMSException:
            raise
        except Exception as error:
            raise ListenerExecutionFailedException(
                f"Listener method {self.default_listener_method!r} threw exception",
                message=message,
            ) from error
