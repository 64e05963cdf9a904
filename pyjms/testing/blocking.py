"""A JmsApplication with its own broker, for tests that are not coroutines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from dependency_injector import containers

from pyjms.app.application import JmsApplication
from pyjms.app.container import ApplicationContainer
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE
from pyjms.jms.message import Message
from pyjms.runtime.forwarding import DelegatedAttribute
from pyjms.settings import PyjmsSettings
from pyjms.support.embedded_broker import embedded_broker
from pyjms.sync.portal import call_on_loop, shared_loop
from pyjms.sync.template import JmsTemplate
from pyjms.testing.app import HandlerCall, JmsTestApp, Recorder
from pyjms.testing.remote import RemoteBroker

P = ParamSpec("P")
R = TypeVar("R")


class BlockingJmsTestApp:
    """JmsTestApp with methods that block. The fixture `jms_blocking_app` is an instance.

    Broker and application run on the loop of the blocking API, in its thread. Use it as a context
    manager, from one thread.

    Args:
        url: the URL of another broker; None: it starts its own broker in memory.
    """

    def __init__(self, url: str | None = None) -> None:
        self._loop = shared_loop()
        self._broker = embedded_broker() if url is None else RemoteBroker(url)
        self._app = JmsTestApp(self._broker, self._broker.url)

    url: DelegatedAttribute[str] = DelegatedAttribute(
        attrgetter("_broker"), "The broker's URL, for clients in this process.", read_only=True
    )
    recorder: DelegatedAttribute[Recorder] = DelegatedAttribute(
        attrgetter("_app"),
        "The calls of the handlers; wait for them with this object's `until`.",
        read_only=True,
    )
    application: DelegatedAttribute[JmsApplication] = DelegatedAttribute(
        attrgetter("_app"),
        "The running application; its methods are coroutines that belong to another loop.",
        read_only=True,
    )

    @property
    def template(self) -> JmsTemplate:
        """A blocking template with the application's settings; receives wait 5 s at most."""
        return JmsTemplate.of(self._app.template, self._loop)

    def start(
        self,
        *targets: object,
        config: Path | str | None = None,
        settings: PyjmsSettings | None = None,
        container: containers.Container | type[ApplicationContainer] | None = None,
        redelivery_delay: float | None = 0.0,
    ) -> None:
        """Start these modules, handlers or instances, as JmsTestApp.start does.

        Raises:
            IllegalStateException: an application is already running.
            ConfigurationException: as for JmsApplication.
        """
        self._call(
            self._app.start,
            *targets,
            config=config,
            settings=settings,
            container=container,
            redelivery_delay=redelivery_delay,
        )

    def stop(self, timeout: float = 5.0) -> None:
        """Stop the application; handlers in progress have `timeout` seconds. Idempotent."""
        self._call(self._app.stop, timeout)

    def drained(self, name: str, *, raise_errors: bool = False, timeout: float = 5.0) -> None:
        """Wait until the queue `name` is empty and all its messages are acknowledged.

        Raises:
            RequestTimeoutException: it is not empty after `timeout` seconds.
        """
        self._call(self._app.drained, name, raise_errors=raise_errors, timeout=timeout)

    def until(self, condition: Callable[[list[HandlerCall]], bool], timeout: float = 5.0) -> None:
        """Wait until `condition` is true of all calls of handlers so far.

        Raises:
            RequestTimeoutException: it is still false after `timeout` seconds.
        """
        self._call(self._app.recorder.until, condition, timeout)

    def messages(self, name: str) -> list[Message]:
        """Return the messages in the queue `name`, oldest first, without removing them."""
        return self._call(self._app.messages, name)

    def payloads(self, name: str, type: Any = None) -> list[Any]:  # noqa: A002 - JMS's word
        """Return the payloads of the messages in the queue `name`, without removing them.

        Raises:
            MessageConversionException: a message cannot be read, or not as `type`.
        """
        return self._call(self._app.payloads, name, type)

    def dead_letters(self, name: str = DEFAULT_DEAD_LETTER_QUEUE) -> list[Message]:
        """Return the messages in the dead-letter queue, oldest first, without removing them."""
        return self._call(self._app.dead_letters, name)

    def __enter__(self) -> Self:
        broker = self._broker
        self._call(broker.begin if isinstance(broker, RemoteBroker) else broker.start)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        if not isinstance(self._broker, RemoteBroker):
            self._call(self._broker.stop)

    def _call(
        self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return call_on_loop(self._loop, partial(function, *args, **kwargs))
