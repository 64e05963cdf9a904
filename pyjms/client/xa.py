"""XA: connections and sessions whose work belongs to branches of distributed transactions.

The session's consumers receive in a branch, or outside of branches if the factory has an
`xa_ack_mode`. The resource, the interface for a transaction manager, is implemented by requests to
the broker: BEGIN, END, PREPARE, COMMIT, ROLLBACK, RECOVER and FORGET with the branch's id.

No call of the resource changes the state of a branch here before the broker's response is known.
That makes every wait cancellable: the branch is then in the state before or after the call, and a
repeated call, a rollback or a recovery determines which.

    error                                       code of the XAException
    -----------------------------------------   ---------------------------------------------
    XAException of the broker                   the exception's; XAER_RMERR if it has none
    TransactionRolledBackException              XA_RBROLLBACK
    any other, for example connection lost      XAER_RMFAIL, as in ActiveMQ's client

(JTA: XAResource; ActiveMQ: TransactionContext; openwire-encoding 13; activemq-broker X5, X6;
activemq-edges N20)

There is one table for each event loop, of the branches that its sessions have worked in, until
their outcome is known. Several sessions, even of different connections, may work in one branch, and
any resource at the same broker may end it. Every session that has worked in it must be informed of
its outcome. ActiveMQ has one such table per process; here there is one per loop, since the objects
of another loop must not be used.

    state                entered by                        leaves by
    ------------------   -------------------------------   --------------------------------------
    associated           start()                           end(): the work is acknowledged in the
                                                           branch and kept in its consumers
    ended                end(), of all sessions            prepare(), commit(one phase), rollback()
    prepared             the vote XA_OK                    commit(), rollback()
    rollback-only        end(TMFAIL); the loss of a        rollback(); prepare() and commit() roll
                         connection before the vote        back as well and raise XA_RBROLLBACK
    finished             a definite answer of the broker   settled or redelivered, at once

A call without a definite answer (cancelled, connection lost) changes no state here, but is recorded
in `requested`: if it is repeated and the broker does not know the branch any more, it was executed.

For the broker, a branch that is not prepared belongs to its connection and ends with it. ActiveMQ's
client sends the branch's messages again to the next broker; but other connections may have worked
in the branch, and acknowledgements cannot be repeated, so that only a part of the branch could be
committed. Here it is rolled back. (activemq-broker X6; activemq-edges F5)

Messages. Within a branch the acknowledgement rule is that of a transacted session. When the
session's work in the branch ends, the messages received are acknowledged in the branch and kept
until its outcome is known: then they are settled or redelivered. In the meantime the consumer may
receive in other branches, or outside of branches.

When a connection is lost, the kept messages are forgotten, so that they are accepted if they are
dispatched again: the broker keeps the acknowledgements of prepared branches, and rolls the other
branches back. (activemq-broker X6)

Work in a branch carries the branch's id. A session works in one branch at a time, and in any number
one after another. Outside of branches there is no transaction: a session without an `xa_ack_mode`
refuses such work, as ActiveMQ's does. (activemq-edges N20)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Unpack

import anyio
from anyio.lowlevel import RunVar

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.dispatcher import OwnedTasks
from pyjms.client.factory import ConnectionFactory
from pyjms.client.ledgers import AckLedger, DeferredAckLedger, IndividualAckLedger, choose_ledger
from pyjms.client.options import read_option
from pyjms.client.session import (
    ActiveMQSession,
    SessionTransaction,
    Synchronizations,
    after_commit,
    after_rollback,
)
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    TransactionInProgressException,
    TransactionRolledBackException,
    XAException,
)
from pyjms.jms.api import LocalTransactionEventListener, Synchronization
from pyjms.jms.xa import XAConnection, XAResource, XASession, Xid
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.commands import (
    BrokerInfo,
    DataArrayResponse,
    IntegerResponse,
    MessageDispatch,
    Response,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)

if TYPE_CHECKING:
    from pyjms.client.keywords import ConnectionFactoryKeywords

logger: Final = get_logger(__name__)


class Branch:
    """One branch: the sessions that work or have worked in it, and its known state."""

    def __init__(self, table: BranchTable, xid: commands.XATransactionId) -> None:
        self._table = table
        self.xid = xid
        self.associated: list[BranchTransaction] = []
        self.participants: list[BranchTransaction] = []
        """All sessions that have worked in it, in order."""
        self.synchronizations: list[Synchronization] = []
        """The synchronizations of work that has ended."""
        self.is_prepared = False
        self.rollback_cause: str | None = None
        """Why it can only be rolled back, or None."""
        self.requested: commands.TransactionType | None = None
        """The last request to end it, as long as the broker's response is not known."""

    def associate(self, participant: BranchTransaction) -> None:
        """Record that a session works in it."""
        self.associated.append(participant)
        if participant not in self.participants:
            self.participants.append(participant)

    def set_rollback_only(self, cause: str) -> None:
        """Make it rollback-only, unless it is prepared. The first cause is kept."""
        if not self.is_prepared and self.rollback_cause is None:
            self.rollback_cause = cause

    def end_work(
        self, participant: BranchTransaction, synchronizations: Sequence[Synchronization]
    ) -> None:
        """Record that a session no longer works in it."""
        self.associated.remove(participant)
        self.synchronizations.extend(synchronizations)

    def leave(self, participant: BranchTransaction) -> None:
        """Remove a session that is closed."""
        if participant in self.associated:
            self.associated.remove(participant)
        if participant in self.participants:
            self.participants.remove(participant)
        if not self.participants:
            self._table.remove(self)

    async def finish(self, *, committed: bool) -> None:
        """Settle or redeliver the messages received in it; then call its synchronizations.

        The consumers are handled before the first await; the rest is not cancellable.
        """
        for participant in list(self.associated):
            self.end_work(participant, participant.disassociate())
        self._table.remove(self)
        for participant in self.participants:
            participant.branch_ended(self, committed=committed)
        await (after_commit if committed else after_rollback)(self.synchronizations)
        with anyio.CancelScope(shield=True):
            for participant in self.participants:
                try:
                    await participant.close_if_pending()
                except Exception:
                    logger.exception("Closing an XA session after its last branch failed")


