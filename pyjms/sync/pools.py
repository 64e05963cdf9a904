"""Blocking pools of connections."""

from __future__ import annotations

from typing import ClassVar, Final, Unpack

from pyjms.connection.pool.factory import JmsPoolConnectionFactory as CoreJmsPool
from pyjms.connection.pool.factory import PooledConnectionFactory as CorePooled
from pyjms.connection.pool.options import PoolKeywords, PoolOptions
from pyjms.connection.pool.statistics import PoolStats
from pyjms.sync.attributes import Attribute, ReadOnly
from pyjms.sync.connection import WrappingFactory
from pyjms.sync.facade import GivenFactory, StartedByWith, blocking, core_of

__all__ = ["JmsPoolConnectionFactory", "PooledConnectionFactory"]


class PooledConnectionFactory(StartedByWith, WrappingFactory[CorePooled]):
    """Shares a few connections among all callers, and pools sessions. ActiveMQ: same name.

    Threads may share it, and each uses its own session. Takes the options of
    `pyjms.aio.PooledConnectionFactory`. `with` starts and stops it.
    """

    __slots__ = ()

    KIND: ClassVar[type[CorePooled]] = CorePooled
    END: ClassVar[str] = "stop"

    options: Attribute[PoolOptions] = Attribute("The options; times are in seconds.")
    stats: Attribute[PoolStats] = Attribute("The statistics of the pool.")
    num_connections: Final = ReadOnly[int]("The number of open connections.")
    is_running: Final = ReadOnly[bool]("Whether there is an open connection.")

    def __init__(self, target: GivenFactory, **options: Unpack[PoolKeywords]) -> None:
        self._wrap(target, self.KIND(core_of(target), **options), self.END)

    start: Final = blocking(CorePooled.start)
    stop: Final = blocking(CorePooled.stop)
    destroy: Final = blocking(CorePooled.destroy)
    clear: Final = blocking(CorePooled.clear)
    expire_connections: Final = blocking(CorePooled.expire_connections)


class JmsPoolConnectionFactory(PooledConnectionFactory):
    """The pool of Spring Boot: its handles survive their `stop`. pooled-jms: same name.

    Threads may share it. Takes the options of `pyjms.aio.JmsPoolConnectionFactory`.
    """

    __slots__ = ()

    KIND: ClassVar[type[CorePooled]] = CoreJmsPool
