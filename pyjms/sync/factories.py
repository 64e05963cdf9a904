"""Wrapping connection factories of the blocking API."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Unpack, cast

from pyjms.connection.caching import CachingConnectionFactory as CoreCaching
from pyjms.connection.caching import SingleConnectionFactory as CoreSingle
from pyjms.connection.delegating import DelegatingConnectionFactory as CoreDelegating
from pyjms.connection.delegating import (
    TransactionAwareConnectionFactoryProxy as CoreTransactionAware,
)
from pyjms.connection.delegating import UserCredentialsConnectionFactoryAdapter as CoreCredentials
from pyjms.connection.pool import JmsPoolConnectionFactory as CoreJmsPool
from pyjms.connection.pool import PooledConnectionFactory as CorePooled
from pyjms.connection.pool import PoolKeywords, PoolOptions, PoolStats
from pyjms.jms import domain
from pyjms.jms.api import ConnectionFactory as CoreConnectionFactory
from pyjms.jms.api import ExceptionListener
from pyjms.runtime.event_loop import LoopHandle
from pyjms.sync.connection import ConnectionFactory, CreatingFactory, WrappingFactory
from pyjms.sync.facade import Attribute, GivenFactory, StartedByWith, core_of, derive, loop_of
from pyjms.sync.portal import close_at_exit

if TYPE_CHECKING:
    from pyjms.sync.derived import PoolMembers, SharingMembers
else:
    SharingMembers = derive(CoreSingle, but=domain.QueueConnectionFactory)
    PoolMembers = derive(CorePooled, but=domain.QueueConnectionFactory, omit="on_fork")

C = TypeVar("C", bound=CoreSingle)


class _SharingFactory(WrappingFactory[C], SharingMembers, Generic[C]):
    """Base class of the factories that share a connection."""

    __slots__ = ()

    KIND: ClassVar[type[CoreSingle]]

    client_id: Attribute[str | None] = Attribute(
        "The client id, set on the connection when it is opened."
    )
    exception_listener: Attribute[ExceptionListener | None] = Attribute(
        "Called on the loop with the connection's asynchronous exceptions; it must not block."
    )
    reconnect_on_exception: Attribute[bool] = Attribute(
        "Whether the connection is closed when it fails, and the next use opens a new one."
    )

    def __init__(self, target: GivenFactory, **options: Any) -> None:
        self._wrap(target, cast("C", self.KIND(core_of(target), **options)), "destroy")


class SingleConnectionFactory(_SharingFactory[CoreSingle]):
    """Shares one connection among all callers. Spring: SingleConnectionFactory.

    Threads may share it. Takes the options of `pyjms.aio.SingleConnectionFactory`.
    """

    __slots__ = ()

    KIND: ClassVar[type[CoreSingle]] = CoreSingle


class CachingConnectionFactory(_SharingFactory[CoreCaching]):
    """Shares one connection, and caches sessions, producers and consumers.

    Threads may share it. Takes the options of `pyjms.aio.CachingConnectionFactory`. Spring:
    CachingConnectionFactory.

    Example:
        native = ConnectionFactory("vm://shop?broker.persistent=false")
        factory = CachingConnectionFactory(native)
        template = JmsTemplate(factory, receive_timeout=5.0)
        template.convert_and_send("orders.new", "order 1")
        assert template.receive_and_convert("orders.new") == "order 1"
        factory.destroy()
    """

    __slots__ = ()

    KIND: ClassVar[type[CoreSingle]] = CoreCaching

    session_cache_size: Attribute[int] = Attribute(
        "The maximum number of idle sessions for each acknowledge mode."
    )
    cache_producers: Attribute[bool] = Attribute("Whether sessions cache their producers.")
    cache_consumers: Attribute[bool] = Attribute("Whether sessions cache their consumers.")


class UserCredentialsConnectionFactoryAdapter(CreatingFactory[CoreCredentials]):
    """Connects with fixed credentials, or those of the current thread.

    Threads may share it. Spring: UserCredentialsConnectionFactoryAdapter.

    Args:
        target: opens the connections.
        user_name: the user if neither the call nor the thread specifies one.
        password: this user's password.
    """

    __slots__ = ()

    target: Attribute[GivenFactory] = Attribute("Opens the connections.")

    def __init__(
        self, target: GivenFactory, *, user_name: str | None = None, password: str | None = None
    ) -> None:
        self.core: CoreCredentials = CoreCredentials(
            core_of(target), user_name=user_name, password=password
        )
        self.loop = loop_of(target)
        self.target = target

    def credentials(
        self, user_name: str | None, password: str | None
    ) -> AbstractContextManager[None]:
        """Use these credentials within the block, in this thread. Does not block.

        Spring: setCredentialsForCurrentThread and removeCredentialsFromCurrentThread.
        """
        return self.core.credentials(user_name, password)


class DelegatingConnectionFactory(WrappingFactory[CoreDelegating]):
    """Delegates all calls to another factory. Spring: DelegatingConnectionFactory.

    Threads may share it.

    Args:
        target: opens the connections.
        should_stop_connections: whether started connections are stopped before they are closed.
    """

    __slots__ = ()

    should_stop_connections: Attribute[bool] = Attribute(
        "Whether started connections are stopped before they are closed."
    )

    def __init__(self, target: GivenFactory, *, should_stop_connections: bool = False) -> None:
        core = CoreDelegating(core_of(target), should_stop_connections=should_stop_connections)
        self._wrap(target, core)


class TransactionAwareConnectionFactoryProxy(WrappingFactory[CoreTransactionAware]):
    """Makes the sessions of unaware code take part in the current thread's transaction.

    See `pyjms.connection.TransactionAwareConnectionFactoryProxy`. Threads may share it.

    Args:
        target: the connection factory of the transactions.
        synched_local_transaction_allowed: whether, if only another resource has a transaction, a
            session of the target is committed after it, and rolled back with it.
    """

    __slots__ = ()

    target_connection_factory: Attribute[GivenFactory] = Attribute(
        "The connection factory of the transactions."
    )
    synched_local_transaction_allowed: Attribute[bool] = Attribute(
        "Whether sessions are synchronized with the transactions of other resources."
    )

    def __init__(
        self, target: GivenFactory, *, synched_local_transaction_allowed: bool = False
    ) -> None:
        core = CoreTransactionAware(
            core_of(target), synched_local_transaction_allowed=synched_local_transaction_allowed
        )
        self._wrap(target, core)


class PooledConnectionFactory(StartedByWith, WrappingFactory[CorePooled], PoolMembers):
    """Shares a few connections among all callers, and pools sessions. ActiveMQ: same name.

    Threads may share it, and each uses its own session. Takes the options of
    `pyjms.aio.PooledConnectionFactory`. `with` starts and stops it.
    """

    __slots__ = ()

    KIND: ClassVar[type[CorePooled]] = CorePooled
    END: ClassVar[str] = "stop"

    options: Attribute[PoolOptions] = Attribute("The options; times are in seconds.")
    stats: Attribute[PoolStats] = Attribute("The statistics of the pool.")

    def __init__(self, target: GivenFactory, **options: Unpack[PoolKeywords]) -> None:
        self._wrap(target, self.KIND(core_of(target), **options), self.END)


class JmsPoolConnectionFactory(PooledConnectionFactory):
    """The pool of Spring Boot: its handles survive their `stop`. pooled-jms: same name.

    Threads may share it. Takes the options of `pyjms.aio.JmsPoolConnectionFactory`.
    """

    __slots__ = ()

    KIND: ClassVar[type[CorePooled]] = CoreJmsPool


def blocking_factory(core: CoreConnectionFactory, loop: LoopHandle) -> CreatingFactory[Any]:
    """Return the blocking object for a factory made from settings, which is closed at exit."""
    for kind in (CachingConnectionFactory, JmsPoolConnectionFactory):
        if type(core) is kind.KIND:
            factory = kind.of(core, loop)
            target = blocking_factory(core.target_connection_factory, loop)
            factory.target_connection_factory = target
            close_at_exit(core, loop, "destroy")
            return factory
    return ConnectionFactory.of(core, loop)