class BranchTable:
    """The branches of one loop. Different brokers may have branches with the same id."""

    def __init__(self) -> None:
        self._branches: dict[commands.XATransactionId, list[Branch]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._branches.values()))

    def find(
        self, xid: commands.XATransactionId, connection: ActiveMQXAConnection
    ) -> Branch | None:
        """Return the branch that `xid` names at the broker of `connection`."""
        for branch in self._branches.get(xid, ()):
            if any(p.connection.is_at_broker_of(connection) for p in branch.participants):
                return branch
        return None

    def join(self, xid: commands.XATransactionId, participant: BranchTransaction) -> Branch:
        """Associate `participant` with the branch, created if there is none, and return it."""
        branch = self.find(xid, participant.connection)
        if branch is None:
            branch = Branch(self, xid)
            self._branches.setdefault(xid, []).append(branch)
        branch.associate(participant)
        return branch

    def of_connection(self, connection: object) -> list[Branch]:
        """Return the branches in which sessions of a connection have worked."""
        return [
            branch
            for branches in self._branches.values()
            for branch in branches
            if any(participant.connection is connection for participant in branch.participants)
        ]

    def remove(self, branch: Branch) -> None:
        """Remove a branch; does nothing if it has been removed."""
        branches = self._branches.get(branch.xid, [])
        if branch in branches:
            branches.remove(branch)
            if not branches:
                del self._branches[branch.xid]


_table: RunVar[BranchTable] = RunVar("pyjms_branches")


def table_of_this_loop() -> BranchTable:
    """Return the table that the connections of this loop share."""
    try:
        return _table.get()
    except LookupError:
        table = BranchTable()
        _table.set(table)
        return table


