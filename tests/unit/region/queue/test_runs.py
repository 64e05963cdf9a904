"""Messages, and acknowledgements, that arrive together have the effect of single ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

import pytest

from pyjms.errors import JMSException, LocalProtocolError
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ConsumerId,
    MessageAck,
    MessageDispatch,
    MessageId,
)
from pyjms.wire.openwire.fast_writer import marshal_body
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.api.context import ConsumerExchange, ProducerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.slow_consumers import AbortSlowAckConsumerStrategy
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

Q = Queue("Q")
NOBODY = ConsumerId("nobody", 1, 1)
Change = Callable[[ActiveMQMessage], None]
Send = Callable[[Client, list[ActiveMQMessage]], list[int]]
Acknowledge = Callable[[Client, Subscription, deque[MessageAck]], list[int]]


def messages(client: Client, *texts: str, **changes: Change) -> list[ActiveMQMessage]:
    """Return messages as they arrive, of which those named in `changes` are changed."""
    made = []
    for text in texts:
        message = client.message(Q, text)
        if text in changes:
            changes[text](message)
        marshal_body(message)
        made.append(message)
    return made


def singly(client: Client, sent: list[ActiveMQMessage]) -> list[int]:
    for message in sent:
        client.broker.send(client.exchange, message)
    return [1] * len(sent)


def in_runs(client: Client, sent: list[ActiveMQMessage]) -> list[int]:
    """Send them as the connector does; return how many were accepted together each time."""
    counts = []
    while sent:
        count = client.broker.send_run(client.exchange, sent)
        if not count:
            client.broker.send(client.exchange, sent[0])
        counts.append(count or 1)
        sent = sent[counts[-1] :]
    return counts


def in_steps(client: Client, sent: list[ActiveMQMessage]) -> list[int]:
    """Send them in runs, which the connection sends in steps of at most three messages."""
    client.run_limit = 3
    return in_runs(client, sent)


def state(broker: Broker) -> tuple[int, ...]:
    queue = broker.queue(Q)
    s = queue.statistics
    sizes = (queue.memory.used, s.total_size, s.min_size, s.max_size)
    return (s.enqueues, s.dispatched, s.inflight, s.dequeues, s.messages, s.expired, *sizes)


def test_messages_of_a_run_are_accepted_together_once_the_destination_is_known(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)
    assert in_runs(client, messages(client, *"abcd")) == [1, 3]
    assert client.received(consumer) == list("abcd")
    numbers = [present(d.message).message_id for d in client.dispatches]
    sequence = [present(each).broker_sequence_id for each in numbers]
    assert sequence == list(range(sequence[0], sequence[0] + 4))


def none(_client: Client) -> list[Subscription]:
    return []


def one(client: Client) -> list[Subscription]:
    return [client.consume(Q)]


def narrow(client: Client) -> list[Subscription]:
    return [client.consume(Q, prefetch=3)]


def two(client: Client) -> list[Subscription]:
    return [client.consume(Q), client.consume(Q, prefetch=2)]


def exclusive(client: Client) -> list[Subscription]:
    return [client.consume(Q), client.consume(Q, exclusive=True)]


def only_exclusive(client: Client) -> list[Subscription]:
    return [client.consume(Q, prefetch=2, exclusive=True)]


def selecting(client: Client) -> list[Subscription]:
    return [client.consume(Q, selector="JMSType <> 'c'")]


def not_local(client: Client) -> list[Subscription]:
    return [client.consume(Q, no_local=True)]


def pulling(client: Client) -> list[Subscription]:
    consumer = client.consume(Q, prefetch=0)
    client.pull(consumer, 0)
    return [consumer]


def browsing(client: Client) -> list[Subscription]:
    return [client.consume(Q, browser=True), client.consume(Q)]


@pytest.mark.parametrize(
    "consumers",
    [
        none, one, narrow, two, exclusive, only_exclusive, selecting, not_local, pulling, browsing,
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "policy",
    [
        PolicyEntry(),
        PolicyEntry(prioritized_messages=True),
        PolicyEntry(strict_order_dispatch=True),
        PolicyEntry(enable_audit=False),
        PolicyEntry(memory_limit=4000),
    ],
    ids=["usual", "prioritized", "strict", "unaudited", "tight"],
)
def test_a_run_has_the_effect_of_its_messages(
    make_broker: type[Broker],
    policy: PolicyEntry,
    consumers: Callable[[Client], list[Subscription]],
) -> None:
    def outcome(send: Send) -> tuple[object, ...]:
        broker = make_broker(policy)
        client = broker.client()
        attached = consumers(client)
        expired, old = messages(client, "d", "e")
        expired.expiration, old.expiration = 1, client.message(Q, "").timestamp + 60_000

        def urgent(message: ActiveMQMessage) -> None:
            message.priority = 9

        def grouped(message: ActiveMQMessage) -> None:
            message.group_id = "g"

        def targeted(message: ActiveMQMessage) -> None:
            message.target_consumer_id = NOBODY

        sent = messages(client, *"abc", b=urgent)
        sent += [expired, old, *messages(client, *"fghij", g=grouped, h=targeted)]
        send(client, [*sent[:7], sent[1], *sent[7:]])  # the second message comes twice
        received = [client.received(each) for each in attached]
        waiting = broker.texts(Q)
        blocked = len(client.context.blocked_sends)
        before = state(broker)
        for consumer in attached:
            client.close(consumer)
        again = client.consume(Q)
        return received, waiting, blocked, before, client.received(again), state(broker)

    assert outcome(in_runs) == outcome(singly)
    assert outcome(in_steps) == outcome(singly)


@pytest.mark.parametrize("seed", range(12))
async def test_any_work_in_runs_has_the_effect_of_single_messages(
    make_broker: type[Broker], seed: int
) -> None:
    """Sends, with and without transactions, of any size, while consumers come, read and go."""

    def outcome(send: Send, settle: Acknowledge, store: PagedAdapter) -> list[object]:
        chance = Random(seed)
        policy = PolicyEntry(
            prioritized_messages=chance.random() < 0.2, memory_limit=chance.choice([0, 40 * 1100])
        )
        broker = make_broker(policy, store=store)
        sender, receiver = broker.client(), broker.client()
        limit = chance.randint(1, 9)
        receiver.run_limit = 0 if send is singly else limit
        own, open_ = ProducerExchange(sender.context), sender.begin()
        consumers: list[Subscription] = []
        gone: list[list[str | None]] = []
        for step in range(60):
            count = chance.randint(1, 12)
            texts = [f"{step}.{number}" for number in range(count)]
            sent = messages(sender, *texts)
            for message in sent:
                message.persistent = chance.random() < 0.5
                message.response_required = False
            kind = chance.choice(("send", "send", "transacted", "transacted", "end", "ack", "move"))
            if kind == "send":
                sender.exchange = own
                send(sender, sent)
            elif kind == "transacted":
                sender.exchange = own.within(open_)
                send(sender, sent)
            elif kind == "end":
                open_.commit(one_phase=True) if chance.random() < 0.7 else open_.rollback()
                open_ = sender.begin()
            elif kind == "ack" and consumers:
                consumer = consumers[0]
                due = receiver.received(consumer)[consumer.dequeue_count :][:count]
                settle(receiver, consumer, acks_of(receiver, consumer, *map(present, due)))
            elif kind == "move":
                if consumers and chance.random() < 0.4:
                    gone.append(receiver.received(consumers[0]))
                    receiver.close(consumers.pop(0))
                elif len(consumers) < 2:
                    consumers.append(receiver.consume(Q, prefetch=chance.choice([1, 5, 1000])))
        left = [receiver.received(each) for each in consumers]
        return [gone, left, broker.texts(Q), len(sender.context.blocked_sends), state(broker)]

    expected = outcome(singly, one_by_one, PagedAdapter())
    assert outcome(in_runs, acknowledge, PagedAdapter()) == expected


def test_committed_messages_are_sent_in_one_step(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    client.run_limit = 1000
    consumer = client.consume(Q)
    transaction = client.begin()
    client.exchange = client.exchange.within(transaction)

    def persist(message: ActiveMQMessage) -> None:
        message.persistent = True

    sent = messages(client, *"abcdef", b=persist, c=persist, e=persist)
    assert in_runs(client, sent) == [1, 5]
    assert client.received(consumer) == []
    transaction.commit(one_phase=True)
    assert client.received(consumer) == list("abcdef")
    assert client.runs == [6]
    assert state(broker)[:5] == (6, 6, 6, 0, 6)


def test_a_store_that_refuses_a_message_of_a_transacted_run_has_those_before_it(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    transaction = client.begin()
    client.exchange = client.exchange.within(transaction)
    first, *sent = messages(client, *"abcde")
    client.broker.send(client.exchange, first)
    sent[1].persistent = True
    paged.broken.add("add_message")
    assert client.broker.send_run(client.exchange, sent) == 1
    with pytest.raises(JMSException, match="add_message failed"):
        client.broker.send(client.exchange, sent[1])
    paged.broken.clear()
    client.broker.send(client.exchange, sent[1])  # not a duplicate: it was never there
    assert in_runs(client, sent[2:]) == [1, 1]
    transaction.commit(one_phase=True)
    assert broker.texts(Q) == list("abcde")
    assert broker.queue(Q).memory.used == broker.queue(Q).statistics.total_size


def test_work_of_two_queues_in_a_transaction_keeps_its_order(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    client = make_broker(store=paged).client()
    other = Queue("R")
    both = [client.consume(Q), client.consume(other)]
    transaction = client.begin()
    for text in "abcdef":
        client.send(other if text in "cf" else Q, text, tx=transaction)
    transaction.commit(one_phase=True)
    assert [d.message.type for d in client.dispatches if d.message] == list("abcdef")
    assert [client.received(each) for each in both] == [list("abde"), list("cf")]


@pytest.mark.fact("activemq-broker M2")
def test_a_run_ends_where_the_memory_does_and_the_next_message_waits(
    make_broker: type[Broker],
) -> None:
    broker = make_broker(PolicyEntry(memory_limit=5 * 1100))
    client = broker.client()
    counts = in_runs(client, messages(client, *"abcdefgh"))
    assert counts[:2] != [1, 1]
    accepted = broker.texts(Q)
    assert accepted == list("abcdefgh")[: len(accepted)]
    assert len(client.context.blocked_sends) == 8 - len(accepted) > 0
    consumer = client.consume(Q)
    for number in range(8):
        client.ack(consumer, number)
    assert client.received(consumer) == list("abcdefgh")
    assert broker.queue(Q).memory.used == 0


def test_a_consumer_that_leaves_in_the_run_gets_no_more_of_it(
    broker: Broker, client: Client
) -> None:
    first, second = client.consume(Q), broker.client()

    def leave(dispatch: MessageDispatch) -> None:
        if present(dispatch.message).type == "c":
            client.close(first)

    client.on_dispatch = leave
    in_runs(client, messages(client, *"abcdef"))
    assert client.received(first) == list("abc")
    other = second.consume(Q)
    assert second.received(other) == list("abcdef")


def test_a_consumer_that_acknowledges_within_the_run_gets_all_in_order(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q, prefetch=1)
    client.on_dispatch = lambda _: client.ack(consumer)
    in_runs(client, messages(client, *"abcdef"))
    assert client.received(consumer) == list("abcdef")
    assert state(broker)[:5] == (6, 6, 0, 6, 0)


def test_a_client_that_stops_reading_within_the_run_gets_the_rest_later(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)

    def stop(dispatch: MessageDispatch) -> None:
        client.context.congested = present(dispatch.message).type == "c"

    client.on_dispatch = stop
    in_runs(client, messages(client, *"abcdef"))
    assert client.received(consumer) == list("abc")
    client.context.congested = False
    consumer.window_freed()
    assert client.received(consumer) == list("abcdef")


async def test_a_message_that_the_connection_cannot_carry_is_set_aside_within_the_run(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)

    def refuse(dispatch: MessageDispatch) -> None:
        if present(dispatch.message).type == "c":
            raise LocalProtocolError("it is too long")

    client.on_dispatch = refuse
    in_runs(client, messages(client, *"abcde"))
    assert client.received(consumer) == list("abcde")
    assert consumer.dispatched_count == 4
    client.close(consumer)


def test_a_run_of_a_removed_queue_goes_to_the_new_one(broker: Broker, client: Client) -> None:
    in_runs(client, messages(client, *"ab"))
    broker.region.remove_destination(client.context, Q, 0)
    assert in_runs(client, messages(client, *"cde")) == [1, 2]
    assert broker.texts(Q) == list("cde")


@pytest.mark.fact("activemq-broker M8")
def test_a_run_is_dispatched_as_far_as_memory_is_not_short(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    """The message that makes it short waits for an acknowledgement, and not those before it."""

    def received(send: Send) -> list[str | None]:
        broker = make_broker(PolicyEntry(memory_limit=10 * 1100), store=paged)
        client = broker.client()
        consumer = client.consume(Q)
        singly(client, messages(client, "first"))
        send(client, messages(client, *"abcdefgh"))
        return client.received(consumer)

    assert received(in_runs) == received(singly)


@pytest.mark.parametrize("persistent", [False, True])
def test_only_messages_that_need_no_store_are_accepted_together(
    make_broker: type[Broker], paged: PagedAdapter, persistent: bool
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()

    def mark(message: ActiveMQMessage) -> None:
        message.persistent = persistent

    counts = in_runs(client, messages(client, *"abc", b=mark, c=mark))
    assert counts == ([1, 1, 1] if persistent else [1, 2])


# acknowledgements
def acks_of(client: Client, consumer: Subscription, *texts: str) -> deque[MessageAck]:
    """Return an acknowledgement of each of these messages that a consumer got."""
    got = {present(d.message).type: d for d in client.dispatches_of(consumer)}
    acks: deque[MessageAck] = deque()
    for text in texts:
        message_id = present(got[text].message).message_id
        own = consumer.consumer_id
        acks.append(MessageAck(Q, None, own, AckType.STANDARD, message_id, message_id, 1))
    return acks


def acknowledge(client: Client, consumer: Subscription, acks: deque[MessageAck]) -> list[int]:
    """Apply them as the connector does; return how many were taken together each time."""
    counts = []
    exchange = ConsumerExchange(client.context, consumer)
    while acks:
        before, ack = len(acks), acks[0]
        try:
            client.broker.acknowledge_run(exchange, acks)
            if len(acks) == before:
                acks.popleft()
                client.broker.acknowledge(exchange, ack)
        except JMSException as error:
            client.errors.append(error)
        counts.append(before - len(acks))
    return counts


def test_acknowledgements_of_a_run_free_the_window_once(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q, prefetch=3)
    singly(client, messages(client, *"abcdefg"))
    assert acknowledge(client, consumer, acks_of(client, consumer, *"abc")) == [3]
    assert client.received(consumer) == list("abcdef")
    assert state(broker)[:5] == (7, 6, 3, 3, 4)
    assert (consumer.dequeue_count, consumer.in_flight) == (3, 3)


def one_by_one(client: Client, _: Subscription, acks: deque[MessageAck]) -> list[int]:
    for ack in acks:
        client.acknowledge(ack)
    return [1] * len(acks)


def test_senders_that_a_run_admits_do_not_overfill_the_window(make_broker: type[Broker]) -> None:
    def received(settle: Acknowledge) -> list[str | None]:
        broker = make_broker(PolicyEntry(memory_limit=6 * 1024))
        client = broker.client()
        consumer = client.consume(Q, prefetch=4)
        singly(client, messages(client, *"abcd"))
        client.ack(consumer, first=0, count=4, kind=AckType.DELIVERED)
        singly(client, messages(client, *"efghijkl"))
        assert len(client.context.blocked_sends) == 6
        settle(client, consumer, acks_of(client, consumer, *"abcd"))
        return client.received(consumer)

    assert received(acknowledge) == received(one_by_one)


def test_a_bad_acknowledgement_in_a_run_stops_only_itself(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q)
    singly(client, messages(client, *"abcdef"))
    acks = acks_of(client, consumer, *"abcdef")
    unknown = MessageId(None, client.producer_id, 999)
    acks[2].first_message_id = acks[2].last_message_id = unknown
    acks[4].first_message_id = acks[3].last_message_id  # a wrong count of messages
    counts = acknowledge(client, consumer, acks)
    assert counts == [2, 1, 1, 1, 1]
    assert len(client.errors) == 2
    assert broker.texts(Q) == list("ce")


def test_a_run_of_acknowledgements_ends_at_one_for_several_messages(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)
    singly(client, messages(client, *"abcde"))
    acks = acks_of(client, consumer, *"abde")
    acks[2].first_message_id = acks_of(client, consumer, "c")[0].last_message_id
    acks[2].message_count = 2
    assert acknowledge(client, consumer, acks) == [2, 1, 1]
    assert state(broker)[:5] == (5, 5, 0, 5, 0)
    assert client.errors == []


def test_acknowledgements_of_another_consumer_are_not_in_the_run(
    broker: Broker, client: Client
) -> None:
    first, second = client.consume(Q), client.consume(Q)
    singly(client, messages(client, *"abcd"))
    acks = acks_of(client, first, *client.received(first))  # type: ignore[arg-type]  # all have one
    others = acks_of(client, second, *client.received(second))  # type: ignore[arg-type]
    mixed = deque([*acks, *others])
    client.broker.acknowledge_run(ConsumerExchange(client.context, first), mixed)
    assert mixed == others
    assert (first.in_flight, second.in_flight) == (0, 2)


def test_a_store_that_refuses_one_of_a_run_leaves_it_with_the_consumer(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    for text in "abc":
        client.send(Q, text, persistent=text == "b")
    paged.broken.add("remove_message")
    acknowledge(client, consumer, acks_of(client, consumer, *"abc"))
    assert [str(error) for error in client.errors] == ["remove_message failed"]
    assert (consumer.in_flight, consumer.dequeue_count) == (1, 2)
    paged.broken.clear()
    client.close(consumer)
    assert client.received(client.consume(Q)) == ["b"]


def test_a_run_ends_at_an_acknowledgement_that_the_store_has_not_written(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    for text in "abc":
        client.send(Q, text, persistent=True)
    paged.answers_later = True
    acks = acks_of(client, consumer, *"abc")
    stored = client.broker.acknowledge_run(ConsumerExchange(client.context, consumer), acks)
    assert (stored.done, len(acks)) == (False, 2)
    paged.complete(JMSException("the disk is broken"))
    assert str(stored.error) == "the disk is broken"
    assert client.received(consumer) == list("abca")  # it comes again


async def test_the_time_of_acknowledgements_counts_where_slow_consumers_are_aborted(
    clock: ManualClock, make_broker: type[Broker]
) -> None:
    broker = make_broker(PolicyEntry(slow_consumer_strategy=AbortSlowAckConsumerStrategy()))
    client = broker.client()
    broker.queue(Q)
    consumer = client.consume(Q)
    singly(client, messages(client, *"ab"))
    await clock.advance(5)
    acknowledge(client, consumer, acks_of(client, consumer, *"ab"))
    assert consumer.last_ack_time == clock.now()


def test_acknowledgements_of_a_consumer_without_subscription_are_not_taken(client: Client) -> None:
    acks = deque([MessageAck(Q, None, NOBODY, AckType.STANDARD, None, None, 1)])
    exchange = ConsumerExchange(client.context, None)
    assert client.broker.acknowledge_run(exchange, acks) is COMPLETED
    assert len(acks) == 1
