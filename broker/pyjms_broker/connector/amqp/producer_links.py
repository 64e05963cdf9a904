"""Links by which a client sends: to a destination, or to any one that each message names.

A delivery becomes a message, and is answered when the broker has it: a persistent one is stored by
then. The client may send as many messages as it has credit, which it gets again when most of it is
used and answered. (amqp-connector A50 to A76)
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, parse_destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.amqp.deliveries import Delivery
from pyjms.wire.amqp.links import Link, Receiver
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    Error,
    Rejected,
    State,
    Target,
    TransactionalState,
)
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Throwable,
)
from pyjms_broker.connector.amqp.incoming import to_message
from pyjms_broker.connector.amqp.nodes import (
    FAILED,
    INTERNAL_ERROR,
    LINK_CONDITIONS,
    PRECONDITION_FAILED,
    SEND_CONDITIONS,
    UNKNOWN_TRANSACTION,
    NodeRefused,
    destination_at,
    dynamic_kind,
    error_of,
    show_dynamic,
)

if TYPE_CHECKING:
    from pyjms_broker.connector.amqp.session import AmqpSession
    from pyjms_broker.connector.amqp.transactions import Transaction

logger = get_logger(__name__)

_DELAYED: Final = "DELAYED_DELIVERY"
_USED: Final = 0.7
"""The share of the credit that is granted again once it is used and answered."""


def attach_producer(session: AmqpSession, link: Receiver) -> None:
    """Add a producer for a link, or refuse the link."""
    target = link.peer.target
    if not isinstance(target, Target):
        link.refuse(Error(PRECONDITION_FAILED, "A link of a sender must have a target"))
        return

    def on_refusal(failure: Throwable | None) -> None:
        link.refuse(error_of(failure, LINK_CONDITIONS, INTERNAL_ERROR))

    def add(destination: Destination | None, dynamic: Destination | None = None) -> None:
        producer = ProducerLink(session, link, destination, dynamic)
        info = ProducerInfo(producer.producer_id, destination)

        def on_refused_producer(failure: Throwable | None) -> None:
            if dynamic is not None:
                session.remove_temporary(dynamic)
            link.context = None
            producer.forget()
            on_refusal(failure)

        session.request(info, partial(producer.on_added, target), on_refused_producer)

    if target.dynamic:
        session.create_temporary(dynamic_kind(target), lambda made: add(made, made), on_refusal)
    elif not target.address:
        add(None)
    else:
        try:
            destination = destination_at(target.address, PRECONDITION_FAILED)
        except NodeRefused as refusal:
            link.refuse(refusal.error)
        else:
            add(destination)


def producer_of(delivery: Delivery) -> ProducerLink:
    """Return the link of a message that a client has sent."""
    return cast("ProducerLink", delivery.link.context)


class ProducerLink:
    """A link by which a client sends.

    Args:
        session: the client.
        link: the engine's link.
        destination: where the messages go; None: where each says.
        dynamic: the same, if it was created for this link.
    """

    def __init__(
        self,
        session: AmqpSession,
        link: Receiver,
        destination: Destination | None,
        dynamic: Destination | None,
    ) -> None:
        self._session = session
        self._link = link
        self._destination = destination
        self.dynamic = dynamic
        number = next(session.numbers)
        self.producer_id = ProducerId(
            str(session.connection_id), number, link.session.context.value
        )
        self._sequence = itertools.count(1)
        self._most = session.options.producer_credit
        self._latest: tuple[str, Destination] | None = None
        """The last address of a message, and its destination."""
        link.context = self
        session.producers[self.producer_id] = self

    @property
    def credit(self) -> int:
        """The number of messages that the client may send now."""
        return self._link.credit

    @property
    def settle_mode(self) -> str:
        """How the client settles: `settled`, `unsettled` or `mixed`."""
        return self._link.settle_mode

    def forget(self) -> None:
        """Be no producer any more."""
        self._session.producers.pop(self.producer_id, None)

    def on_added(self, target: Target) -> None:
        """Answer the attach, and let the client send."""
        link = self._link
        if self.dynamic is not None:
            show_dynamic(target, self.dynamic)
        offered = [_DELAYED] if _DELAYED in (link.peer.desired_capabilities or ()) else None
        link.accept(self, target=target, offered_capabilities=offered)
        link.grant(self._most)

    # events of the engine
    def on_deliveries(self, deliveries: list[Delivery]) -> None:
        """Send messages to the broker."""
        session, transformer = self._session, self._session.options.transformer
        producer_id, now = self.producer_id, _clock.time_ms()
        messages: list[ActiveMQMessage] = []
        accepted: list[Delivery] = []
        for delivery in deliveries:
            if self._link.is_detached:
                break
            if delivery.state is not None:
                session.publish(messages, accepted)  # which the end of the link does not affect
                messages, accepted = [], []
                if not self._join_transaction(delivery):
                    break
            message, to, text_id = to_message(
                delivery.payload, delivery.message_format, transformer, now
            )
            destination = self._destination
            if destination is None:
                try:
                    destination = self._destination_at(to)
                except JMSException as error:
                    self._reject(delivery, Error(FAILED, error.reason))
                    continue
            message.destination = destination
            message.producer_id = producer_id
            message.message_id = MessageId(text_id, producer_id, next(self._sequence))
            transaction: Transaction | None = delivery.context
            if transaction is not None:
                message.transaction_id = transaction.xid
            if transaction is None or not delivery.settled:
                messages.append(message)
                accepted.append(delivery)
            else:  # a refusal ends the connection, and so the transaction
                session.send(message)
                self._refill()
        session.publish(messages, accepted)

    def _join_transaction(self, delivery: Delivery) -> bool:
        """Set the transaction of a delivery; return whether the link is still attached."""
        state = delivery.state
        if isinstance(state, TransactionalState):
            delivery.context = self._session.transactions.get(state.txn_id)
            if delivery.context is None:
                # a deviation: ActiveMQ ends the connection (amqp-connector A117)
                self._end(Error(UNKNOWN_TRANSACTION, "There is no such transaction"))
                return False
        return True

    def on_detach(self, link: Link, closed: bool, error: Error | None) -> None:
        """Remove the producer, and answer. (amqp-connector A64)"""
        self._remove()
        link.detach(closed)

    # answers
    def _destination_at(self, address: str | None) -> Destination:
        if not address:
            raise JMSException("Missing to field for message sent to an anonymous producer")
        if self._latest is None or self._latest[0] != address:
            self._latest = address, parse_destination(address)
        return self._latest[1]

    def on_accepted(self, deliveries: list[Delivery]) -> None:
        """Answer messages that the broker has, of the same transaction if of any."""
        transaction: Transaction | None = deliveries[0].context
        state: State = ACCEPTED
        if transaction is not None:
            state = TransactionalState(transaction.txn_id, ACCEPTED)
        self._link.settle_all(deliveries, state)
        self._refill()

    def on_refusal(self, delivery: Delivery, failure: Throwable | None) -> None:
        """Answer a message that the broker has refused; if it was settled, it is lost.

        (amqp-connector A71, A72)
        """
        if delivery.settled:
            reason = None if failure is None else failure.message
            logger.info("%s: a message is refused that was sent settled: %s", self._session, reason)
        self._reject(delivery, error_of(failure, SEND_CONDITIONS, FAILED))

    def _reject(self, delivery: Delivery, error: Error) -> None:
        if not delivery.settled:
            delivery.settle(Rejected(error))
        self._refill()

    def _refill(self) -> None:
        """Grant credit again when it is mostly used, and the messages are answered.

        (amqp-connector A70)
        """
        link, most = self._link, self._most
        again = max(1, int(most * _USED))
        if link.is_attached and link.credit + link.unsettled <= most - again:
            link.grant(link.credit + again)

    def _remove(self) -> None:
        session = self._session
        self.forget()
        session.request(RemoveInfo(self.producer_id))
        if self.dynamic is not None:
            session.remove_temporary(self.dynamic)

    def _end(self, error: Error) -> None:
        self._remove()
        self._link.detach(error=error)