class BranchAckLedger(AckLedger):
    """Applies the rule `inside` in branches, `outside` otherwise (None: not allowed)."""

    def __init__(
        self,
        session: ActiveMQSession,
        info: commands.ConsumerInfo,
        inside: DeferredAckLedger,
        outside: AckLedger | None,
    ) -> None:
        self._session = session  # the base class's list is not used: the rules have the messages
        self._info = info
        self._inside = inside
        self._outside = outside
        self._last: AckLedger = inside
        self.redelivers_on_error = inside.redelivers_on_error
        self._by_branch: dict[Branch, list[commands.MessageDispatch]] = {}

    def end_work(self, branch: Branch, *, acknowledges: bool) -> None:
        """Keep the messages received in `branch`; acknowledge them in it if `acknowledges`."""
        if acknowledges:
            self._inside.acknowledge_in_transaction()
        received = self._inside.pop_delivered()
        if received:
            self._by_branch.setdefault(branch, []).extend(received)

    def pop_branch(self, branch: Branch) -> list[commands.MessageDispatch]:
        """Return and forget the messages received in `branch`."""
        return self._by_branch.pop(branch, [])

    def before_delivery(self, dispatch: commands.MessageDispatch) -> None:
        in_branch = self._outside is None or self._session.transaction.id is not None
        self._last = self._inside if in_branch or self._outside is None else self._outside
        self.redelivers_on_error = self._last.redelivers_on_error
        self._last.before_delivery(dispatch)

    def after_delivery(self, dispatch: commands.MessageDispatch) -> None:
        self._last.after_delivery(dispatch)

    def flush(self) -> None:
        if self._outside is not None:
            self._outside.flush()

    def start_timer(self, tasks: OwnedTasks) -> None:
        if self._outside is not None:
            self._outside.start_timer(tasks)

    def close(self) -> None:
        if self._outside is not None:
            self._outside.close()

    @property
    def acknowledger_of_one(self) -> Callable[[commands.MessageDispatch], None] | None:
        return None if self._outside is None else self._outside.acknowledger_of_one

    def acknowledge(self) -> None:
        if self._outside is not None:
            self._outside.acknowledge()

    @property
    def _rules(self) -> list[AckLedger]:
        return [self._inside, *filter(None, [self._outside])]

    @property
    def unsettled(self) -> list[commands.MessageDispatch]:
        """The unsettled messages of the current work; without those kept by branch."""
        return [dispatch for rule in self._rules for dispatch in rule.unsettled]

    @property
    def has_unsettled(self) -> bool:
        return bool(self._by_branch) or any(rule.has_unsettled for rule in self._rules)

    def holds(self, message_id: commands.MessageId | None) -> bool:
        return any(rule.holds(message_id) for rule in self._rules)

    def pop_delivered(self) -> list[commands.MessageDispatch]:
        return self._last.pop_delivered()

    def on_interruption(self) -> list[commands.MessageDispatch]:
        kept, self._by_branch = self._by_branch, {}
        dropped = self._inside.pop_delivered()
        for received in kept.values():
            dropped += received
        if self._outside is not None:
            dropped += self._outside.on_interruption()
        return dropped


def choose_branch_ledger(session: ActiveMQSession, info: commands.ConsumerInfo) -> AckLedger:
    """Return the ledger of a new consumer of an XA session."""
    if info.browser:
        return choose_ledger(session, info)
    individual = session.connection.options.transacted_individual_ack or session.reorders
    inside = (IndividualAckLedger if individual else DeferredAckLedger)(session, info)
    has_mode = session.acknowledge_mode != AcknowledgeMode.TRANSACTED
    outside = choose_ledger(session, info) if has_mode else None
    return BranchAckLedger(session, info, inside, outside)


_ENDS: Final = "the transaction manager ends branches, with commit() or rollback() of an XAResource"


