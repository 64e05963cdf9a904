"""The connection factory. (jms-api 1)"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyjms.enums import AcknowledgeMode
from pyjms.jms.api.connection import Connection
from pyjms.jms.api.context import JMSContext, SharedByContexts
from pyjms.jms.api.context_producer import BodyConverter

__all__ = ["ConnectionFactory"]


class ConnectionFactory(ABC):
    """Creates connections. JMS: javax.jms.ConnectionFactory (JMS 1.1 section 4.2)."""

    @property
    def shares_connection(self) -> bool:
        """Whether its connections are handles on one, which stays open when they are closed."""
        return False

    @abstractmethod
    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Open a connection, stopped, with these credentials or the factory's own.

        Raises:
            ConnectionFailedException: the broker cannot be reached.
            JMSSecurityException: the credentials were rejected.
        """

    async def create_context(
        self,
        user_name: str | None = None,
        password: str | None = None,
        session_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
        *,
        message_converter: BodyConverter | None = None,
    ) -> JMSContext:
        """Open a connection, with a session, as one object: the simplified API of JMS 2.0.

        Of a factory that shares, caches or pools connections the context uses a handle.

        Args:
            user_name: None: the factory's user and password.
            password: the user's password.
            session_mode: AUTO, CLIENT, DUPS_OK, INDIVIDUAL, or TRANSACTED.
            message_converter: for bodies other than str, bytes, dict and None.

        Raises:
            TypeError: the user name is not a str.
            JMSException: the session mode is unknown; or as `create_connection`.
        """
        if user_name is not None and not isinstance(user_name, str):
            raise TypeError(
                f"The user name must be a str, not {user_name!r}: create_context(session_mode=...)"
            )
        connection = await self.create_connection(user_name, password)
        try:
            return JMSContext(SharedByContexts(connection), session_mode, message_converter)
        except BaseException:
            await connection.close()
            raise
