"""The XA connection, whose sessions work in branches."""

from __future__ import annotations

from typing import Any, Final

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.xa.branches import BranchConnection, table_of_this_loop
from pyjms.client.xa.manager import ResourceManager
from pyjms.client.xa.session import ActiveMQXASession
from pyjms.enums import AcknowledgeMode
from pyjms.jms.transaction.xa import XAConnection
from pyjms.wire.openwire.commands import BrokerInfo

__all__ = ["ActiveMQXAConnection"]


class ActiveMQXAConnection(ActiveMQConnection, XAConnection):
    """A connection whose sessions are all XA sessions, created by `XAConnectionFactory`."""

    _session_class = ActiveMQXASession

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.branches: Final = table_of_this_loop()
        self.manager: ResourceManager = ResourceManager(self)
        self.xa_ack_mode = AcknowledgeMode.TRANSACTED
        self.url = ""
        """The broker's URL, as given to the factory."""
        self._on_any_broker_info = self._handlers[BrokerInfo]
        self._handlers = {**self._handlers, BrokerInfo: self._on_broker_info}
        self.add_transport_listener(self)

    async def create_xa_session(self) -> ActiveMQXASession:
        return await self.create_session()

    async def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> ActiveMQXASession:
        """Create an XA session; the arguments are ignored, as in ActiveMQ."""
        del transacted, acknowledge_mode
        mode = self.xa_ack_mode
        session = await super().create_session(mode == AcknowledgeMode.TRANSACTED, mode)
        assert isinstance(session, ActiveMQXASession)
        return session

    def is_at_broker_of(self, other: BranchConnection) -> bool:
        if not isinstance(other, ActiveMQXAConnection):
            return False
        broker_id = self.manager.broker_id
        return self.url == other.url or (
            broker_id is not None and broker_id == other.manager.broker_id
        )

    async def close(self) -> None:
        await super().close()
        self.manager.connection_failed()

    def on_exception(self, error: Exception) -> None:
        super().on_exception(error)
        self.manager.connection_failed()

    def transport_interrupted(self, error: Exception) -> None:
        """Make the branches that are not prepared rollback-only: the broker rolls them back."""
        for branch in self.branches.of_connection(self):
            branch.set_rollback_only(f"the broker was lost: {error}")

    def transport_resumed(self) -> None:
        """Do nothing: the broker has the prepared branches."""

    def _on_broker_info(self, info: BrokerInfo) -> None:
        self.manager.on_broker_info(info)
        self._on_any_broker_info(info)
