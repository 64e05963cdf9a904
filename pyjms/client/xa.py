"""The XA connection factory of the coroutine API.

XA: sessions whose work belongs to branches of distributed transactions.

    factory -> connection -> session -> consumer, resource -> transaction -> ledger -> branches

    branches     the branches of the loop, and their known states
    ledger       the messages that a consumer has received in each branch
    transaction  the work of a session in branches
    manager      requests to the broker, and the codes of its errors
    resource     the interface for the transaction manager
    consumer     receives in a branch, or outside of branches if the session has an `xa_ack_mode`
    session, connection, factory   the XA session, connection and connection factory

As everywhere in `pyjms.client`, imports go to the right only. The broker only gets BEGIN, END,
PREPARE, COMMIT, ROLLBACK, RECOVER and FORGET with the branch's id. (openwire-encoding 13;
activemq-broker X5, X6; activemq-edges N20)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Unpack

from pyjms.client.acknowledgement import LedgerChoice
from pyjms.client.browser import ActiveMQMessageConsumer
from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.client.interfaces import ClientConnection
from pyjms.client.options import read_option
from pyjms.client.session import ActiveMQSession
from pyjms.client.xa_branches import (
    ActiveMQXAResource,
    BranchConnection,
    BranchTransaction,
    ResourceManager,
    choose_branch_ledger,
    table_of_this_loop,
)
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.xa import XAConnection, XASession
from pyjms.wire.openwire.commands import BrokerInfo, MessageDispatch

if TYPE_CHECKING:
    from pyjms.client.keywords import ConnectionFactoryKeywords

__all__ = ["ActiveMQXAConnection", "ActiveMQXASession", "XAConnectionFactory"]

# --- The consumer of an XA session, which delivers only in branches or by the session's mode.


class BranchMessageConsumer(ActiveMQMessageConsumer):
    """Delivers messages only if its session may receive: in a branch, or by its own mode."""

    choose_ledger: ClassVar[LedgerChoice] = staticmethod(choose_branch_ledger)

    @property
    def _branches(self) -> BranchTransaction:
        transaction = self.session.transaction
        assert isinstance(transaction, BranchTransaction)
        return transaction

    def next_dispatch(self) -> MessageDispatch | None:
        """Return the next message; raise if a message waits, but may not be received now."""
        if self.buffered:
            self._branches.check_work()
        return super().next_dispatch()

    async def deliver_one(self) -> bool:
        """Deliver the next message; keep and report a message that may not be received now."""
        refusal = self._branches.refusal()
        if self.buffered and refusal is not None:
            self.session.connection.report(refusal)
            return False
        return await super().deliver_one()


# --- The XA session, whose work belongs to branches.


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


# --- The XA connection, whose sessions work in branches.


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


class XAConnectionFactory(ConnectionFactory):
    """Creates XA connections to the broker of a URL. ActiveMQ: ActiveMQXAConnectionFactory.

    Tasks of one loop may share it.

    Args:
        url: as for `ConnectionFactory`, with the same options.
        xa_ack_mode: the acknowledge mode outside of branches: AUTO, CLIENT, DUPS_OK or INDIVIDUAL;
            TRANSACTED: sessions refuse to work outside of branches. None: the URL's
            `jms.xaAckMode`, or else TRANSACTED.
        keywords: the keyword arguments of `ConnectionFactory`.
    """

    _connection_class = ActiveMQXAConnection
    xa_ack_mode: AcknowledgeMode = AcknowledgeMode.TRANSACTED
    """How sessions acknowledge outside of branches."""

    def __init__(
        self,
        url: str | None = None,
        *,
        xa_ack_mode: AcknowledgeMode | None = None,
        **keywords: Unpack[ConnectionFactoryKeywords],
    ) -> None:
        super().__init__(url, **keywords)
        if xa_ack_mode is not None:
            self.xa_ack_mode = AcknowledgeMode(xa_ack_mode)

    def take_options(self, given: dict[str, str]) -> None:
        """Take `xaAckMode`."""
        text = given.pop("xaAckMode", None)
        if text is not None:
            self.xa_ack_mode = read_option("jms.xaAckMode", text, _acknowledge_mode)

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> ActiveMQXAConnection:
        """Connect, and return an XA connection, like `create_xa_connection`."""
        connection = await super().create_connection(user_name, password)
        assert isinstance(connection, ActiveMQXAConnection)
        connection.xa_ack_mode = self.xa_ack_mode
        connection.url = str(self.uri)
        return connection

    async def create_xa_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> ActiveMQXAConnection:
        """Connect, and return a connection that is not started. Cancelling closes the transport.

        Args:
            user_name: None: the factory's user and password.
            password: the user's password.

        Raises:
            ConnectionFailedException: the broker cannot be reached, or does not speak OpenWire.
        """
        return await self.create_connection(user_name, password)


def _acknowledge_mode(text: str) -> AcknowledgeMode:
    try:
        return AcknowledgeMode(int(text))
    except ValueError:
        known = ", ".join(f"{mode.value} ({mode.name})" for mode in AcknowledgeMode)
        raise ValueError(f"write one of {known}") from None
