"""The link to the coordinator, and the transactions that it controls.

A transaction of a client is a local one of the broker. Each has its own messages and outcomes of
deliveries. Accepted deliveries are acknowledged in the broker's transaction; other outcomes take
effect when it is committed. After a rollback, deliveries that the client has settled are
redelivered; it keeps the others, and may settle them anew.
(amqp-connector A110 to A119)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.wire.amqp.deliveries import Delivery
from pyjms.wire.amqp.links import Link, Receiver
from pyjms.wire.amqp.message import VALUE, decode_message
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    Accepted,
    Declare,
    Declared,
    Discharge,
    Error,
    Rejected,
    State,
)
from pyjms.wire.amqp.session import Session
from pyjms.wire.openwire.commands import (
    LocalTransactionId,
    Throwable,
    TransactionInfo,
    TransactionType,
)
from pyjms_broker.connector.amqp.nodes import DECODE_ERROR, FAILED, SEND_CONDITIONS, error_of

if TYPE_CHECKING:
    from pyjms_broker.connector.amqp.consumer_links import ConsumerLink, Sent
    from pyjms_broker.connector.amqp.session import AmqpSession

_LEAST_CREDIT: Final = 0.2
"""The share of the credit at which it is refilled."""
_ID_SIZE: Final = 8
_LONGEST_ID: Final = 32
"""Bytes of an id as the standard limits them."""


class Transaction:
    """An open transaction.

    Args:
        txn_id: its id for the client.
        xid: its id for the broker.
    """

    def __init__(self, txn_id: bytes, xid: LocalTransactionId) -> None:
        self.txn_id = txn_id
        self.xid = xid
        self.outcomes: list[tuple[ConsumerLink, Delivery, State | None]] = []
        """The deliveries with outcomes in it."""

    def end(self, *, committed: bool) -> None:
        """Apply the outcomes, or undo them."""
        ended, self.outcomes = self.outcomes, []
        returned: dict[ConsumerLink, list[Delivery]] = {}
        open_again: dict[Session, list[Delivery]] = {}
        for link, delivery, outcome in ended:
            sent: Sent = delivery.context
            sent.transaction = None
            if committed:
                if not isinstance(outcome, Accepted):
                    link.apply(delivery, outcome)
                if not delivery.settled:
                    delivery.settle(outcome)
                continue
            sent.is_acknowledged = False
            if delivery.settled:
                returned.setdefault(link, []).append(delivery)
            elif delivery.is_unsettled:
                delivery.state = None  # the client may settle it without telling another
                open_again.setdefault(delivery.link.session, []).append(delivery)
        for session, deliveries in open_again.items():
            session.unsettled.clear_outcome(deliveries)
        for link, deliveries in returned.items():
            link.give_back(deliveries, has_failed=True)


def attach_coordinator(session: AmqpSession, link: Receiver) -> None:
    """Answer a link to the coordinator."""
    link.context = coordinator = CoordinatorLink(session, link)
    link.accept(coordinator)
    link.grant(session.options.producer_credit)


class CoordinatorLink:
    """A link by which a client begins and ends transactions."""

    dynamic = None

    def __init__(self, session: AmqpSession, link: Receiver) -> None:
        self._session = session
        self._link = link

    def forget(self) -> None:
        """Do nothing more; the transactions stay open."""

    def on_detach(self, link: Link, closed: bool, error: Error | None) -> None:
        """Answer; the transactions stay open. (amqp-connector A119)"""
        link.detach(closed)

    def on_deliveries(self, deliveries: list[Delivery]) -> None:
        """Begin or end transactions."""
        for delivery in deliveries:
            if not self._link.is_detached:
                self._on_request(delivery)

    def _on_request(self, delivery: Delivery) -> None:
        message = decode_message(delivery.payload)
        request = message.body if message.body_kind == VALUE else None
        if isinstance(request, Declare) and request.global_id is None:
            self._declare(delivery)
        elif isinstance(request, Discharge):
            self._discharge(delivery, request)
        else:
            self._session.fail(
                Error(DECODE_ERROR, "Could not process AMQP commands"),
                "it sends the coordinator neither Declare without global id nor Discharge",
            )

    def _declare(self, delivery: Delivery) -> None:
        session = self._session
        xid = session.new_transaction()
        txn_id = xid.value.to_bytes(_ID_SIZE, "big")

        def on_begun() -> None:
            session.transactions[txn_id] = Transaction(txn_id, xid)
            delivery.settle(Declared(txn_id))
            self._refill()

        info = TransactionInfo(session.connection_id, xid, TransactionType.BEGIN)
        session.request(info, on_begun, partial(self._reject, delivery))

    def _discharge(self, delivery: Delivery, request: Discharge) -> None:
        session = self._session
        transaction = session.transactions.pop(request.txn_id, None)
        if transaction is None:
            number = int.from_bytes(request.txn_id[:_LONGEST_ID], "big")
            text = f"Transaction 'TX:{session.connection_id}:{number}' has not been started."
            delivery.settle(Rejected(Error(FAILED, text)))
            self._refill()
            return
        committed = not request.fail
        kind = TransactionType.COMMIT_ONE_PHASE if committed else TransactionType.ROLLBACK

        def on_ended() -> None:
            transaction.end(committed=committed)
            delivery.settle(ACCEPTED)
            session.release_links()
            self._refill()

        def on_refusal(failure: Throwable | None) -> None:
            transaction.end(committed=False)
            self._reject(delivery, failure)

        info = TransactionInfo(session.connection_id, transaction.xid, kind)
        session.request(info, on_ended, on_refusal)

    def _reject(self, delivery: Delivery, failure: Throwable | None) -> None:
        delivery.settle(Rejected(error_of(failure, SEND_CONDITIONS, FAILED)))
        self._refill()

    def _refill(self) -> None:
        link, most = self._link, self._session.options.producer_credit
        if link.is_attached and link.credit <= most * _LEAST_CREDIT:
            link.grant(most)
