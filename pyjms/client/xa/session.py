"""The XA session, whose work belongs to branches."""

from __future__ import annotations

from typing import Protocol

from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.interfaces import ClientConnection
from pyjms.client.session import ActiveMQSession
from pyjms.client.xa.branches import BranchConnection
from pyjms.client.xa.consumer import BranchMessageConsumer
from pyjms.client.xa.manager import ResourceManager
from pyjms.client.xa.resource import ActiveMQXAResource
from pyjms.client.xa.transaction import BranchTransaction
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.transaction.xa import XASession

__all__ = ["ActiveMQXASession", "BranchingConnection"]


class BranchingConnection(ClientConnection, BranchConnection, Protocol):
    """The XA connection as used by its sessions."""

    manager: ResourceManager


class ActiveMQXASession(ActiveMQSession, XASession):
    """A session of an `ActiveMQXAConnection`, which creates it."""

    consumer_class: type[ActiveMQMessageConsumer] = BranchMessageConsumer
    takes_chunks = False
    connection: BranchingConnection
    transaction: BranchTransaction

    def new_transaction(self, mode: AcknowledgeMode) -> BranchTransaction:
        connection = self.connection
        transaction = BranchTransaction(
            connection, self.resources, works_outside=mode != AcknowledgeMode.TRANSACTED
        )
        self._resource = ActiveMQXAResource(connection.manager, connection.branches, transaction)
        return transaction

    @property
    def xa_resource(self) -> ActiveMQXAResource:
        return self._resource

    @property
    def transacted(self) -> bool:
        """Whether work belongs to branches now: always, unless the factory has an `xa_ack_mode`."""
        return self._is_transacted or self.transaction.id is not None

    async def finish_close(self) -> None:
        """Close the consumers; the rest is done when the last branch has ended."""
        if not self.transaction.is_involved:
            await super().finish_close()
            return
        self.transaction.close_later(super().finish_close)
        for consumer in list(self.resources.consumers):
            await consumer.close()

    def dispose(self, failure: JMSException | None = None) -> int:
        """Leave the branches, then dispose as the base class does."""
        self.transaction.dispose()
        return super().dispose(failure)
