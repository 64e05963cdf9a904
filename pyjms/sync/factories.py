"""Wrapping connection factories and the transaction manager of the blocking API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar, cast

from pyjms.connection.caching import CachingConnectionFactory as CoreCaching
from pyjms.connection.credentials import UserCredentialsConnectionFactoryAdapter as CoreCredentials
from pyjms.connection.single import SingleConnectionFactory as CoreSingle
from pyjms.connection.transaction import JmsTransactionManager as CoreManager
from pyjms.connection.transaction import Propagation, TransactionStatus
from pyjms.core import resources
from pyjms.jms.api import ExceptionListener
from pyjms.sync.attributes import Attribute
from pyjms.sync.connection import Connection
from pyjms.sync.facade import ReusableFacade, blocking, blocking_as, core_of, loop_of
from pyjms.sync.portal import call_on_loop
from pyjms.sync.shared_loop import close_at_exit

__all__ = [
    "CachingConnectionFactory",
    "JmsTransactionManager",
    "SingleConnectionFactory",
    "UserCredentialsConnectionFactoryAdapter",
]


C = TypeVar("C", bound=CoreSingle)


class _SharingFactory(ReusableFacade[C], Generic[C]):
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

    create_connection = blocking_as(lambda: Connection, CoreSingle.create_connection)
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


class UserCredentialsConnectionFactoryAdapter(ReusableFacade[CoreCredentials]):
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

    create_connection = blocking_as(lambda: Connection, CoreCredentials.create_connection)

    def credentials(
        self, user_name: str | None, password: str | None
    ) -> AbstractContextManager[None]:
        """Use these credentials within the block, in this thread. Does not block.

        Spring: setCredentialsForCurrentThread and removeCredentialsFromCurrentThread.
        """
        return self.core.credentials(user_name, password)


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
