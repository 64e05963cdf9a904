"""A factory that always connects as the same user, or as the current task's. (spring-jms 3.3)"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyjms.jms.api import Connection, ConnectionFactory

__all__ = ["UserCredentialsConnectionFactoryAdapter"]


class UserCredentialsConnectionFactoryAdapter(ConnectionFactory):
    """Adds a user name and password to `create_connection()`.

    Without a user name it asks the target for its own credentials. Explicit credentials
    pass through; those of the current task come before the adapter's.
    """

    def __init__(
        self,
        target: ConnectionFactory,
        *,
        user_name: str | None = None,
        password: str | None = None,
    ) -> None:
        self.target = target
        self._own = (user_name, password)
        self._current: ContextVar[tuple[str | None, str | None] | None] = ContextVar(
            "pyjms_credentials", default=None
        )

    @contextmanager
    def credentials(self, user_name: str | None, password: str | None) -> Iterator[None]:
        """Use these credentials in the block, in this task and those it starts.

        Spring: setCredentialsForCurrentThread and removeCredentialsFromCurrentThread.
        """
        token = self._current.set((user_name, password))
        try:
            yield
        finally:
            self._current.reset(token)

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Connect, as the class says.

        Raises:
            JMSSecurityException: the broker refuses the credentials.
        """
        if user_name is None:
            user_name, password = self._current.get() or self._own
        if not user_name:
            return await self.target.create_connection()
        return await self.target.create_connection(user_name, password)
