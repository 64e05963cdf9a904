"""What a consumer has handed out, and when the broker hears of it: one class per rule.

`before` is called when a message is handed to the application, `after` when that was
done with: at once for receive(), after the listener otherwise. `delivered` holds what
was handed out and is not settled, oldest first. No call waits. (ActiveMQ A3 to A8,
ENCODING section 12)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms import _clock
from pyjms.enums import AcknowledgeMode
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    Throwable,
)

if TYPE_CHECKING:
    from pyjms.client.session.session import ActiveMQSession

__all__ = [
    "AckLedger",
    "EachLedger",
    "HeldLedger",
    "IndividualLedger",
    "LazyLedger",
    "RangeLedger",
    "choose_ledger",
]

_OPTIMIZED_SHARE = 0.65  # of the prefetch, where optimized acknowledgement sends its range
_LAZY_SHARE = 0.5

_STANDARD = int(AckType.STANDARD)
_DELIVERED = int(AckType.DELIVERED)
_INDIVIDUAL = int(AckType.INDIVIDUAL)


class AckLedger:
    """What all rules share: ranges, and the acknowledgements that no rule changes."""

    redelivers_on_error = True
    """Whether a listener that raises has its messages redelivered; else the next one follows."""

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        self._session = session
        self._info = info
        self.delivered: list[MessageDispatch] = []

    def before(self, dispatch: MessageDispatch) -> None:
        """Note that `dispatch` goes to the application now."""
        self.delivered.append(dispatch)

    def after(self, dispatch: MessageDispatch) -> None:
        """Note that the application is done with `dispatch`."""
        raise NotImplementedError

    def flush(self) -> None:
        """Acknowledge what may be: the consumer, or its session, is about to close."""

    def before_end(self) -> None:
        """Acknowledge in the transaction what it has consumed: it is about to end."""

    def settle(self) -> None:
        """Forget what was handed out: committed, or acknowledged."""
        self.delivered.clear()

    def take_back(self) -> list[MessageDispatch]:
        """Return what was handed out, oldest first, and forget it."""
        taken, self.delivered = self.delivered, []
        return taken

    def expired(self, dispatch: MessageDispatch) -> None:
        """Tell the broker that a message expired here; it decides what becomes of it."""
        self.send(AckType.EXPIRED, [dispatch])

    def redelivered(self, dispatches: list[MessageDispatch]) -> None:
        """Tell the broker that messages are redelivered here again; it changes nothing."""
        self.send(AckType.REDELIVERED, dispatches)

    def poison(self, dispatches: list[MessageDispatch], cause: Throwable) -> None:
        """Refuse messages for good: the broker dead-letters them."""
        self.send(AckType.POISON, dispatches, cause=cause)

    def send(
        self,
        kind: int,
        dispatches: list[MessageDispatch],
        *,
        in_transaction: bool = False,
        cause: Throwable | None = None,
    ) -> None:
        """Acknowledge the run from the first to the last of `dispatches`."""
        last = dispatches[-1]
        ack = MessageAck(
            last.destination,
            self._session.transaction.id if in_transaction else None,
            self._info.consumer_id,
            kind,
            _id(dispatches[0]) if kind != _INDIVIDUAL else None,
            _id(last),
            len(dispatches),
            cause,
        )
        self._session.send_ack(ack)


class EachLedger(AckLedger):
    """AUTO, and DUPS_OK on queues: each message by itself."""

    def after(self, dispatch: MessageDispatch) -> None:
        # A recover() or close() in between has settled it already.
        if self.delivered:
            self.delivered.clear()
            message_id = _id(dispatch)
            self._session.send_ack(
                MessageAck(
                    dispatch.destination,
                    None,
                    self._info.consumer_id,
                    _STANDARD,
                    message_id,
                    message_id,
                    1,
                )
            )

    def flush(self) -> None:
        if self.delivered:
            self.after(self.delivered[-1])


class RangeLedger(EachLedger):
    """AUTO with optimizeAcknowledge: ranges at 65 % of the prefetch, or after a time. (A7)

    Whatever would break a range (a redelivery, sorting by priority) is acknowledged by itself.
    """

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self._waiting: list[MessageDispatch] = []
        self._last_ack = _clock.now()
        self._time_out = session.connection.options.optimize_acknowledge_time_out

    def after(self, dispatch: MessageDispatch) -> None:
        if not self.delivered:
            return
        if dispatch.redelivery_counter or self._session.reorders:
            self.send_waiting()
            super().after(dispatch)
            return
        self.delivered.clear()
        self._waiting.append(dispatch)
        now = _clock.now()
        if (
            len(self._waiting) >= _OPTIMIZED_SHARE * self._info.prefetch_size
            or (self._time_out > 0 and now - self._last_ack >= self._time_out)
            or not self._session.connection.optimizes_acks
        ):
            self._last_ack = now
            self.send_waiting()

    def flush(self) -> None:
        self.send_waiting()
        super().flush()

    def take_back(self) -> list[MessageDispatch]:
        self.send_waiting()
        return super().take_back()

    def send_waiting(self) -> None:
        """Acknowledge what was put off."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self.send(_STANDARD, waiting)


