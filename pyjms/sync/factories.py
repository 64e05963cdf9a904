"""Wrapping connection factories and the transaction manager of the blocking API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar, cast

from pyjms.connection.caching import CachingConnectionFactory as CoreCaching
from pyjms.connection.credentials import UserCredentialsConnectionFactoryAdapter as CoreCredentials
from pyjms.connection.delegating_factory import DelegatingConnectionFactory as CoreDelegating
from pyjms.connection.single import SingleConnectionFactory as CoreSingle
from pyjms.connection.transaction import JmsTransactionManager as CoreManager
from pyjms.connection.transaction import Propagation, TransactionStatus
from pyjms.connection.transaction_aware import (
    TransactionAwareConnectionFactoryProxy as CoreTransactionAware,
)
from pyjms.core import resources
from pyjms.jms.api import ExceptionListener
from pyjms.sync.attributes import Attribute
from pyjms.sync.connection import CreatingFactory
from pyjms.sync.facade import ReusableFacade, blocking, core_of, loop_of
from pyjms.sync.portal import call_on_loop
from pyjms.sync.shared_loop import close_at_exit

__all__ = [
    "CachingConnectionFactory",
    "DelegatingConnectionFactory",
    "JmsTransactionManager",
    "SingleConnectionFactory",
    "TransactionAwareConnectionFactoryProxy",
    "UserCredentialsConnectionFactoryAdapter",
]


C = TypeVar("C", bound=CoreSingle)


class _SharingFactory(CreatingFactory[C], Generic[C]):
    """What both factories that share a connection have."""

    __slots__ = ()

    KIND: ClassVar[type[CoreSingle]]

    target_connection_factory = Attribute[Any]("Opens the connection.")
    client_id = Attribute[str | None]("The client id, set on the connection when it is opened.")
    exception_listener = Attribute[ExceptionListener | None](
        "Called on the loop with the exceptions that the connection reports: it must not block."
    )
    reconnect_on_exception = Attribute[bool](
        "Whether the connection is closed when it reports an exception, and opened by the next use."
    )
    is_running = Attribute[bool]("Whether there is an open connection.", read_only=True)

    def __init__(self, target: Any, **options: Any) -> None:
        self.core = cast("C", self.KIND(core_of(target), **options))
        self.loop = loop_of(target)
        self.target_connection_factory = target
        close_at_exit(self.core, self.loop, "destroy")

    start = blocking(CoreSingle.start)
    stop = blocking(CoreSingle.stop)
    destroy = blocking(CoreSingle.destroy)
    reset_connection = blocking(CoreSingle.reset_connection)


class SingleConnectionFactory(_SharingFactory[CoreSingle]):
    """Shares one connection among all callers. Spring: the class of this name.

    Threads may share it. Takes the options of `pyjms.aio.SingleConnectionFactory`.
    """

    __slots__ = ()

    KIND = CoreSingle


class CachingConnectionFactory(_SharingFactory[CoreCaching]):
    """Shares one connection, and caches sessions, producers and consumers. Spring: same name.

    Threads may share it. Takes the options of `pyjms.aio.CachingConnectionFactory`.
    """

    __slots__ = ()

    KIND = CoreCaching

    session_cache_size = Attribute[int]("Idle sessions to keep for each acknowledge mode.")
    cache_producers = Attribute[bool]("Whether sessions keep their producers.")
    cache_consumers = Attribute[bool]("Whether sessions keep their consumers.")


class UserCredentialsConnectionFactoryAdapter(CreatingFactory[CoreCredentials]):
    """Connects with fixed credentials, or those of the current thread. Spring: same name.

    Threads may share it.

    Args:
        target: opens the connections.
        user_name: the user, if neither the call nor the thread names one.
        password: that user's password.
    """

    __slots__ = ()

    target = Attribute[Any]("Opens the connections.")

    def __init__(
        self, target: Any, *, user_name: str | None = None, password: str | None = None
    ) -> None:
        self.core = CoreCredentials(core_of(target), user_name=user_name, password=password)
        self.loop = loop_of(target)
        self.target = target

    def credentials(
        self, user_name: str | None, password: str | None
    ) -> AbstractContextManager[None]:
        """Use these credentials within the block, in this thread. Does not block.

        Spring: setCredentialsForCurrentThread and removeCredentialsFromCurrentThread.
        """
        return self.core.credentials(user_name, password)


class DelegatingConnectionFactory(CreatingFactory[CoreDelegating]):
    """Passes everything on to another factory. Spring: DelegatingConnectionFactory.

    Threads may share it.

    Args:
        target: opens the connections.
        should_stop_connections: whether started connections are stopped before they are closed.
    """

    __slots__ = ()

    target_connection_factory = Attribute[Any]("Opens the connections.")
    should_stop_connections = Attribute[bool](
        "Whether started connections are stopped before they are closed."
    )

    def __init__(self, target: Any, *, should_stop_connections: bool = False) -> None:
        self.core = CoreDelegating(core_of(target), should_stop_connections=should_stop_connections)
        self.loop = loop_of(target)
        self.target_connection_factory = target


class TransactionAwareConnectionFactoryProxy(CreatingFactory[CoreTransactionAware]):
    """Gives code that opens its own sessions the session of the thread's transaction.

    Spring: the class of this name; `pyjms.aio.TransactionAwareConnectionFactoryProxy` describes it.
    Threads may share it.

    Args:
        target: the factory of the transactions.
        synched_local_transaction_allowed: whether, within a transaction of another factory only,
            a session of the target joins it.
    """

    __slots__ = ()

    target_connection_factory = Attribute[Any]("The factory of the transactions.")
    synched_local_transaction_allowed = Attribute[bool](
        "Whether sessions join the transactions of other factories."
    )

    def __init__(self, target: Any, *, synched_local_transaction_allowed: bool = False) -> None:
        self.core = CoreTransactionAware(
            core_of(target), synched_local_transaction_allowed=synched_local_transaction_allowed
        )
        self.loop = loop_of(target)
        self.target_connection_factory = target


class JmsTransactionManager(ReusableFacade[CoreManager]):
    """Runs blocks in local transactions: `with manager.transaction():`. Spring: same name.

    Threads may share it: a transaction belongs to the thread that entered the block.

    Args:
        connection_factory: templates with the same factory object join.
        default_timeout: seconds that a transaction may take unless it has its own timeout;
            None: no limit.
    """

    __slots__ = ()

    connection_factory = Attribute[Any]("Templates with the same factory object join.")
    default_timeout = Attribute[float | None](
        "Seconds that a transaction may take unless it has its own timeout; None: no limit."
    )

    def __init__(self, connection_factory: Any, *, default_timeout: float | None = None) -> None:
        self.core = CoreManager(core_of(connection_factory), default_timeout=default_timeout)
        self.loop = loop_of(connection_factory)
        self.connection_factory = connection_factory

    @contextmanager
    def transaction(
        self,
        name: str | None = None,
        timeout: float | None = None,
        *,
        propagation: Propagation = Propagation.REQUIRED,
    ) -> Iterator[TransactionStatus]:
        """Commit at the end of the block; roll back when it raises. Blocks at both ends.

        Templates with the same connection factory join, in this thread.

        Args:
            name: appears in `status.name`.
            timeout: seconds; None: the manager's default.
            propagation: how the block relates to an active transaction.

        Raises:
            IllegalStateException: MANDATORY without a transaction, NEVER with one.
            UnsupportedOperationException: NESTED in a transaction.
            TransactionRolledBackException: an inner block asked for a rollback, the transaction
                timed out, or the broker could not commit.
        """
        scope = self.core.transaction(name, timeout, propagation=propagation)
        context = copy_context()  # the scope is entered and left in one context
        status = call_on_loop(self.loop, scope.__aenter__, context=context)
        try:
            with resources.bindings_of(context):
                yield status
        except BaseException as error:
            leave = partial(scope.__aexit__, type(error), error, error.__traceback__)
            call_on_loop(self.loop, leave, context=context)
            raise
        else:
            call_on_loop(self.loop, scope.__aexit__, None, None, None, context=context)
