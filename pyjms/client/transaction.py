"""The transactions of sessions: none, or local ones; `pyjms.client.xa` adds XA branches.

A session has one `SessionTransaction`, chosen when it is created. A transacted session has at most
one transaction at a time, and begins it with the first work: a send, or a message delivered.
Without work, a commit or rollback sends nothing to the broker.

    state         send, delivery        commit()               rollback()
    -----------   -------------------   --------------------   -------------------
    none          BEGIN; -> active      nothing                nothing
    active        carries the id        COMMIT_ONE_PHASE       ROLLBACK
                                        -> none                -> none

Before either end the consumers acknowledge, in the transaction, what was delivered. Afterwards:

    commit succeeded                 delivered messages are settled
    commit refused by the broker     they are redelivered: the broker has rolled back
    commit cancelled                 they are settled: the command has been sent. If they are
                                     dispatched again, the broker was lost before it executed the
                                     commit; then they are delivered like any other message
    commit without response          unknown; the caller decides (ConnectionFailedException)
    rollback, whatever the outcome   they are redelivered

Synchronizations are called before the end, when they may still work in the transaction, and after
it: `after_commit` if messages are settled, otherwise `after_rollback`; the latter also if the
connection is lost or closed before the end, since the broker then rolls back. Each `before_end` is
called once, even if a cancelled commit is repeated. The callbacks after the end are not cancelled:
the outcome is decided, and each synchronization must be informed of it.

With a failover transport the broker may be lost during a transaction. Messages that the lost broker
delivered must be delivered again by the next broker, to the same consumers; otherwise a commit
rolls back, after waiting for `consumer_failover_redelivery_wait_period`. (activemq-edges F5)

`id` is cleared before the request, so that work that starts during a commit belongs to the next
transaction. (openwire-encoding 13; activemq-broker X1, X3, X7)

"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import anyio

from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    JMSException,
    RequestTimeoutException,
    TransactionRolledBackException,
)
from pyjms.jms.synchronization import LocalTransactionEventListener, Synchronization
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import (
    LocalTransactionId,
    TransactionId,
    TransactionInfo,
    TransactionType,
)

if TYPE_CHECKING:
    from pyjms.client.session import ActiveMQSession

logger: Final = get_logger(__name__)


class Synchronizations:
    """The synchronizations of a transaction in progress, in the order of registration."""

    def __init__(self) -> None:
        self._registered: list[Synchronization] = []
        self._called = 0
        self.is_calling: bool = False
        """Whether a `before_end` is running; it may neither commit nor roll back."""

    def add(self, synchronization: Synchronization) -> None:
        """Register a synchronization."""
        self._registered.append(synchronization)

    async def before_end(self) -> None:
        """Call `before_end` of each, including those that are registered during the calls.

        Raises:
            Exception: raised by a synchronization; the later ones are not called.
        """
        while self._called < len(self._registered):
            synchronization = self._registered[self._called]
            self._called += 1
            self.is_calling = True
            try:
                result = synchronization.before_end()
                if result is not None:
                    await result
            finally:
                self.is_calling = False

    def detach(self) -> Sequence[Synchronization]:
        """Return the synchronizations of the ending transaction, and start with an empty list."""
        if not self._registered:
            return ()
        registered, self._registered, self._called = self._registered, [], 0
        return registered


async def after_commit(synchronizations: Sequence[Synchronization]) -> None:
    """Call `after_commit` of each; not cancellable. Errors are logged."""
    await _call([synchronization.after_commit for synchronization in synchronizations])


async def after_rollback(synchronizations: Sequence[Synchronization]) -> None:
    """Call `after_rollback` of each; not cancellable. Errors are logged."""
    await _call([synchronization.after_rollback for synchronization in synchronizations])


async def _call(functions: Sequence[Callable[[], Awaitable[None] | None]]) -> None:
    for function in functions:
        try:
            result = function()
            if result is not None:
                with anyio.CancelScope(shield=True):
                    await result
        except Exception:
            logger.exception("A synchronization failed after the end of its transaction")


class SessionTransaction(ABC):
    """The transactions of a session."""

    @property
    @abstractmethod
    def id(self) -> TransactionId | None:
        """The id of the transaction to which new work belongs; None: there is none."""

    @abstractmethod
    def begin(self) -> TransactionId:
        """Return the id of the transaction; begin a transaction if there is none."""

    @abstractmethod
    async def commit(self) -> None:
        """Commit and wait for the broker."""

    @abstractmethod
    async def rollback(self) -> None:
        """Roll back and wait for the broker."""

    @abstractmethod
    async def close(self) -> None:
        """End an open transaction, because the session is closing."""

    def abandon(self) -> Sequence[Synchronization]:
        """Return the synchronizations that no end will call, as the session is disposed."""
        return ()

    @abstractmethod
    def add_synchronization(self, synchronization: Synchronization) -> None:
        """Register a synchronization with the transaction; begin one if there is none."""

    @abstractmethod
    def set_listener(self, listener: LocalTransactionEventListener | None) -> None:
        """Set a listener that is called when local transactions begin and end."""

    def on_redelivery(self) -> None:  # noqa: B027 - only local transactions wait for it
        """Record that a message delivered by a lost broker was delivered again."""


class NoTransaction(SessionTransaction):
    """The transaction of a session that is not transacted: none."""

    id: Final = None

    def begin(self) -> NoReturn:
        raise IllegalStateException(
            "Not a transacted session", hint="create it with create_session(transacted=True)"
        )

    async def commit(self) -> None:
        self.begin()

    async def rollback(self) -> None:
        self.begin()

    async def close(self) -> None:
        """Do nothing: there is no transaction."""

    def add_synchronization(self, synchronization: Synchronization) -> None:
        self.begin()

    def set_listener(self, listener: LocalTransactionEventListener | None) -> None:
        self.begin()


class LocalTransaction(SessionTransaction):
    """A session's work since its last commit or rollback. `id` is None before any work."""

    id: LocalTransactionId | None = None

    def __init__(self, session: ActiveMQSession) -> None:
        self._session = session
        self._connection = session.connection
        self._listener: LocalTransactionEventListener | None = None
        self._synchronizations = Synchronizations()
        self._redelivery = anyio.Event()

    def begin(self) -> LocalTransactionId:
        if self.id is None:
            transaction_id = self._connection.next_transaction_id()
            self._connection.oneway(self._info(transaction_id, TransactionType.BEGIN))
            self.id = transaction_id
            if self._listener is not None:
                _notify(self._listener.begin_event)
        return self.id

    def add_synchronization(self, synchronization: Synchronization) -> None:
        self.begin()
        self._synchronizations.add(synchronization)

    def set_listener(self, listener: LocalTransactionEventListener | None) -> None:
        self._listener = listener

    async def commit(self) -> None:
        """Commit and wait for the broker; see the module for the outcomes.

        Raises:
            TransactionRolledBackException: the broker rolled back, or the session was closed
                in the meantime; messages are redelivered.
            ConnectionFailedException: the outcome is unknown.
            IllegalStateException: called by a synchronization's `before_end`.
        """
        if self.id is None:
            return
        self._refuse_in_synchronization("commit()")
        try:
            await self._synchronizations.before_end()
        except Exception:
            await self._roll_back()
            raise
        if self._session.stale_count():
            await self._wait_for_redelivery()
        if self.id is None:
            raise TransactionRolledBackException("The session was closed before the commit")
        synchronizations = self._detach()
        try:
            await self._end(TransactionType.COMMIT_ONE_PHASE)
        except anyio.get_cancelled_exc_class():
            self._session.settle_in_doubt()
            await self._tell_commit(synchronizations)
            raise
        except (ConnectionFailedException, RequestTimeoutException):
            await self._tell_rollback(synchronizations)
            raise
        except JMSException as error:
            logger.debug("Commit failed and was rolled back: %s", error)  # raised below as well
            self._session.redeliver_unsettled()
            await self._tell_rollback(synchronizations)
            if isinstance(error, TransactionRolledBackException):
                raise
            refusal = TransactionRolledBackException(error.reason or str(error))
            refusal.linked_exception = error
            raise refusal from error
        self._session.settle()
        await self._tell_commit(synchronizations)

    async def rollback(self) -> None:
        """Roll back: sends are dropped and messages redelivered, whatever the broker responds.

        Raises:
            IllegalStateException: called by a synchronization's `before_end`.
        """
        self._refuse_in_synchronization("rollback()")
        await self.close()

    async def close(self) -> None:
        """Roll back, even if a synchronization closes the session."""
        if self.id is None:
            return
        try:
            await self._synchronizations.before_end()
        except Exception:
            logger.exception("A synchronization failed before the rollback")
        await self._roll_back()

    def abandon(self) -> Sequence[Synchronization]:
        return self._synchronizations.detach()

    def on_redelivery(self) -> None:
        self._redelivery.set()

    async def _wait_for_redelivery(self) -> None:
        """Wait until all messages delivered by a lost broker were redelivered; otherwise roll back.

        Raises:
            TransactionRolledBackException: not all messages were redelivered in time.
        """
        session = self._session
        with _clock.timeout(self._connection.options.consumer_failover_redelivery_wait_period):
            while session.stale_count():
                self._redelivery = anyio.Event()
                await self._redelivery.wait()
        missing, transaction_id = session.stale_count(), self.id
        if missing:
            await self._roll_back()
            raise TransactionRolledBackException(
                f"rolling back transaction ({transaction_id}) post failover recovery. {missing} "
                "previously delivered message(s) not replayed to consumer",
                hint="they are delivered again, to this or another consumer; handle them then",
            )

    def _refuse_in_synchronization(self, call: str) -> None:
        if self._synchronizations.is_calling:
            raise IllegalStateException(
                f"{call} cannot be called in before_end of a synchronization",
                hint="the transaction is already ending; raise an error there to roll it back",
            )

    async def _roll_back(self) -> None:
        if self.id is None:
            return  # the session was closed in the meantime
        synchronizations = self._detach()
        try:
            await self._end(TransactionType.ROLLBACK)
        finally:
            self._session.redeliver_unsettled()
            await self._tell_rollback(synchronizations)

    def _detach(self) -> Sequence[Synchronization]:
        """Acknowledge the delivered messages, and return the synchronizations to call."""
        self._session.acknowledge_in_transaction()
        return self._synchronizations.detach()

    async def _end(self, how: TransactionType) -> None:
        transaction_id, self.id = self.id, None
        await self._connection.request(self._info(transaction_id, how))

    async def _tell_commit(self, synchronizations: Sequence[Synchronization]) -> None:
        if self._listener is not None:
            _notify(self._listener.commit_event)
        if synchronizations:
            await after_commit(synchronizations)

    async def _tell_rollback(self, synchronizations: Sequence[Synchronization]) -> None:
        if self._listener is not None:
            _notify(self._listener.rollback_event)
        if synchronizations:
            await after_rollback(synchronizations)

    def _info(
        self, transaction_id: LocalTransactionId | None, how: TransactionType
    ) -> TransactionInfo:
        return TransactionInfo(self._connection.connection_id, transaction_id, int(how))


def _notify(event: Callable[[], None]) -> None:
    try:
        event()
    except Exception:
        logger.exception("A listener of local transactions failed")
