"""The connection factory. (jms-api 1)"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.jms.api.connection import Connection
from pyjms.jms.api.context import BodyConverter, JMSContext, SharedByContexts

__all__ = ["ConnectionFactory", "check_factory", "check_least"]

_METHODS: Final = (
    "create_connection",
    "create_queue_connection",
    "create_topic_connection",
    "create_xa_connection",
)


class ConnectionFactory(ABC):
    """Creates connections. JMS: javax.jms.ConnectionFactory (JMS 1.1 section 4.2)."""

    @property
    def shares_connection(self) -> bool:
        """Whether its connections are handles for a shared connection, which stays open."""
        return False

    @abstractmethod
    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Open a connection, not started, with these credentials or the factory's own.

        Raises:
            ConnectionFailedException: the broker cannot be reached.
            JMSSecurityException: the credentials were rejected.
        """

    async def create_context(
        self,
        user_name: str | None = None,
        password: str | None = None,
        session_mode: SessionMode = AcknowledgeMode.AUTO,
        *,
        message_converter: BodyConverter | None = None,
    ) -> JMSContext:
        """Open a connection with a session, as one object: the simplified API of JMS 2.0.

        If the factory shares, caches or pools connections, the context uses a handle.

        Args:
            user_name: None: the factory's user and password.
            password: the user's password.
            session_mode: AUTO, CLIENT, DUPS_OK, INDIVIDUAL, or TRANSACTED.
            message_converter: converts bodies other than str, bytes, dict and None.

        Raises:
            TypeError: the user name is not a str.
            JMSException: the session mode is unknown; or as for `create_connection`.
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


def check_least(name: str, value: int, least: int) -> None:
    """Check a number that an argument gives.

    Raises:
        ValueError: it is less than `least`.
    """
    if value < least:
        raise ValueError(f"{name} must be {least} or higher, not {value}")


def check_factory(factory: object, user: str) -> None:
    """Reject anything but a connection factory of `pyjms.aio`, before `user` connects.

    Raises:
        TypeError: it is a URL, a class, a blocking factory, or another object.
    """
    needs = f"{user} needs a connection factory"
    if isinstance(factory, str):
        raise TypeError(f"{needs}, not a text: write ConnectionFactory(url)")
    if isinstance(factory, type):
        raise TypeError(f"{needs}, not the class {factory.__name__}: create one of it")
    if isinstance(getattr(factory, "core", None), ConnectionFactory):
        raise TypeError(
            f"{needs} of pyjms.aio, not the blocking {type(factory).__name__} of pyjms "
            "(import both from the same module)"
        )
    if not any(hasattr(factory, name) for name in _METHODS):
        raise TypeError(f"{needs}, not an object of class {type(factory).__name__}")
