"""Keeps the embedded broker of an application running as long as the application.

A broker that a `vm://` URL creates stops with its last connection, and loses the messages that it
keeps in memory. An application may have no connections at times: while all its listeners are
paused, or between two sends of a template without a cache. So it keeps one connection open for this
purpose.
"""

from __future__ import annotations

from typing import Any

from pyjms.client.factory import ConnectionFactory

__all__ = ["EmbeddedBrokerHold"]


class EmbeddedBrokerHold:
    """The connection that keeps the main broker of an application alive, if it is embedded."""

    def __init__(self, container: Any) -> None:
        self._container = container
        self._connection: Any = None

    async def begin(self) -> None:
        """Create the broker, unless it runs, and stay connected; do nothing for other brokers.

        Raises:
            JMSException: the broker cannot be created.
        """
        native = self._container.native_connection_factory()
        if self._connection is not None or type(native) is not ConnectionFactory:
            return
        uri = native.uri
        if uri.scheme != "vm" or uri.options.get("create") == "false":
            return  # a broker of another process, or one that this process manages elsewhere
        factory = ConnectionFactory(
            uri.with_secrets(), user_name=native.user_name, password=native.password
        )
        connection = await factory.create_connection()
        try:
            await connection.start()
        except BaseException:
            await connection.close()
            raise
        self._connection = connection

    async def end(self) -> None:
        """Close the connection. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
