"""A factory that adds credentials: fixed, or those of the current task. (spring-jms 3.3)"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyjms.jms.api import Connection, ConnectionFactory, check_factory
from pyjms.jms.domain import DomainConnectionFactory, open_connection
from pyjms.jms.domain.connections import Domain

__all__ = ["UserCredentialsConnectionFactoryAdapter"]


class UserCredentialsConnectionFactoryAdapter(DomainConnectionFactory):
    """Adds a user name and password to `create_connection()`.

    Credentials of the call take precedence over those of the current task, and these over the
    adapter's. Without any, the target uses its own credentials. Tasks of one loop may share it.
    Spring: UserCredentialsConnectionFactoryAdapter.

    Args:
        target: opens the connections.
        user_name: the user, if neither the call nor the task has one.
        password: that user's password.
    """

    def __init__(
        self,
        target: ConnectionFactory,
        *,
        user_name: str | None = None,
        password: str | None = None,
    ) -> None:
        check_factory(target, type(self).__name__)
        self.target = target
        self._own = (user_name, password)
        self._current: ContextVar[tuple[str | None, str | None] | None] = ContextVar(
            "pyjms_credentials", default=None
        )

    @contextmanager
    def credentials(self, user_name: str | None, password: str | None) -> Iterator[None]:
        """Use these credentials within the block, in this task and in tasks that it starts.

        Spring: setCredentialsForCurrentThread and removeCredentialsFromCurrentThread.
        """
        token = self._current.set((user_name, password))
        try:
            yield
        finally:
            self._current.reset(token)

    async def open_in(
        self, domain: Domain | None, user_name: str | None, password: str | None
    ) -> Connection:
        """Open a connection with the credentials that apply; see the class."""
        if user_name is None:
            user_name, password = self._current.get() or self._own
        if not user_name:
            return await open_connection(self.target, domain)
        return await open_connection(self.target, domain, user_name, password)
