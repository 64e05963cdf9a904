"""What every store does with the messages of queues."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.context import ConnectionContext
from broker.api.message import Position
from broker.store.api import StoreState
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import ConnectionId, LocalTransactionId, ProducerId


@pytest.mark.fact("activemq-persistence S2")
async def test_messages_are_kept_in_order_until_removed(opened: Any) -> None:
    store = opened.queue()
    assert opened.queue() is store
    references = await opened.send(store, 3, 1, 2)
    assert opened.texts(store) == ["3", "1", "2"]
    assert store.message_count == 3
    assert store.message_size == sum(r.size for r in references)
    await opened.remove(store, references[1], references[1])
    assert opened.texts(store) == ["3", "2"]
    assert store.message_size == references[0].size + references[2].size
    found = store.get_message(references[0].message_id)
    assert (found.position, found.message.type) == (references[0].position, "3")
    assert store.get_message(references[1].message_id) is None
    await opened.remove(store, references[0], references[2])
    assert (opened.texts(store), store.message_count, store.message_size) == ([], 0, 0)


async def test_a_message_comes_back_as_it_was(opened: Any) -> None:
    store = opened.queue()
    properties = {"colour": "red", "number": 7}
    (sent,) = await opened.send(store, 1, priority=7, properties=properties, body=b"\0\0\0\2hi")
    found = store.get_message(sent.message_id).message
    for name in ("content", "marshalled_properties", "priority", "type", "persistent"):
        assert getattr(found, name) == getattr(sent.message, name)
    assert found.message_id == sent.message_id
    assert found.message_id.broker_sequence_id == 101
    assert found.destination == Queue("Q")


async def test_what_was_not_shown_is_not_read(opened: Any) -> None:
    store = opened.queue()
    first, second = opened.reference(1), opened.reference(2)
    for reference in (first, second):
        await opened.done(store.add_message(ConnectionContext(), reference))
    assert opened.texts(store) == []
    assert store.message_count == 2
    store.mark_visible(second)
    assert opened.texts(store) == ["2"]
    store.mark_visible(first)
    assert opened.texts(store) == ["1", "2"]


@pytest.mark.fact("activemq-persistence S2")
async def test_pages_begin_behind_a_position_and_leave_out_what_they_are_told(opened: Any) -> None:
    store = opened.queue()
    references = await opened.send(store, *range(1, 11))
    positions = [r.position for r in references]
    assert positions == sorted(positions)
    assert opened.texts(store, 3) == ["1", "2", "3"]
    assert opened.texts(store, 3, positions[2]) == ["4", "5", "6"]
    assert opened.texts(store, 3, positions[2], {positions[3], positions[5]}) == ["5", "7", "8"]
    assert opened.texts(store, 5, positions[9]) == []
    await opened.remove(store, references[2])
    assert opened.texts(store, 2, positions[2]) == ["4", "5"]
    assert opened.texts(store, 0) == []


@pytest.mark.fact("activemq-persistence S6")
async def test_a_message_that_is_here_already_is_not_taken_again(opened: Any) -> None:
    store = opened.queue()
    (first,) = await opened.send(store, 1)
    again = opened.reference(1, text="again")
    await opened.done(store.add_message(ConnectionContext(), again))
    assert again.position is None
    assert (opened.texts(store), store.message_count) == (["1"], 1)
    await opened.remove(store, first)
    (later,) = await opened.send(store, 1, text="later")
    assert later.position.arrival == 2
    assert opened.texts(store) == ["later"]
    other = await opened.send(opened.queue("OTHER"), 1)
    assert other[0].position.arrival == 1


async def test_a_duplicate_id_counts_once_in_a_queue(opened: Any) -> None:
    store = opened.queue()
    (first,) = await opened.send(store, 1, properties={"_AMQ_DUPL_ID": "d"})
    for number in (2, 3):
        again = opened.reference(number, properties={"_AMQ_DUPL_ID": "d"})
        await opened.done(store.add_message(ConnectionContext(), again))
        assert again.position is None
        await opened.remove(store, first)
    assert store.message_count == 0
    await opened.send(store, 4, properties={"_AMQ_DUPL_ID": "e"})
    await opened.send(opened.queue("OTHER"), 5, properties={"_AMQ_DUPL_ID": "d"})


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_a_repeated_message_is_answered_when_the_first_is_safe(
    opened: Any, in_transaction: bool
) -> None:
    store, transactions = opened.queue(), opened.adapter.transaction_store()
    first, again = (opened.reference(n, properties={"_AMQ_DUPL_ID": "d"}) for n in (1, 2))
    answer = store.add_message(ConnectionContext(), first)
    if in_transaction:
        xid = LocalTransactionId(1, ConnectionId("ID:c"))
        context = ConnectionContext()
        context.transaction = SimpleNamespace(xid=xid)
        store.add_message(context, again)
        repeated = transactions.commit(xid, False)
    else:
        repeated = store.add_message(ConnectionContext(), again)
    assert (repeated is None or repeated.done) == (answer is None or answer.done)
    await opened.done(repeated)
    assert answer is None or answer.done
    assert again.position is None


async def test_duplicates_are_known_after_a_restart(kept: Any) -> None:
    store = kept.queue()
    (first, _) = await kept.send(store, 1, 2)
    (third,) = await kept.send(store, 3, properties={"_AMQ_DUPL_ID": "d"})
    await kept.remove(store, first, third)
    await kept.restart()
    store = kept.queue()
    for reference in (kept.reference(2), kept.reference(4, properties={"_AMQ_DUPL_ID": "d"})):
        await kept.done(store.add_message(ConnectionContext(), reference))
        assert reference.position is None
    assert kept.texts(store) == ["2"]


@pytest.mark.fact("activemq-persistence S2")
async def test_a_message_can_be_changed_in_its_place(opened: Any) -> None:
    store = opened.queue()
    first, _ = await opened.send(store, 1, 2)
    newer = opened.reference(1, text="newer", body=b"\0\0\0\2hi")
    await opened.done(store.update_message(newer))
    await opened.done(store.update_message(opened.reference(9)))
    assert opened.texts(store) == ["newer", "2"]
    assert store.message_count == 2
    assert store.get_message(first.message_id).position == first.position
    if opened.persistent:
        await opened.restart()
        assert opened.texts(opened.queue()) == ["newer", "2"]


@pytest.mark.fact("activemq-persistence S2")
async def test_priorities_order_a_prioritized_queue_only(opened: Any) -> None:
    plain, store = opened.queue("PLAIN"), opened.queue("P", prioritized=True)
    for number, priority in enumerate((4, 0, 9, 4, 5, 9), start=1):
        for each in (plain, store):
            (sent,) = await opened.send(each, number, priority=priority)
            level = 9 - priority if each is store else 0
            assert sent.position == Position(level, number)
    assert opened.texts(plain) == ["1", "2", "3", "4", "5", "6"]
    assert opened.texts(store) == ["3", "6", "5", "1", "4", "2"]
    assert opened.texts(store, 2, Position(0, 6)) == ["5", "1"]
    if opened.persistent:
        await opened.restart()
        store = opened.queue("P", prioritized=True)
        assert opened.texts(store) == ["3", "6", "5", "1", "4", "2"]


@pytest.mark.fact("activemq-persistence S4")
async def test_what_survives_a_restart(kept: Any) -> None:
    store, other = kept.queue(), kept.queue("OTHER")
    kept.queue("EMPTY")
    references = await kept.send(store, 1, 2, 3)
    await kept.send(other, 1)
    await kept.remove(store, references[1])
    sizes = store.message_size, other.message_size
    await kept.restart()
    assert kept.adapter.destinations() == {Queue("Q"), Queue("OTHER"), Queue("EMPTY")}
    store = kept.queue()
    assert kept.texts(store) == ["1", "3"]
    assert kept.texts(kept.queue("OTHER")) == ["1"]
    assert store.message_count == 2
    assert (store.message_size, kept.queue("OTHER").message_size) == sizes
    await kept.restart()
    assert kept.texts(kept.queue()) == ["1", "3"]


async def test_nothing_survives_in_memory(volatile: Any) -> None:
    await volatile.send(volatile.queue(), 1)
    await volatile.restart()
    assert volatile.texts(volatile.queue()) == []


async def test_numbers_go_on_and_are_never_used_twice(opened: Any) -> None:
    store = opened.queue()
    assert store.last_arrival == 0
    references = await opened.send(store, 1, 2, 3)
    assert [r.position.arrival for r in references] == [1, 2, 3]
    await opened.remove(store, *references)
    epoch = store.epoch
    if opened.persistent:
        await opened.restart()
        store = opened.queue()
        assert store.epoch == epoch
    assert store.last_arrival == 3
    (fourth,) = await opened.send(store, 4)
    assert fourth.position.arrival == 4
    await opened.done(store.remove_all_messages(ConnectionContext()))
    (fifth,) = await opened.send(store, 5)
    assert (fifth.position.arrival, store.epoch) == (5, epoch)


@pytest.mark.fact("activemq-persistence S2")
async def test_all_messages_can_be_removed(opened: Any) -> None:
    store = opened.queue()
    await opened.send(store, 1, 2, properties=None)
    await opened.send(store, 3, properties={"_AMQ_DUPL_ID": "d"})
    await opened.done(store.remove_all_messages(ConnectionContext()))
    await opened.done(store.remove_all_messages(ConnectionContext()))
    assert (opened.texts(store), store.message_count, store.message_size) == ([], 0, 0)
    await opened.send(store, 4)
    again = opened.reference(5, properties={"_AMQ_DUPL_ID": "d"})
    await opened.done(store.add_message(ConnectionContext(), again))
    assert again.position is None
    if opened.persistent:
        await opened.restart()
        assert opened.texts(opened.queue()) == ["4"]


async def test_destinations_come_and_go(opened: Any) -> None:
    adapter = opened.adapter
    assert adapter.destinations() == set()
    await opened.send(opened.queue(), 1)
    adapter.topic_message_store(Topic("T"))
    assert adapter.destinations() == {Queue("Q"), Topic("T")}
    adapter.remove_message_store(Queue("Q"))
    adapter.remove_message_store(Queue("Q"))
    assert adapter.destinations() == {Topic("T")}
    assert opened.queue().message_count == 0
    await opened.send(opened.queue(), 2)
    if opened.persistent:
        await opened.restart()
        assert opened.adapter.destinations() == {Queue("Q"), Topic("T")}
        assert opened.texts(opened.queue()) == ["2"]
    assert opened.adapter.size >= 0
    assert opened.adapter.state is StoreState.RUNNING


async def test_the_highest_sequence_numbers(opened: Any) -> None:
    adapter = opened.adapter
    other = ProducerId("ID:host-1", 2, 1)
    assert adapter.last_broker_sequence_id == 0
    assert adapter.last_producer_sequence_id(other) == -1
    store = opened.queue()
    references = await opened.send(store, 7, 3)
    references += await opened.send(store, 5, producer=other)
    await opened.remove(store, *references)
    if opened.persistent:
        await opened.restart()
        adapter = opened.adapter
        assert adapter.last_producer_sequence_id(other) == 5
        assert adapter.last_producer_sequence_id(references[0].message.producer_id) == 7
    assert adapter.last_broker_sequence_id == 107
    assert adapter.last_producer_sequence_id(ProducerId("none", 1, 1)) == -1


async def test_a_checkpoint_changes_nothing(opened: Any) -> None:
    store = opened.queue()
    references = await opened.send(store, *range(1, 301), body=bytes(1000))
    await opened.remove(store, *references[:290])
    hidden = opened.reference(301)
    await opened.done(store.add_message(ConnectionContext(), hidden))
    await opened.adapter.checkpoint()
    expected = [str(n) for n in range(291, 301)]
    assert opened.texts(store) == expected
    store.mark_visible(hidden)
    assert opened.texts(store) == [*expected, "301"]
    assert store.message_count == 11
    await opened.adapter.checkpoint()
    if opened.persistent:
        await opened.restart()
        store = opened.queue()
        assert opened.texts(store) == [*expected, "301"]
        assert [m.position.arrival for m in store.next_messages(None, 2)] == [291, 292]


async def test_it_can_be_stopped_twice_and_emptied(opened: Any) -> None:
    await opened.send(opened.queue(), 1)
    await opened.adapter.stop()
    await opened.adapter.stop()
    opened.adapter = opened.make()
    await opened.adapter.delete_all_messages()
    await opened.adapter.start()
    assert opened.adapter.destinations() == set()
    assert opened.adapter.last_broker_sequence_id == 0
    assert opened.texts(opened.queue()) == []
