"""A JmsApplication on a test's broker, with a record of what its handlers did."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio

from pyjms.app.application import JmsApplication
from pyjms.client.messages import from_command
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    ListenerExecutionFailedException,
    RequestTimeoutException,
    nearest_name,
)
from pyjms.jms.api import QueueBrowser, Session
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, parse_destination
from pyjms.jms.message import Message
from pyjms.listener.properties import ErrorHandler
from pyjms.runtime import clock as _clock
from pyjms.settings import PyjmsSettings, load_settings
from pyjms.support.embedded_broker import EmbeddedBroker
from pyjms.template.interceptors import (
    HandlerInterceptor,
    HandlerInvocation,
    Proceed,
    SendInterceptor,
)
from pyjms.template.template import JmsTemplate
from pyjms.testing.chaos import Chaos
from pyjms.testing.clock import is_virtual, real_time
from pyjms.testing.remote import RemoteBroker
from pyjms.transport.uri import TransportURI

if TYPE_CHECKING:
    from dependency_injector import containers

    from pyjms.app.container import ApplicationContainer


@dataclass(frozen=True)
class HandlerCall:
    """One call of a handler."""

    handler: Callable[..., Any]
    message: Message
    error: BaseException | None
    """The exception that the handler raised; None: it returned."""
    result: object = None
    """The value that it returned."""


class Recorder:
    """Keeps the calls of an application's handlers, in the order in which they ended.

    It is an interceptor. A call that another interceptor answers without calling the handler counts
    as well.
    """

    order: ClassVar[float] = -math.inf
    """Outside all other interceptors, so that their failures are recorded as well."""

    def __init__(self) -> None:
        self.all_calls: list[HandlerCall] = []
        self.application: JmsApplication | None = None
        """The application that calls the handlers, if it is known."""
        self._changed = anyio.Event()

    def calls(self, handler: Callable[..., Any]) -> list[HandlerCall]:
        """Return the calls of this handler. Methods compare by function and instance.

        Raises:
            IllegalStateException: it is not a handler of the application: it would never be called.
        """
        found = [call for call in self.all_calls if call.handler == handler]
        if not found and self.application is not None:
            self._require_listener(handler, self.application)
        return found

    def _require_listener(self, handler: Callable[..., Any], application: JmsApplication) -> None:
        listeners = [container.message_listener for container in application.registry]
        handlers = [getattr(listener, "handler", listener) for listener in listeners]
        if handler not in handlers:
            name = _name_of(handler)
            near = nearest_name(name, map(_name_of, handlers))
            raise IllegalStateException(
                f"{name} is not a handler of the running application",
                hint=f"did you mean {near}?" if near else "start it: await jms_app.start(...)",
            )

    def messages(self, handler: Callable[..., Any]) -> list[Message]:
        """Return the messages that this handler was called with."""
        return [call.message for call in self.calls(handler)]

    def results(self, handler: Callable[..., Any]) -> list[object]:
        """Return the results of the calls of this handler that did not fail."""
        return [call.result for call in self.calls(handler) if call.error is None]

    async def until_called(
        self, handler: Callable[..., Any], times: int = 1, timeout: float = 5.0
    ) -> None:
        """Wait until the handler has returned or failed `times` times in total.

        Raises:
            RequestTimeoutException: it had not after `timeout` seconds of real time.
        """
        await self.until(lambda _: len(self.calls(handler)) >= times, timeout)

    def errors(self) -> list[BaseException]:
        """Return the exceptions that the handlers raised."""
        return [call.error for call in self.all_calls if call.error is not None]

    async def until(
        self, condition: Callable[[list[HandlerCall]], bool], timeout: float = 5.0
    ) -> None:
        """Wait until `condition` is true of all calls so far, for example of a topic's listener.

        The calls have ended, but their messages may not be acknowledged yet.

        Args:
            condition: called with the list of calls, once and after each of them.
            timeout: seconds of real time.

        Raises:
            RequestTimeoutException: it is still false after `timeout`.
        """
        with _clock.SystemClock().timeout(timeout) as scope:
            while not condition(self.all_calls):
                await self._changed.wait()
        if scope.cancelled_caught:
            failed = len(self.errors())
            raise RequestTimeoutException(
                f"The condition did not hold within {timeout:g} s: there were "
                f"{len(self.all_calls)} calls of handlers, {failed} of them failed"
            )

    async def __call__(self, invocation: HandlerInvocation, proceed: Proceed) -> object:
        """Record one call: the interceptor, around those of the application."""
        error: BaseException | None = None
        result: object = None
        try:
            result = await proceed()
        except Exception as raised:
            error = raised
            if isinstance(raised, ListenerExecutionFailedException):
                error = raised.__cause__ or raised
            raise
        else:
            return result
        finally:
            self.all_calls.append(
                HandlerCall(invocation.handler, invocation.message, error, result)
            )
            changed, self._changed = self._changed, anyio.Event()
            changed.set()


RECEIVE_TIMEOUT: Final = 5.0
"""Seconds that receives of test templates wait."""

_POLICY: Final = "jms.redeliveryPolicy."
_DELAYS: Final = tuple(f"{_POLICY}{name}" for name in ("initialRedeliveryDelay", "redeliveryDelay"))
_RECOVERY_INTERVAL: Final = 0.05
"""Seconds between attempts to reconnect to a broker that a test has restarted."""
_QUOTED: Final = 3
"""The maximum number of distinct errors quoted in a message, and of characters of each."""
_QUOTED_TEXT: Final = 200


def with_redelivery_delay(url: str, seconds: float) -> str:
    """Return `url` with this delay before each redelivery, unless it sets its own."""
    given = TransportURI.parse(url).options
    if any(name.startswith(_POLICY) and name != f"{_POLICY}maximumRedeliveries" for name in given):
        return url
    mark = "&" if "?" in url.rpartition(")")[2] else "?"
    return url + mark + "&".join(f"{name}={round(seconds * 1000)}" for name in _DELAYS)


class JmsTestApp:
    """Starts applications against a test's broker. The fixture `jms_app` is an instance.

    A message whose handler raises is redelivered at once, so it soon becomes a dead letter.
    """

    def __init__(self, broker: EmbeddedBroker | RemoteBroker, url: str) -> None:
        self.broker = broker
        self.url = url
        self.recorder: Recorder = Recorder()
        self.chaos: Chaos = Chaos(broker)
        self._application: JmsApplication | None = None
        self._template: JmsTemplate | None = None
        self._before_start: JmsApplication | None = None
        """Supplies the template until the application starts; is never started itself."""

    @property
    def application(self) -> JmsApplication:
        """The running application.

        Raises:
            IllegalStateException: `start` has not been called.

        """
        if self._application is None:
            raise IllegalStateException(
                "No application is running", hint="await jms_app.start(handlers) first"
            )
        return self._application

    @property
    def template(self) -> JmsTemplate:
        """A template (coroutines) with the application's settings; receives wait 5 s at most.

        If the settings have a `receive_timeout`, it applies instead. The application's own template
        waits indefinitely. Before `start` the template has the default settings.
        """
        if self._template is None:
            application = self._application or self._before_start
            if application is None:
                settings = PyjmsSettings().with_broker_url(self.url)
                application = self._before_start = JmsApplication(settings=settings)
            self._template = copy.copy(application.template)
            if self._template.receive_timeout is None:
                self._template.receive_timeout = RECEIVE_TIMEOUT
        return self._template

    async def start(
        self,
        *targets: object,
        config: Path | str | None = None,
        settings: PyjmsSettings | None = None,
        container: containers.Container | type[ApplicationContainer] | None = None,
        redelivery_delay: float | None = 0.0,
        interceptors: Iterable[HandlerInterceptor] = (),
        send_interceptors: Iterable[SendInterceptor] = (),
        error_handler: ErrorHandler | None = None,
    ) -> JmsApplication:
        """Start these modules, handlers or instances; always on the test's broker.

        Without `config` and `settings` the defaults apply: no file is searched for.
        `redelivery_delay`: seconds before a rolled-back message is redelivered (1 s outside of
        tests); options `jms.redeliveryPolicy` of `pyjms_broker_url` take precedence. None: the
        delay of the settings. `interceptors`, `send_interceptors` and `error_handler` are those of
        JmsApplication.

        Raises:
            IllegalStateException: an application is already running.
            ConfigurationException: as for JmsApplication.

        """
        if self._application is not None and self._application.is_running:
            raise IllegalStateException(
                "The test's application is running already",
                hint="pass all handlers to one start",
            )
        if settings is None:
            settings = load_settings(Path(config)) if config else PyjmsSettings()
        url = self.url
        if redelivery_delay is not None:
            url = with_redelivery_delay(url, redelivery_delay)
            settings = settings.without_redelivery_delays()
        settings = _with_quick_recovery(settings.with_broker_url(url))
        self._template = None
        self._application = JmsApplication(
            *targets,
            settings=settings,
            container=container,
            interceptors=[self.recorder, self.chaos, *interceptors],
            send_interceptors=send_interceptors,
            error_handler=error_handler,
        )
        self.recorder.application = self._application
        await self._application.start()
        return self._application

    async def stop(self, timeout: float = 5.0) -> None:
        """Stop the application. Idempotent; the fixture calls it at the end of the test.

        Args:
            timeout: seconds of real time for handlers in progress; then they are cancelled.
        """
        with real_time():
            if self._application is not None:
                await self._application.stop(timeout)
            if self._before_start is not None:
                await self._before_start.wiring.close_factories()
                self._before_start = None

    async def drained(self, name: str, *, raise_errors: bool = False, timeout: float = 5.0) -> None:
        """Wait until the queue `name` is empty and all its messages are acknowledged.

        Args:
            name: the queue.
            raise_errors: raise the first error that any handler has raised so far.
            timeout: seconds of real time.

        Raises:
            InvalidDestinationException: there is no such queue; the text suggests another name. (A
                broker of its own process is not asked.)
            RequestTimeoutException: it was not empty in time; the message quotes the handlers'
                errors.
        """
        try:
            await self.broker.drained(name, timeout)
        except InvalidDestinationException:
            if parse_destination(name) not in self._consumed_destinations():
                raise
        except RequestTimeoutException as late:
            raised = self.recorder.errors()
            if not raised:
                raise
            raise RequestTimeoutException(
                f"{late.reason}; handlers raised {_times(len(raised))} so far: {_texts_of(raised)}",
                hint="virtual time stands still: await jms_clock.advance(seconds) until each "
                "redelivery is due"
                if is_virtual()
                else "a message whose handler raises is redelivered until it is a dead letter",
            ) from raised[-1]
        errors: list[Any] = self.recorder.errors() if raise_errors else []
        if errors:
            raise errors[0]

    def _consumed_destinations(self) -> Iterator[Destination]:
        """Yield the destinations of the listeners, which may not have connected again yet."""
        for container in () if self._application is None else self._application.registry:
            if container.destination is not None:
                yield from container.destination.composite_destinations

    async def messages(self, name: str) -> list[Message]:
        """Return the messages in the queue `name`, oldest first, without removing them."""

        async def read(_: Session, browser: QueueBrowser) -> list[Message]:
            return [message async for message in browser]

        return await self.template.browse(name, read)

    async def payloads(self, name: str, type: Any = None) -> list[Any]:  # noqa: A002 - JMS's word
        """Return the payloads of the messages in the queue `name`, without removing them.

        Args:
            name: the queue.
            type: the type to convert each to, as `receive_and_convert` does.

        Raises:
            MessageConversionException: a message cannot be read, or not as `type`.
        """
        converter = self.template.message_converter
        return [converter.from_message(message, type) for message in await self.messages(name)]

    async def dead_letters(self, name: str = DEFAULT_DEAD_LETTER_QUEUE) -> list[Message]:
        """Return the messages in the dead-letter queue, oldest first, without removing them.

        On a broker that other tests have used, only those added since the start of this test.
        """
        if isinstance(self.broker, RemoteBroker):
            return await self.broker.dead_letters(name)
        return [from_command(command) for command in await self.broker.dead_letters(name)]


def _with_quick_recovery(settings: PyjmsSettings) -> PyjmsSettings:
    """Return settings whose listeners reconnect quickly, unless an interval is set."""
    listener = settings.jms.listener
    if listener.recovery_interval is not None:
        return settings
    listener = listener.model_copy(update={"recovery_interval": _RECOVERY_INTERVAL})
    jms = settings.jms.model_copy(update={"listener": listener})
    return settings.model_copy(update={"jms": jms})


def _name_of(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or repr(handler)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _texts_of(errors: Sequence[BaseException]) -> str:
    """Return the distinct errors and their counts as text, newest first."""
    counted = Counter(repr(error)[:_QUOTED_TEXT] for error in reversed(errors))
    shown = [f"{text} {_times(number)}" for text, number in list(counted.items())[:_QUOTED]]
    return "; ".join(shown) + ("; ..." if len(counted) > _QUOTED else "")
