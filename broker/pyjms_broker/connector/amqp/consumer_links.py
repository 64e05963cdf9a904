"""Links by which a client receives: consumers, browsers, and durable subscriptions.

The consumer has no prefetch: the link's credit is the number of messages that the broker may
dispatch. They are written at once; a delivery remains until the client has settled it:

    outcome                        effect
    accepted                       acknowledged
    rejected                       dead letter
    released                       returned to the queue, before all others
    modified, delivery-failed      the same, counted as a delivery
    modified, undeliverable-here   dead letter
    none, settled                  as released

A topic without durable subscription keeps no messages: what is returned waits in the link. With a
link whose deliveries are sent settled, the broker acknowledges what it has written.
(amqp-connector A80 to A107)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from anyio import lowlevel

from pyjms.errors import JMSException, LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.amqp.deliveries import Delivery
from pyjms.wire.amqp.links import Link, Sender
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    Accepted,
    Error,
    Modified,
    Received,
    Rejected,
    Source,
    TransactionalState,
)
from pyjms.wire.openwire.commands import (
    AckType,
    Command,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Throwable,
    TransactionId,
)
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.connector.amqp.nodes import (
    ILLEGAL_STATE,
    INTERNAL_ERROR,
    INVALID_FIELD,
    LINK_CONDITIONS,
    NOT_FOUND,
    RESOURCE_DELETED,
    UNKNOWN_TRANSACTION,
    NodeRefused,
    apply_options,
    destination_at,
    dynamic_kind,
    error_of,
    filters_of,
    filters_of_subscription,
    show_dynamic,
)
from pyjms_broker.connector.amqp.outgoing import Outgoing, to_payload, usual_payload
from pyjms_broker.region.subscription import LAST_DELIVERED_UNSET

if TYPE_CHECKING:
    from pyjms_broker.connector.amqp.session import AmqpSession
    from pyjms_broker.connector.amqp.transactions import Transaction

logger = get_logger(__name__)

_COPY: Final = "copy"
_UNSETTLED_STATE: Final = 2
MOST_KEPT: Final = 64 * 1024 * 1024
"""Bytes of a connection's unsettled messages from topics, which the broker keeps for it alone."""
_OVERHEAD: Final = 1024
"""Bytes that such a message takes besides its payload, roughly."""


def attach_consumer(session: AmqpSession, link: Sender) -> None:
    """Add a consumer for a link, or refuse the link."""
    source = link.peer.source
    try:
        if source is None:
            _resume(session, link)
        elif source.dynamic:
            session.create_temporary(
                dynamic_kind(source),
                lambda made: _add_dynamic(session, link, source, made),
                partial(_refuse, link),
            )
        elif not source.address:
            raise NodeRefused(INVALID_FIELD, "source address not set")
        else:
            destination = destination_at(source.address, INVALID_FIELD)
            _add(session, link, source, destination)
    except NodeRefused as refusal:
        link.refuse(refusal.error)


def _refuse(link: Sender, failure: Throwable | None) -> None:
    error = error_of(failure, LINK_CONDITIONS, INTERNAL_ERROR)
    selector = None if link.peer.source is None else filters_of(link.peer.source).selector
    if error.condition == INVALID_FIELD and selector is not None:
        error.description = selector  # as in ActiveMQ (amqp-connector A80)
    link.refuse(error)


def _add_dynamic(session: AmqpSession, link: Sender, source: Source, made: Destination) -> None:
    show_dynamic(source, made)
    _add(session, link, source, made, dynamic=made)


def _add(
    session: AmqpSession,
    link: Sender,
    source: Source,
    destination: Destination,
    *,
    dynamic: Destination | None = None,
) -> None:
    filters = filters_of(source)
    source.filter = filters.in_force
    info = _consumer(session, link, destination)
    apply_options(destination, info)
    info.selector = filters.selector
    info.no_local = filters.no_local
    info.browser = destination.is_queue and source.distribution_mode == _COPY
    if destination.is_topic and source.durable:
        info.subscription_name = link.name
    _add_consumer(session, link, info, source, dynamic)