class BranchTransaction(SessionTransaction):
    """The branches of one session. `id` is the id of the branch in which it works now."""

    def __init__(self, session: ActiveMQXASession) -> None:
        super().__init__()
        self.connection: ActiveMQXAConnection = session.connection
        self._table = session.connection.branches
        self._session = session
        self._works_outside = session.acknowledge_mode != AcknowledgeMode.TRANSACTED
        self._synchronizations = Synchronizations()
        self._close: Callable[[], Awaitable[None]] | None = None
        self.branch: Branch | None = None
        """The branch in which the session works now."""

    # For the session, its producers and consumers.

    def refusal(self) -> JMSException | None:
        """Return why work is refused now; None: it is allowed."""
        branch = self.branch
        if branch is None:
            return None if self._works_outside else _not_enlisted()
        if branch.rollback_cause is None:
            return None
        return TransactionRolledBackException(
            f"The branch {branch.xid} can only be rolled back: {branch.rollback_cause}"
        )

    def check_work(self) -> None:
        """Raise if work is refused now.

        Raises:
            JMSException: the session works in no branch, and may not work outside of branches.
            TransactionRolledBackException: the branch can only be rolled back.
        """
        refusal = self.refusal()
        if refusal is not None:
            raise refusal

    def begin(self) -> commands.TransactionId:
        self.check_work()
        if self.id is None:
            raise _not_enlisted()
        return self.id

    async def commit(self) -> NoReturn:
        raise TransactionInProgressException("Cannot commit() inside an XASession", hint=_ENDS)

    async def rollback(self) -> NoReturn:
        raise TransactionInProgressException("Cannot rollback() inside an XASession", hint=_ENDS)

    async def close(self) -> None:
        """Do nothing: the transaction manager ends branches."""

    def add_synchronization(self, synchronization: Synchronization) -> None:
        self.begin()
        self._synchronizations.add(synchronization)

    def set_listener(self, listener: LocalTransactionEventListener | None) -> None:
        raise IllegalStateException(
            "An XA session has no local transactions, so a listener for them would never be called",
            hint="add a synchronization to each branch instead",
        )

    @property
    def is_involved(self) -> bool:
        """Whether branches in which the session works or has worked are open."""
        return any(self in b.participants for b in self._table.of_connection(self.connection))

    def close_later(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call `close` when the session's last branch has ended."""
        self._close = close

    def dispose(self) -> None:
        """Leave all branches, because the session is closed."""
        for branch in self._table.of_connection(self.connection):
            if self in branch.participants:
                branch.set_rollback_only("a session that worked in it is closed")
                branch.leave(self)
        self._work_in(None)

    # For the resource.

    def associate(self, xid: commands.XATransactionId) -> None:
        """Start to work in the branch `xid`."""
        self._work_in(self._table.join(xid, self))
        for consumer in self._session.consumers:
            consumer.update_flow()

    async def before_end(self) -> None:
        """Call the synchronizations before the end of the work in the present branch."""
        await self._synchronizations.before_end()

    def end_work(self) -> None:
        """Acknowledge the messages received in the present branch, and stop working in it."""
        branch = self.branch
        assert branch is not None
        try:
            self._end_work_of_consumers(branch, acknowledges=branch.rollback_cause is None)
        except JMSException as error:  # the connection is failing
            branch.set_rollback_only(f"its messages cannot be acknowledged: {error}")
            self._end_work_of_consumers(branch, acknowledges=False)
        branch.end_work(self, self._leave())

    # For the branch.

    def disassociate(self) -> Sequence[Synchronization]:
        assert self.branch is not None
        self._end_work_of_consumers(self.branch, acknowledges=False)
        return self._leave()

    def branch_ended(self, branch: Branch, *, committed: bool) -> None:
        for consumer in self._session.all_consumers:
            if isinstance(consumer.ledger, BranchAckLedger):
                received = consumer.ledger.pop_branch(branch)
                if not committed:
                    consumer.redeliverer.redeliver(received)
        self._session.release_closed_consumers(only_settled=True)

    async def close_if_pending(self) -> None:
        close = self._close
        if close is not None and not self.is_involved:
            self._close = None
            await close()

    def _end_work_of_consumers(self, branch: Branch, *, acknowledges: bool) -> None:
        for consumer in self._session.all_consumers:
            if isinstance(consumer.ledger, BranchAckLedger):
                consumer.ledger.end_work(branch, acknowledges=acknowledges)

    def _work_in(self, branch: Branch | None) -> None:
        """Note the present branch: without one only an `xa_ack_mode` makes work possible."""
        self.branch = branch
        self.id = None if branch is None else branch.xid
        self._session.transacted = branch is not None or not self._works_outside

    def _leave(self) -> Sequence[Synchronization]:
        self._work_in(None)
        return self._synchronizations.detach()


def _not_enlisted() -> JMSException:
    return JMSException(
        "Session's XAResource has not been enlisted in a distributed transaction.",
        hint="call xa_resource.start() first, or give the factory an xa_ack_mode",
    )


class BranchMessageConsumer(ActiveMQMessageConsumer):
    """Delivers messages only if its session may receive: in a branch, or by its own mode."""

    session: ActiveMQXASession

    def _new_ledger(self) -> AckLedger:
        return choose_branch_ledger(self.session, self.info)

    def next_dispatch(self) -> MessageDispatch | None:
        """Return the next message; raise if a message waits, but may not be received now."""
        if self.buffered:
            self.session.transaction.check_work()
        return super().next_dispatch()

    async def deliver_one(self) -> bool:
        """Deliver the next message; keep and report a message that may not be received now."""
        refusal = self.session.transaction.refusal()
        if self.buffered and refusal is not None:
            self.session.connection.report(refusal)
            return False
        return await super().deliver_one()


class ActiveMQXASession(ActiveMQSession, XASession):
    """A session of an `ActiveMQXAConnection`, which creates it."""

    consumer_class: ClassVar[type[ActiveMQMessageConsumer]] = BranchMessageConsumer
    takes_chunks: ClassVar[bool] = False
    connection: ActiveMQXAConnection
    transaction: BranchTransaction

    def _new_transaction(self) -> BranchTransaction:
        transaction = BranchTransaction(self)
        self._resource = ActiveMQXAResource(self.connection, transaction)
        return transaction

    @property
    def xa_resource(self) -> ActiveMQXAResource:
        return self._resource

    async def finish_close(self) -> None:
        """Close the consumers; the rest is done when the last branch has ended."""
        if not self.transaction.is_involved:
            await super().finish_close()
            return
        self.transaction.close_later(super().finish_close)
        for consumer in list(self.consumers):
            await consumer.close()

    def dispose(self, failure: JMSException | None = None) -> int:
        """Leave the branches, then dispose as the base class does."""
        self.transaction.dispose()
        return super().dispose(failure)


class ActiveMQXAConnection(ActiveMQConnection, XAConnection):
    """A connection whose sessions are all XA sessions, created by `XAConnectionFactory`.

    For transaction managers, its broker is a resource manager.
    """

    _session_class: ClassVar[type[ActiveMQSession]] = ActiveMQXASession

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.branches: Final = table_of_this_loop()
        """The branches in which its sessions work."""
        self.xa_ack_mode = AcknowledgeMode.TRANSACTED
        self.url = ""
        """The broker's URL, as given to the factory."""
        self._broker_known = anyio.Event()  # or the connection has failed

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

    def is_at_broker_of(self, other: ActiveMQXAConnection) -> bool:
        """Return whether both connections are to the same broker, as far as it is known."""
        return self.url == other.url or (
            self.broker_id is not None and self.broker_id == other.broker_id
        )

    async def begin_branch(self, branch_id: XATransactionId) -> None:
        """Begin a branch, or join it; waits only while the transport is congested or reconnects.

        Raises:
            XAException: the connection is closed or has failed.
        """
        info = TransactionInfo(self.connection_id, branch_id, int(TransactionType.BEGIN))
        try:
            self.check_open()
            if self.transport.congested:
                await self.transport.drain()
            self.oneway(info)
        except JMSException as error:
            raise _as_xa(error) from error

    async def ask_about_branch(
        self, how: TransactionType, branch_id: XATransactionId | None
    ) -> Response:
        """Request a step of a branch. Cancelling ends the wait; the broker may execute the request.

        Raises:
            XAException: the broker refused it, or its response is not known.
        """
        try:
            self.check_open()
            return await self.request(TransactionInfo(self.connection_id, branch_id, int(how)))
        except JMSException as error:
            raise _as_xa(error) from error

    async def resource_id(self) -> str:
        """Return the identifier that all resources of one broker share.

        Raises:
            XAException: the connection failed before BrokerInfo was received.
        """
        if self.options.rm_id_from_connection_id:
            return str(self.connection_id)
        await self._broker_known.wait()
        broker_id = None if self.broker_id is None else self.broker_id.value
        if broker_id is None:
            raise XAException(
                "Could not get resource manager id.",
                xa_error_code=XAException.XAER_RMERR,
                hint="the connection failed before the broker sent its id: open a new connection",
            )
        return broker_id

    async def close(self) -> None:
        await super().close()
        self._broker_known.set()

    def on_exception(self, error: Exception) -> None:
        super().on_exception(error)
        self._broker_known.set()

    def transport_interrupted(self, error: Exception) -> None:
        """Make the branches that are not prepared rollback-only: the broker rolls them back."""
        super().transport_interrupted(error)
        for branch in self.branches.of_connection(self):
            branch.set_rollback_only(f"the broker was lost: {error}")

    def _on_broker_info(self, info: BrokerInfo) -> None:
        super()._on_broker_info(info)
        self._broker_known.set()


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


_START_FLAGS = (XAResource.TMNOFLAGS, XAResource.TMJOIN, XAResource.TMRESUME)
_SCAN_FLAGS = XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN
_COMMITS = (TransactionType.COMMIT_ONE_PHASE, TransactionType.COMMIT_TWO_PHASE)
_NOTA = XAException.XAER_NOTA


class ActiveMQXAResource(XAResource):
    """The resource of one session; for one task at a time."""

    def __init__(self, connection: ActiveMQXAConnection, transaction: BranchTransaction) -> None:
        self.connection = connection
        self._transaction = transaction

    # Work.

    async def start(self, xid: Xid, flags: int = XAResource.TMNOFLAGS) -> None:
        branch_id = _branch_id(xid)
        if flags not in _START_FLAGS:
            raise _error(XAException.XAER_INVAL, f"start of {branch_id} with flags {flags:#x}")
        if self._transaction.branch is not None:
            raise _protocol(f"start of {branch_id} within {self._transaction.id}")
        await self.connection.begin_branch(branch_id)
        self._transaction.associate(branch_id)

    async def end(self, xid: Xid, flags: int = XAResource.TMSUCCESS) -> None:
        branch_id, branch = _branch_id(xid), self._transaction.branch
        must_work = bool(flags & (self.TMSUSPEND | self.TMFAIL))
        if not must_work and not flags & self.TMSUCCESS:
            raise _error(XAException.XAER_INVAL, f"end of {branch_id} with flags {flags:#x}")
        if branch is None or branch.xid != branch_id:
            if must_work:
                raise _protocol(f"end of {branch_id}, in which this session does not work")
            return  # the work has ended already: allowed, as in ActiveMQ
        failure: Exception | None = None
        try:
            await self._transaction.before_end()
        except Exception as error:
            failure = error
        if failure is not None:
            branch.set_rollback_only(f"a synchronization failed: {failure}")
        elif flags & self.TMFAIL:
            branch.set_rollback_only("its work was ended with TMFAIL")
        is_ended = self._transaction.branch is not branch  # a synchronization has ended it
        if not is_ended:
            self._transaction.end_work()
        if branch.rollback_cause is None:
            if not is_ended:
                await self.connection.ask_about_branch(TransactionType.END, branch_id)
        elif not flags & self.TMFAIL:
            raise _rollback_only(branch) from failure

    # The two phases.

    async def prepare(self, xid: Xid) -> int:
        branch_id, branch = self._find_ended(xid, "prepare")
        await self._refuse_rollback_only(branch)
        try:
            response = await self._ask(TransactionType.PREPARE, branch_id, branch)
        except XAException as error:
            await self._raise_failure(branch_id, branch, error)
        assert isinstance(response, IntegerResponse)
        if branch is not None:
            if response.result == self.XA_RDONLY:
                await branch.finish(committed=True)
            else:
                branch.is_prepared = True
        return response.result

    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        branch_id, branch = self._find_ended(xid, "commit")
        await self._refuse_rollback_only(branch)
        how = TransactionType.COMMIT_ONE_PHASE if one_phase else TransactionType.COMMIT_TWO_PHASE
        before = None if branch is None else branch.requested
        try:
            await self._ask(how, branch_id, branch)
        except XAException as error:
            if branch is None or error.xa_error_code != _NOTA or before not in _COMMITS:
                await self._raise_failure(branch_id, branch, error)
            elif one_phase:  # the call that was cancelled has committed, or failed
                await branch.finish(committed=True)
                raise
        if branch is not None:
            await branch.finish(committed=True)

    async def rollback(self, xid: Xid) -> None:
        await self._undo(TransactionType.ROLLBACK, xid)

    async def forget(self, xid: Xid) -> None:
        await self._undo(TransactionType.FORGET, xid)

    async def _undo(self, how: TransactionType, xid: Xid) -> None:
        branch_id = _branch_id(xid)
        branch = self._find(branch_id)
        expects_none = branch is not None and (
            branch.requested == how or branch.rollback_cause is not None
        )
        try:
            await self._ask(how, branch_id, branch)
        except XAException as error:
            if error.xa_error_code != _NOTA:
                raise
            if not expects_none:
                await _finish(branch, committed=False)
                raise
        await _finish(branch, committed=False)

    async def _refuse_rollback_only(self, branch: Branch | None) -> None:
        """Roll a rollback-only branch back, and raise."""
        if branch is not None and branch.rollback_cause is not None:
            error = _rollback_only(branch)
            await self._roll_back_after(error, branch.xid, branch)

    async def _raise_failure(
        self, branch_id: XATransactionId, branch: Branch | None, error: XAException
    ) -> NoReturn:
        """Apply the consequences of a failed prepare or commit to the branch, and raise."""
        if isinstance(error.linked_exception, TransactionRolledBackException):
            await self._roll_back_after(error, branch_id, branch)
        await self._refuse_rollback_only(branch)  # the broker was lost during the request
        if error.is_rollback:
            logger.warning("The branch %s was rolled back: %s", branch_id, error)
            await _finish(branch, committed=False)
        elif error.xa_error_code == _NOTA:
            await _finish(branch, committed=branch is not None and branch.is_prepared)
        raise error

    async def _roll_back_after(
        self, error: XAException, branch_id: XATransactionId, branch: Branch | None
    ) -> NoReturn:
        """Ensure that the broker has rolled the branch back; then raise `error`.

        With failover, it is unknown what the lost broker has executed. (activemq-broker X9)
        """
        try:
            await self._ask(TransactionType.ROLLBACK, branch_id, branch)
        except XAException as refusal:
            if refusal.xa_error_code != _NOTA:
                raise
        await _finish(branch, committed=False)
        raise error

    # Recovery.

    async def recover(
        self, flags: int = XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN
    ) -> list[Xid]:
        if flags & ~_SCAN_FLAGS:
            raise _error(XAException.XAER_INVAL, f"recover with flags {flags:#x}")
        response = await self.connection.ask_about_branch(TransactionType.RECOVER, None)
        found = response.data if isinstance(response, DataArrayResponse) else None
        return [_xid(each) for each in found or () if isinstance(each, XATransactionId)]

    async def is_same_rm(self, other: XAResource) -> bool:
        if not isinstance(other, ActiveMQXAResource):
            return False
        return await self.connection.resource_id() == await other.connection.resource_id()

    def _find(self, branch_id: XATransactionId) -> Branch | None:
        return self.connection.branches.find(branch_id, self.connection)

    def _find_ended(self, xid: Xid, what: str) -> tuple[XATransactionId, Branch | None]:
        """Return the branch; no session may be working in it.

        Raises:
            XAException: a session is.
        """
        branch_id = _branch_id(xid)
        branch = self._find(branch_id)
        if branch is not None and branch.associated:
            raise _protocol(f"{what} of {branch_id}, in which a session works: end() comes first")
        return branch_id, branch

    async def _ask(
        self, how: TransactionType, branch_id: XATransactionId, branch: Branch | None
    ) -> Any:
        """Request the end of a branch; record the request until there is a definite answer."""
        if branch is not None:
            branch.requested = how
        try:
            response = await self.connection.ask_about_branch(how, branch_id)
        except XAException as error:
            if branch is not None and error.xa_error_code != XAException.XAER_RMFAIL:
                branch.requested = None
            raise
        if branch is not None:
            branch.requested = None
        return response


async def _finish(branch: Branch | None, *, committed: bool) -> None:
    if branch is not None:
        await branch.finish(committed=committed)


def _branch_id(xid: Xid) -> XATransactionId:
    return XATransactionId(xid.format_id, xid.global_transaction_id, xid.branch_qualifier)


def _xid(branch_id: XATransactionId) -> Xid:
    return Xid(
        branch_id.format_id,
        branch_id.global_transaction_id or b"",
        branch_id.branch_qualifier or b"",
    )


def _error(code: int, text: str) -> XAException:
    return XAException(text, xa_error_code=code)


def _protocol(text: str) -> XAException:
    return _error(XAException.XAER_PROTO, f"Not allowed now: {text}")


def _rollback_only(branch: Branch) -> XAException:
    return _error(
        XAException.XA_RBROLLBACK, f"{branch.xid} can only be rolled back: {branch.rollback_cause}"
    )


def _as_xa(error: JMSException) -> XAException:
    if isinstance(error, XAException):
        code, text = error.xa_error_code or XAException.XAER_RMERR, error.reason
    elif isinstance(error, TransactionRolledBackException):
        code, text = XAException.XA_RBROLLBACK, str(error)
    else:
        code, text = XAException.XAER_RMFAIL, str(error)
    converted = XAException(text, xa_error_code=code)
    converted.linked_exception = error
    return converted
