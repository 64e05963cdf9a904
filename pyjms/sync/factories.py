"""Blocking faces of the connection factories that keep connections, and of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any

from pyjms.connection.caching import CachingConnectionFactory as CoreCaching
from pyjms.connection.single import SingleConnectionFactory as CoreSingle
from pyjms.connection.transaction import JmsTransactionManager as CoreManager
from pyjms.connection.transaction import Propagation, TransactionStatus
from pyjms.core import resources
from pyjms.sync.connection import Connection
from pyjms.sync.facade import Facade, blocking, blocking_as, core_of
from pyjms.sync.portal import call_on_loop, current_loop

__all__ = ["CachingConnectionFactory", "JmsTransactionManager", "SingleConnectionFactory"]


class SingleConnectionFactory(Facade[CoreSingle]):
    """One connection, shared by all who ask. Takes the options of `pyjms.aio`'s."""

    def __init__(self, target: Any, **options: Any) -> None:
        self.core = CoreSingle(core_of(target), **options)
        self._loop = getattr(target, "_loop", None) or current_loop()

    create_connection = blocking_as(lambda: Connection, CoreSingle.create_connection)
    destroy = blocking(CoreSingle.destroy)
    reset_connection = blocking(CoreSingle.reset_connection)


class CachingConnectionFactory(Facade[CoreCaching]):
    """One connection with cached sessions and producers. Takes the options of `pyjms.aio`'s."""

    def __init__(self, target: Any, **options: Any) -> None:
        self.core = CoreCaching(core_of(target), **options)
        self._loop = getattr(target, "_loop", None) or current_loop()

    create_connection = blocking_as(lambda: Connection, CoreCaching.create_connection)
    destroy = blocking(CoreCaching.destroy)
    reset_connection = blocking(CoreCaching.reset_connection)


class JmsTransactionManager(Facade[CoreManager]):
    """Runs blocks in local JMS transactions: `with manager.transaction():`."""

    def __init__(self, connection_factory: Any, *, default_timeout: float | None = None) -> None:
        self.core = CoreManager(core_of(connection_factory), default_timeout=default_timeout)
        self._loop = getattr(connection_factory, "_loop", None) or current_loop()

    @contextmanager
    def transaction(
        self,
        name: str | None = None,
        timeout: float | None = None,
        *,
        propagation: Propagation = Propagation.REQUIRED,
    ) -> Iterator[TransactionStatus]:
        """Commit at the end of the block, roll back when it raises.

        Templates with the same connection factory join, in this thread. Raises what
        `pyjms.aio.JmsTransactionManager.transaction` raises.
        """
        scope = self.core.transaction(name, timeout, propagation=propagation)
        context = copy_context()  # the scope's own: it is entered and left there
        status = call_on_loop(self._loop, scope.__aenter__, context=context)
        bindings = resources._bindings
        token = bindings.set(context[bindings])
        try:
            yield status
        except BaseException as error:
            leave = partial(scope.__aexit__, type(error), error, error.__traceback__)
            call_on_loop(self._loop, leave, context=context)
            raise
        else:
            call_on_loop(self._loop, scope.__aexit__, None, None, None, context=context)
        finally:
            bindings.reset(token)
