"""A JmsApplication with its own broker, for tests that are not coroutines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from pyjms.support.embedded_broker import embedded_broker
from pyjms.sync.facade import Facade, ReadOnly, derive
from pyjms.sync.portal import shared_loop
from pyjms.sync.template import JmsTemplate
from pyjms.testing.app import HandlerCall, JmsTestApp, Recorder
from pyjms.testing.remote import RemoteBroker

if TYPE_CHECKING:
    from pyjms.testing.derived import TestAppMembers
else:
    TestAppMembers = derive(JmsTestApp, omit="template")


class BlockingJmsTestApp(Facade[JmsTestApp], TestAppMembers):
    """JmsTestApp with methods that block. The fixture `jms_blocking_app` is an instance.

    Broker and application run on the loop of the blocking API, in its thread. Use it as a context
    manager, from one thread. The methods of `application` are coroutines that belong to that loop.

    Args:
        url: the URL of another broker; None: it starts its own broker in memory.
    """

    __slots__ = ()

    url: Final = ReadOnly[str]("The broker's URL, for clients in this process.")
    recorder: Final = ReadOnly[Recorder](
        "The calls of the handlers; wait for them with this object's `until`."
    )

    def __init__(self, url: str | None = None) -> None:
        broker = embedded_broker() if url is None else RemoteBroker(url)
        self.core: JmsTestApp = JmsTestApp(broker, broker.url)
        self.loop = shared_loop()

    @property
    def template(self) -> JmsTemplate:
        """A blocking template with the application's settings; receives wait 5 s at most."""
        return JmsTemplate.of(self.core.template, self.loop)

    def until(self, condition: Callable[[list[HandlerCall]], bool], timeout: float = 5.0) -> None:
        """Wait until `condition` is true of all calls of handlers so far.

        Raises:
            RequestTimeoutException: it is still false after `timeout` seconds.
        """
        self.call(self.core.recorder.until, condition, timeout)

    def __enter__(self) -> Self:
        broker = self.core.broker
        self.call(broker.begin if isinstance(broker, RemoteBroker) else broker.start)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        broker = self.core.broker
        if not isinstance(broker, RemoteBroker):
            self.call(broker.stop)