class LazyLedger(AckLedger):
    """DUPS_OK on topics: a range at half the prefetch. (A4)"""

    def after(self, dispatch: MessageDispatch) -> None:
        if len(self.delivered) >= _LAZY_SHARE * self._info.prefetch_size:
            self.flush()

    def flush(self) -> None:
        if self.delivered:
            self.send(_STANDARD, self.take_back())


class HeldLedger(AckLedger):
    """CLIENT and TRANSACTED: one range, when the application says so.

    Until then DELIVERED acknowledgements at half the prefetch keep messages coming. (A5, A6)
    """

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self.redelivers_on_error = False
        self._announced = 0  # so many of `delivered`, from its start, were told as DELIVERED

    def before(self, dispatch: MessageDispatch) -> None:
        if self._session.transacted:
            self._session.transaction.begin()
        self.delivered.append(dispatch)

    def after(self, dispatch: MessageDispatch) -> None:
        prefetch = self._info.prefetch_size
        if prefetch and len(self.delivered) - self._announced >= _LAZY_SHARE * prefetch:
            fresh = self.delivered[self._announced :]
            self._announced = len(self.delivered)
            self.send(_DELIVERED, fresh, in_transaction=True)

    def before_end(self) -> None:
        if self.delivered:
            self.send(_STANDARD, self.delivered, in_transaction=True)

    def acknowledge(self) -> None:
        """CLIENT: acknowledge all that was handed out."""
        if self.delivered:
            self.send(_STANDARD, self.take_back())

    def settle(self) -> None:
        super().settle()
        self._announced = 0

    def take_back(self) -> list[MessageDispatch]:
        self._announced = 0
        return super().take_back()


class IndividualLedger(HeldLedger):
    """INDIVIDUAL; also CLIENT and TRANSACTED where redelivery may change the order of messages.

    Each message has an acknowledgement of its own; in a transaction at once. (A5, A6)
    """

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self.redelivers_on_error = session.is_individual_acknowledge

    def after(self, dispatch: MessageDispatch) -> None:
        if not self._session.transacted:
            super().after(dispatch)
        elif self.delivered:
            self.send(_INDIVIDUAL, [dispatch], in_transaction=True)

    def before_end(self) -> None:
        """Nothing is left to say."""

    def acknowledge(self) -> None:
        for dispatch in self.take_back():
            self.send(_INDIVIDUAL, [dispatch])

    def acknowledge_one(self, dispatch: MessageDispatch) -> None:
        """INDIVIDUAL: acknowledge this one; nothing happens when it is settled already."""
        for index, delivered in enumerate(self.delivered):
            if delivered is dispatch:
                del self.delivered[index]
                self._announced -= index < self._announced
                self.send(_INDIVIDUAL, [dispatch])
                return


def choose_ledger(session: ActiveMQSession, info: ConsumerInfo) -> AckLedger:
    """Return the rule for a new consumer."""
    if info.browser:
        return EachLedger(session, info)
    mode = session.acknowledge_mode
    options = session.connection.options
    if mode == AcknowledgeMode.INDIVIDUAL:
        return IndividualLedger(session, info)
    if mode == AcknowledgeMode.TRANSACTED:
        one_by_one = options.transacted_individual_ack or session.reorders
        return (IndividualLedger if one_by_one else HeldLedger)(session, info)
    if mode == AcknowledgeMode.CLIENT:
        return (IndividualLedger if session.reorders else HeldLedger)(session, info)
    assert info.destination is not None
    if mode == AcknowledgeMode.DUPS_OK and info.destination.is_topic and not session.reorders:
        return LazyLedger(session, info)
    return (RangeLedger if info.optimized_acknowledge else EachLedger)(session, info)


def _id(dispatch: MessageDispatch) -> MessageId | None:
    assert dispatch.message is not None
    return dispatch.message.message_id
