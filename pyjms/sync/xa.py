"""XA of the blocking API: factory, connection, session and resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

from pyjms.client.xa import XAConnectionFactory as CoreXAConnectionFactory
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.jms import api, xa
from pyjms.sync.connection import Connection, ConnectionFactory
from pyjms.sync.facade import (
    Attribute,
    Facade,
    ReadOnly,
    blocking,
    blocking_as,
    forwarding,
    implemented_by,
)
from pyjms.sync.portal import call_on_loop, current_loop
from pyjms.sync.session import Session

if TYPE_CHECKING:
    from pyjms.client.keywords import ConnectionFactoryKeywords


class XAResource(Facade[xa.XAResource]):
    """The interface for transaction managers to branches; see `pyjms.jms.XAResource`.

    For one thread at a time. After an interrupted wait (Ctrl-C), as after a cancelled one, the
    branch is in the state before or after the call.
    """

    __slots__ = ()

    TMNOFLAGS = xa.XAResource.TMNOFLAGS
    TMJOIN = xa.XAResource.TMJOIN
    TMENDRSCAN = xa.XAResource.TMENDRSCAN
    TMSTARTRSCAN = xa.XAResource.TMSTARTRSCAN
    TMSUSPEND = xa.XAResource.TMSUSPEND
    TMSUCCESS = xa.XAResource.TMSUCCESS
    TMRESUME = xa.XAResource.TMRESUME
    TMFAIL = xa.XAResource.TMFAIL
    TMONEPHASE = xa.XAResource.TMONEPHASE
    XA_OK = xa.XAResource.XA_OK
    XA_RDONLY = xa.XAResource.XA_RDONLY

    start: Final = blocking(xa.XAResource.start)
    end: Final = blocking(xa.XAResource.end)
    prepare: Final = blocking(xa.XAResource.prepare)
    commit: Final = blocking(xa.XAResource.commit)
    rollback: Final = blocking(xa.XAResource.rollback)
    forget: Final = blocking(xa.XAResource.forget)
    recover: Final = blocking(xa.XAResource.recover)

    transaction_timeout: Final = ReadOnly[int]("0: brokers have no timeout for branches.")
    set_transaction_timeout: Final = forwarding(xa.XAResource.set_transaction_timeout)

    def is_same_rm(self, other: XAResource) -> bool:
        """Return whether `other` belongs to the same broker. Blocks.

        With the option `rm_id_from_connection_id`, only if it belongs to the same connection.

        Raises:
            XAException: the connection failed before the broker sent its BrokerInfo.
        """
        return call_on_loop(self.loop, self.core.is_same_rm, other.core)


class XASession(Session):
    """A session whose work is part of transaction branches. JMS: XASession.

    For one thread at a time, except `close`. `commit` and `rollback` raise
    TransactionInProgressException: the transaction manager ends branches.
    """

    __slots__ = ()

    @property
    def xa_resource(self) -> XAResource:
        """The resource for the transaction manager; usable after the session was closed."""
        return XAResource.of(self.core.xa_resource, self.loop, self)  # type: ignore[attr-defined]


class XAConnection(Connection):
    """A connection whose sessions are XA sessions. JMS: XAConnection."""

    __slots__ = ()

    create_xa_session: Final = blocking_as(lambda: XASession, xa.XAConnection.create_xa_session)

    def create_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> XASession:
        """Create an XA session, whatever the arguments, as ActiveMQ does. Blocks."""
        del transacted, acknowledge_mode
        return self.create_xa_session()  # type: ignore[misc]


class XAConnectionFactory(ConnectionFactory):
    """Creates blocking XA connections. ActiveMQ: ActiveMQXAConnectionFactory.

    Threads may share it. Takes the arguments of `ConnectionFactory`, and `xa_ack_mode`: how
    sessions acknowledge outside branches; TRANSACTED: they reject such work. None: the URL's
    `jms.xaAckMode`, by default TRANSACTED.
    """

    __slots__ = ()

    xa_ack_mode: Attribute[AcknowledgeMode] = Attribute(
        "How sessions acknowledge outside branches."
    )

    def __init__(
        self,
        url: str | None = None,
        *,
        xa_ack_mode: AcknowledgeMode | None = None,
        **options: Unpack[ConnectionFactoryKeywords],
    ) -> None:
        self.core: CoreXAConnectionFactory = CoreXAConnectionFactory(
            url, xa_ack_mode=xa_ack_mode, **options
        )
        self.loop = current_loop()

    @implemented_by(blocking_as(lambda: XAConnection, api.ConnectionFactory.create_connection))
    def create_connection(self) -> None:
        """Open a connection."""

    create_xa_connection: Final = blocking_as(
        lambda: XAConnection, CoreXAConnectionFactory.create_xa_connection
    )
