"""XA of the blocking API: factory, connection, session and resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from pyjms.client.xa import XAConnectionFactory as CoreXAConnectionFactory
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.jms import api, xa
from pyjms.sync.connection import Connection, ConnectionFactory
from pyjms.sync.facade import Attribute, Facade, derive
from pyjms.sync.portal import current_loop
from pyjms.sync.session import Session

if TYPE_CHECKING:
    from pyjms.client.keywords import ConnectionFactoryKeywords
    from pyjms.sync.derived import XAConnectionMembers, XAResourceMembers
else:
    XAResourceMembers = derive(xa.XAResource)
    XAConnectionMembers = derive(xa.XAConnection, but=api.Connection)


class XAResource(Facade[xa.XAResource], XAResourceMembers):
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


class XAConnection(Connection, XAConnectionMembers):
    """A connection whose sessions are XA sessions. JMS: XAConnection."""

    __slots__ = ()

    def create_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> XASession:
        """Create an XA session, whatever the arguments, as ActiveMQ does. Blocks."""
        del transacted, acknowledge_mode
        return self.create_xa_session()


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

    def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> XAConnection:
        """Open an XA connection, as `create_xa_connection` does. Blocks."""
        return self.create_xa_connection(user_name, password)

    def create_xa_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> XAConnection:
        """Open a connection whose sessions are XA sessions. Blocks."""
        core = self.call(self.core.create_xa_connection, user_name, password)
        return XAConnection.of(core, self.loop, self)