def _consumer(session: AmqpSession, link: Sender, destination: Destination) -> ConsumerInfo:
    session_id, number = link.session.context.value, next(session.numbers)
    consumer_id = ConsumerId(str(session.connection_id), session_id, number)
    return ConsumerInfo(consumer_id, destination=destination, dispatch_async=True)


def _resume(session: AmqpSession, link: Sender) -> None:
    """Consume from the durable subscription of the link's name. (amqp-connector A103, A104)"""
    known = session.host.region_broker.subscriptions.of_client(session.client_id)
    found = next((each for each in known if each.key.subscription_name == link.name), None)
    if found is None:
        raise NodeRefused(NOT_FOUND, f"Unknown subscription link: {link.name}")
    info = _consumer(session, link, found.requested)
    info.subscription_name = link.name
    info.selector, info.no_local = found.info.selector, found.info.no_local
    source = Source(
        found.requested.qualified_name,
        durable=_UNSETTLED_STATE,
        expiry_policy="never",
        distribution_mode=_COPY,
        filter=filters_of_subscription(info.selector, info.no_local),
    )
    _add_consumer(session, link, info, source, None)


def _add_consumer(
    session: AmqpSession,
    link: Sender,
    info: ConsumerInfo,
    source: Source,
    dynamic: Destination | None,
) -> None:
    consumer = ConsumerLink(session, link, info, dynamic)
    session.consumers[consumer.consumer_id] = consumer

    def on_refusal(failure: Throwable | None) -> None:
        consumer.forget()
        if dynamic is not None:
            session.remove_temporary(dynamic)
        link.context = None
        _refuse(link, failure)

    session.request(info, partial(link.accept, consumer, source=source), on_refusal)


_STANDARD: Final = int(AckType.STANDARD)


def _is_rejection(outcome: object) -> bool:
    """Return whether an outcome makes a dead letter."""
    return isinstance(outcome, Rejected) or (
        isinstance(outcome, Modified) and outcome.undeliverable_here
    )


class Sent:
    """A message in a delivery that the client has not settled."""

    __slots__ = ("destination", "dispatch", "is_acknowledged", "message_id", "transaction")

    def __init__(self, dispatch: MessageDispatch, message_id: MessageId, is_kept: bool) -> None:
        self.destination = dispatch.destination
        self.message_id = message_id
        self.dispatch = dispatch if is_kept else None
        """Kept where the broker cannot dispatch it again."""
        self.transaction: Transaction | None = None
        """The open one in which the client has told an outcome."""
        self.is_acknowledged = False
        """Whether the broker has got its acknowledgement, but perhaps not answered it."""


