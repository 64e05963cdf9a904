"""Listener containers of the blocking API: handlers run in threads, control blocks.

The containers themselves run on the loop of their connection factory.
"""

from __future__ import annotations

from typing import Any, Self

from pyjms.listener.container.base import AbstractMessageListenerContainer
from pyjms.listener.container.default import DefaultMessageListenerContainer as CoreDefault
from pyjms.listener.container.simple import SimpleMessageListenerContainer as CoreSimple
from pyjms.sync.facade import Facade, blocking, core_of, loop_of
from pyjms.sync.portal import call_on_loop

__all__ = ["DefaultMessageListenerContainer", "SimpleMessageListenerContainer"]


class _Container(Facade[AbstractMessageListenerContainer]):
    KIND: type[AbstractMessageListenerContainer]

    def __init__(self, connection_factory: Any, **options: Any) -> None:
        """Take the options of the container of the same name in `pyjms.aio`."""
        self.loop = loop_of(connection_factory)

        async def make() -> AbstractMessageListenerContainer:
            return self.KIND(core_of(connection_factory), **options)

        self.core = call_on_loop(self.loop, make)

    initialize = blocking(AbstractMessageListenerContainer.initialize)
    start = blocking(AbstractMessageListenerContainer.start)
    stop = blocking(AbstractMessageListenerContainer.stop)
    shutdown = blocking(AbstractMessageListenerContainer.shutdown)

    @property
    def is_active(self) -> bool:
        """Whether the container is initialised and not shut down."""
        return self.core.is_active

    @property
    def is_running(self) -> bool:
        """Whether the container is started and not stopped."""
        return self.core.is_running

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()


class DefaultMessageListenerContainer(_Container):
    """Receives in a pool of consumers that grows and shrinks. Spring: the class of this name."""

    KIND = CoreDefault

    @property
    def scheduled_consumer_count(self) -> int:
        """How many consumers there are, working, waiting or paused."""
        core = self.core
        assert isinstance(core, CoreDefault)
        return core.scheduled_consumer_count

    @property
    def active_consumer_count(self) -> int:
        """How many consumers work right now."""
        core = self.core
        assert isinstance(core, CoreDefault)
        return core.active_consumer_count


class SimpleMessageListenerContainer(_Container):
    """Has messages pushed to a fixed number of consumers. Spring: the class of this name."""

    KIND = CoreSimple