class ConsumerLink:
    """A link by which a client receives.

    Args:
        session: the client.
        link: the engine's link.
        info: the consumer.
        dynamic: its destination, if that was created for this link.
    """

    def __init__(
        self, session: AmqpSession, link: Sender, info: ConsumerInfo, dynamic: Destination | None
    ) -> None:
        assert info.consumer_id is not None
        self._session = session
        self._link = link
        self._info = info
        self.dynamic = dynamic
        self.consumer_id: ConsumerId = info.consumer_id
        destination = info.destination
        self._is_topic = (
            destination is not None and destination.is_topic and info.subscription_name is None
        )
        self._waiting: deque[tuple[MessageDispatch, int]] = deque()
        """Messages for which there is no credit, such as those that were returned to a topic.

        Each has the bytes with which it counts in `Engine.kept`.
        """
        self._unsent: list[MessageAck] = []
        self._draining: BackgroundTask | None = None
        self._has_ended = False
        """Whether all messages have been browsed."""
        self._is_drained = False
        """Whether the client's last drain has been answered."""
        link.context = self

    @property
    def credit(self) -> int:
        """The number of messages that the client wants now."""
        return self._link.credit

    @property
    def settle_mode(self) -> str:
        """How messages are settled: `settled`, `unsettled` or `mixed`."""
        return self._link.settle_mode

    @property
    def _is_open(self) -> bool:
        link = self._link
        return link.is_attached and not (link.is_detached or link.is_detached_by_peer)

    @property
    def _subscription(self) -> Subscription | None:
        return self._session.host.region_broker.subscriptions.get(self.consumer_id)

    def forget(self) -> None:
        """Deliver nothing more."""
        self._session.consumers.pop(self.consumer_id, None)
        self._session.held_links.pop(self, None)
        self._session.engine.kept -= sum([size for _, size in self._waiting])
        self._waiting.clear()
        if self._draining is not None:
            self._draining.cancel()

    # from the broker
    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Deliver a message; without one, a browser has ended, or a message was set aside.

        Raises:
            LocalProtocolError: it cannot be converted; the broker sets it aside.
        """
        if dispatch.message is None:
            self._has_ended = self._info.browser
            later = self._end_browsing if self._has_ended else self.offer_credit
            self._session.call_next(partial(self._session.call_unless_lost, later))
            return
        try:
            payload = to_payload(dispatch, dispatch.message)
        except JMSException as error:
            raise LocalProtocolError(error.reason) from error
        if self._waiting or self._link.credit <= 0:
            self._waiting.append((dispatch, 0))
        else:
            self._deliver(dispatch, payload)

    def dispatch_run(self, dispatches: Sequence[Command]) -> int:
        """Deliver the first of these messages in one step, and return how many.

        It ends before one that needs `dispatch`, which may be the first.
        """
        link, is_settled = self._link, self._link.is_settled_mode
        is_kept = self._is_topic and not is_settled
        if self._waiting:
            return 0
        longest = link.longest_of_run
        payloads: list[bytes] = []
        sent: list[Sent] = []
        for dispatch in islice(dispatches, link.run_room):
            message = dispatch.message if type(dispatch) is MessageDispatch else None
            if message is None or type(dispatch) is not MessageDispatch:
                break
            message_id, message_format = message.message_id, 0
            payload = usual_payload(dispatch, message)
            if payload is None:
                try:
                    payload, message_format = to_payload(dispatch, message)
                except JMSException:
                    break  # `dispatch` raises it again
            if message_format or message_id is None or len(payload) > longest:
                break
            payloads.append(payload)
            sent.append(Sent(dispatch, message_id, is_kept=is_kept))
        if payloads:
            link.send_run(payloads, () if is_settled else sent, _OVERHEAD if is_kept else 0)
        if is_kept:
            self._hold_if_much_is_kept()
        for each in sent if is_settled else ():  # which was not lost with the connection
            self._acknowledge_later(each.destination, each.message_id)
        return len(payloads)

    def _end_browsing(self) -> None:
        """Answer a drain, which waits for the end of a browser."""
        if self._is_open and self._link.drain and not self._is_drained:
            self._finish_drain()

    def _deliver(self, dispatch: MessageDispatch, converted: Outgoing | None = None) -> None:
        message = dispatch.message
        assert message is not None
        assert message.message_id is not None
        payload, message_format = converted or to_payload(dispatch, message)
        is_settled = self._link.is_settled_mode
        if is_settled:
            self._link.send(payload, settled=True, message_format=message_format)
            self._acknowledge_later(dispatch.destination, message.message_id)
            return
        sent = Sent(dispatch, message.message_id, self._is_topic)
        size = len(payload) + _OVERHEAD if self._is_topic else 0
        self._link.send(payload, message_format=message_format, context=sent, size=size)
        if self._is_topic:
            self._hold_if_much_is_kept()

    def _hold_if_much_is_kept(self) -> None:
        """Get no more messages of a topic until the client has settled some."""
        session = self._session
        if session.engine.kept > MOST_KEPT and self not in session.held_links:
            session.held_links[self] = None
            session.call_next(partial(session.call_unless_lost, self.offer_credit))

    def _acknowledge_later(self, destination: Destination | None, message_id: MessageId) -> None:
        unsent = self._unsent
        if not unsent:
            self._session.acknowledge_later(self)
        elif self._is_topic and unsent[-1].destination == destination:
            unsent[-1].last_message_id = message_id
            unsent[-1].message_count += 1
            return
        unsent.append(
            MessageAck(destination, None, self.consumer_id, _STANDARD, message_id, message_id, 1)
        )

    def take_unsent(self) -> list[MessageAck]:
        """Return and clear the acknowledgements of deliveries that were sent settled."""
        acks, self._unsent = self._unsent, []
        return acks

    def on_closed_by_broker(self) -> None:
        """Close the link, as the broker has closed the consumer. (amqp-connector A65)"""
        self._end(Error(INTERNAL_ERROR, "Receiver forcably closed"))

    def on_destination_removed(self) -> None:
        """Close the link, as an operator has removed what it consumes. (amqp-connector A66)"""
        if self._is_open:
            self._end(Error(RESOURCE_DELETED, f"{self._info.destination} was removed"))

    # credit (events of the engine)
    def on_credit(self, link: Sender) -> None:
        """Let the broker dispatch so many messages. (amqp-connector A84, A86)"""
        wanted = link.credit
        self._is_drained = False
        self.offer_credit()
        if link.drain:
            self._session.send_together()  # messages that the client has sent before
        if link.drain and (link.credit or not wanted):
            self._finish_drain()

    def offer_credit(self) -> None:
        """Send what waits, and let the broker dispatch as many messages as there is credit."""
        link, session = self._link, self._session
        while self._waiting and link.credit > 0:
            dispatch, size = self._waiting.popleft()
            session.engine.kept -= size
            self._deliver(dispatch)
        subscription = self._subscription
        if subscription is not None and self._is_open:
            is_held = bool(self._waiting) or self in session.held_links
            subscription.set_credit(0 if is_held else link.credit)

    def _finish_drain(self) -> None:
        """Use up the credit, once the broker has dispatched what it has."""
        link, session = self._link, self._session
        if link.credit > 0 and self._is_congested:
            if self._draining is None or self._draining.done:
                name = f"broker {session.remote_address} drains a link"
                self._draining = spawn(self._drain_later, name=name)
            return
        if link.credit > 0 and self._info.browser and not self._has_ended:
            return  # it reads the queue in portions
        self._is_drained = True
        subscription = self._subscription
        if subscription is not None:
            subscription.set_credit(0)
        link.finish_drain()

    @property
    def _is_congested(self) -> bool:
        """Whether the broker dispatches nothing because the client does not read."""
        subscription = self._subscription
        return self._session.congested or (
            subscription is not None and subscription.context.congested
        )

    async def _drain_later(self) -> None:
        while self._is_congested:
            await self._session.drain()
            await lowlevel.checkpoint()  # the broker's connection notices it in a task of its own
        self._draining = None
        if self._is_open and self._link.drain:
            self._session.call_unless_lost(partial(self.on_credit, self._link))

    # outcomes (events of the engine)
    def on_dispositions(self, deliveries: list[Delivery]) -> None:
        """Apply the outcomes of deliveries. (amqp-connector A91 to A96, A113, A114)"""
        consumer_id, acknowledge = self.consumer_id, self._session.acknowledge
        for delivery in deliveries:
            sent: Sent = delivery.context
            is_new = sent.transaction is None and not sent.is_acknowledged
            if delivery.state is ACCEPTED and delivery.settled and is_new:
                sent.is_acknowledged = True
                message_id = sent.message_id
                acknowledge(
                    MessageAck(
                        sent.destination, None, consumer_id, _STANDARD, message_id, message_id, 1
                    )
                )
            elif self._is_open:
                self._on_disposition(delivery, sent)

    def _on_disposition(self, delivery: Delivery, sent: Sent) -> None:
        state = delivery.state
        if isinstance(state, TransactionalState):
            self._apply_in_transaction(delivery, state, sent)
        elif sent.transaction is not None or sent.is_acknowledged:
            pass  # the client settles what it has told before
        elif isinstance(state, Accepted):
            sent.is_acknowledged = True
            ack = self._ack(sent.destination, sent.message_id)
            if delivery.settled:
                self._session.acknowledge(ack)
            else:
                self._session.request(ack, partial(delivery.settle, ACCEPTED), self._on_refused_ack)
        elif delivery.settled or not isinstance(state, Received | None):
            self.apply(delivery, state)
            if not delivery.settled:
                delivery.settle(state)

    def _apply_in_transaction(
        self, delivery: Delivery, state: TransactionalState, sent: Sent
    ) -> None:
        transaction = self._session.transactions.get(state.txn_id)
        if transaction is None:
            # a deviation: ActiveMQ ends the connection (amqp-connector A117)
            self._end(Error(UNKNOWN_TRANSACTION, "There is no such transaction"))
            return
        if sent.transaction is transaction or sent.is_acknowledged:
            return  # the client settles what it has told before
        if sent.transaction is not None:
            self._end(Error(ILLEGAL_STATE, "The delivery is part of another transaction"))
            return
        sent.transaction, outcome = transaction, state.outcome
        transaction.outcomes.append((self, delivery, outcome))
        if isinstance(outcome, Accepted):
            ack = self._ack(sent.destination, sent.message_id, transaction=transaction.xid)
            self._session.request(ack, failed=self._on_refused_ack)
        elif _is_rejection(outcome):
            # the broker keeps it for the commit, as the link may be detached before
            subscription = self._subscription
            sent.is_acknowledged = subscription is not None and (
                subscription.reject_at_commit(transaction.xid, sent.message_id)
            )
        if not delivery.settled:
            delivery.update(state)

    def apply(self, delivery: Delivery, outcome: object) -> None:
        """Apply an outcome other than accepted."""
        sent: Sent = delivery.context
        if sent.is_acknowledged:
            return
        if _is_rejection(outcome):
            ack = self._ack(sent.destination, sent.message_id, AckType.POISON)
            self._session.request(ack, failed=self._on_refused_ack)
        else:
            has_failed = isinstance(outcome, Modified) and outcome.delivery_failed
            self.give_back([delivery], has_failed=has_failed)

    def give_back(self, deliveries: Sequence[Delivery], *, has_failed: bool) -> None:
        """Return messages to the broker, which dispatches them again."""
        returned: list[Sent] = [delivery.context for delivery in deliveries]
        if not self._is_topic:
            subscription = self._subscription
            if subscription is not None:
                ids = [sent.message_id for sent in returned]
                subscription.give_back(ids, has_failed=has_failed)
            return
        if not self._is_open:
            return  # a transaction has ended after the link
        for delivery, sent in zip(reversed(deliveries), reversed(returned), strict=True):
            if sent.dispatch is not None:
                sent.dispatch.redelivery_counter += has_failed
                self._waiting.appendleft((sent.dispatch, delivery.size))
                self._session.engine.kept += delivery.size
        self._session.call_next(partial(self._session.call_unless_lost, self.offer_credit))

    def _ack(
        self,
        destination: Destination | None,
        message_id: MessageId,
        kind: int = _STANDARD,
        transaction: TransactionId | None = None,
    ) -> MessageAck:
        return MessageAck(
            destination, transaction, self.consumer_id, kind, message_id, message_id, 1
        )

    def _on_refused_ack(self, failure: Throwable | None) -> None:
        """Close the link, as the broker has refused an acknowledgement. (amqp-connector A98)"""
        logger.warning(
            "%s: an acknowledgement is refused: %s", self._session, failure and failure.message
        )
        if self._is_open:
            self._remove()
            self._link.detach()

    # the end
    def on_detach(self, link: Link, closed: bool, error: Error | None) -> None:
        """Remove the consumer; `closed`: and its durable subscription. (amqp-connector A102)"""
        session, name = self._session, self._info.subscription_name
        self._remove()
        if closed and name is not None:
            session.request(RemoveSubscriptionInfo(session.connection_id, name, session.client_id))
        link.detach(closed)

    def _end(self, error: Error) -> None:
        self._remove()
        self._link.detach(error=error)

    def _remove(self) -> None:
        session = self._session
        session.send_unsent_acks()
        self.forget()
        session.request(RemoveInfo(self.consumer_id, LAST_DELIVERED_UNSET))
        if self.dynamic is not None:
            session.remove_temporary(self.dynamic)
