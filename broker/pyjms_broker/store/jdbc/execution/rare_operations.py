"""The rare operations, one function each; `RARE_OPERATIONS` maps an operation's class to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyjms_broker.store.jdbc.execution import operations
from pyjms_broker.store.jdbc.execution.batch import (
    JOURNAL_MARK,
    LAST_DESTINATION,
    BatchExecution,
    subscription_columns,
    subscription_parameters,
)
from pyjms_broker.store.jdbc.schema.numbering import destination_number
from pyjms_broker.store.jdbc.schema.tables import SUBSCRIPTION_PRIORITY

__all__ = ["RARE_OPERATIONS"]

_PRIORITIES: Final = range(10)


def _update(x: BatchExecution, op: operations.UpdateMessage) -> None:
    x.run(x.statements.update_message, row_id=op.id, msg=op.frame, expiration=op.expiration)


def _remove_topic_message(x: BatchExecution, op: operations.RemoveTopicMessage) -> None:
    s = x.statements
    keys = x.run(s.keys_of_container, at=op.container).all()
    for key in {
        operations.SubscriberKey(op.container, row.client_id, row.sub_name) for row in keys
    }:
        if (
            x.run(s.pending_of[op.prioritized], ids=[op.id], **subscription_parameters(key)).first()
            is not None
        ):
            x.outcome.not_acknowledged.append((key, -1))
    live = x.run(s.live_of[op.prioritized], ids=[op.id]).scalar() is not None
    x.run(s.delete_messages, ids=[op.id], at=op.container)
    x.run(s.delete_acked_message, row_id=op.id, at=op.container)
    if live:
        x.count(op.container, -1, -op.size)
    else:
        x.outcome.not_removed.append((op.container, 1, op.size))


def _remove_all(x: BatchExecution, op: operations.RemoveAll) -> None:
    x.write_counts()
    x.run(x.statements.delete_all, at=op.container, after=op.up_to)
    x.run(x.statements.delete_acked_up_to, at=op.container, after=op.up_to)
    x.run(x.statements.set_destination, where_container=op.container, count=0, bytes=0)


def _add_container(x: BatchExecution, op: operations.AddContainer) -> None:
    s = x.statements
    if x.run(s.destination_row, at=op.container).first() is None:
        x.run(
            s.insert_destination,
            container=op.container,
            epoch=op.epoch,
            last_id=op.base,
            msg_count=0,
            msg_size=0,
        )
    x.raise_state(LAST_DESTINATION, destination_number(op.base))


def _remove_container(x: BatchExecution, op: operations.RemoveContainer) -> None:
    x.write_counts()
    x.run(x.statements.delete_container, at=op.container)
    for statement in x.statements.forget_container:
        x.run(statement, at=op.container)


def _add_subscription(x: BatchExecution, op: operations.AddSubscription) -> None:
    s, mine = x.statements, subscription_columns(op.key)
    for statement in s.delete_subscription:
        x.run(statement, **subscription_parameters(op.key))
    if op.retroactive:
        # messages acknowledged by all subscriptions must not count, though their rows may exist
        x.run(s.delete_dead[op.prioritized], at=op.container)
    x.run_many(
        s.insert_acks,
        [
            {
                **mine,
                "sub_dest": op.destination,
                "selector": op.selector,
                "last_acked_id": op.start,
                "priority": priority,
                "xid": None,
            }
            for priority in (_PRIORITIES if op.prioritized else (SUBSCRIPTION_PRIORITY,))
        ],
    )
    if op.no_local:
        x.run(s.insert_no_local, **mine)
    count = x.run(s.rows_behind, at=op.container, after=op.start).scalar()
    x.outcome.subscribed.append((op.key, count))


def _remove_subscription(x: BatchExecution, op: operations.RemoveSubscription) -> None:
    s = x.statements
    x.write_counts()
    for statement in s.delete_subscription:
        x.run(statement, **subscription_parameters(op.key))
    x.run(s.delete_dead[op.prioritized], at=op.container)
    row = x.run(s.destination_row, at=op.container).first()
    if row is None:
        return
    left = x.run(s.row_count, at=op.container).scalar()
    dropped = row.msg_count - left
    size = row.msg_size * left // row.msg_count if row.msg_count else 0
    x.run(s.set_destination, where_container=op.container, count=left, bytes=size)
    x.outcome.dropped.append((op.container, dropped))


def _set_prioritized(x: BatchExecution, op: operations.SetPrioritized) -> None:
    priorities: dict[operations.SubscriberKey, list[int]] = {}
    for row in x.run(x.statements.keys_of_container, at=op.container):
        key = operations.SubscriberKey(op.container, row.client_id, row.sub_name)
        priorities.setdefault(key, []).append(row.priority)
    for key, found in priorities.items():
        if op.prioritized and len(found) == 1:
            _split(x, key)
        elif not op.prioritized and len(found) > 1:
            _join(x, key)


def _values(row: Any) -> dict[str, Any]:
    names = ("sub_dest", "selector", "last_acked_id", "priority")
    return {name: getattr(row, name) for name in names}


def _split(x: BatchExecution, key: operations.SubscriberKey) -> None:
    """Replace a subscription's row by one per priority, all with the same mark."""
    row = _values(x.run(x.statements.acks_rows, **subscription_parameters(key)).one())
    x.run_many(
        x.statements.insert_acks,
        [
            {**subscription_columns(key), **row, "priority": priority, "xid": None}
            for priority in _PRIORITIES
            if priority != row["priority"]
        ],
    )


def _join(x: BatchExecution, key: operations.SubscriberKey) -> None:
    """Replace the rows per priority by one with the lowest mark; list acks beyond it singly."""
    s, mine = x.statements, subscription_columns(key)
    rows = [_values(row) for row in x.run(s.acks_rows, **subscription_parameters(key))]
    lowest = min(row["last_acked_id"] for row in rows)
    for row in rows:
        past = x.run(
            s.past_single_mark,
            at=key.container,
            after=lowest,
            mark=row["last_acked_id"],
            level=row["priority"],
        )
        x.run_many(
            s.insert_acked,
            [{**mine, "id": p.id, "priority": p.priority, "xid": None} for p in past],
        )
    x.run(s.delete_subscription[0], **subscription_parameters(key))
    single = {"last_acked_id": lowest, "priority": SUBSCRIPTION_PRIORITY, "xid": None}
    x.run(s.insert_acks, **{**mine, **rows[0], **single})


def _prepare_add(x: BatchExecution, op: operations.PrepareAdd) -> None:
    x.add([op.message], [op.xid])


def _prepare_remove(x: BatchExecution, op: operations.PrepareRemove) -> None:
    x.run(x.statements.set_xid, row_id=op.id, new_xid=op.xid)


def _prepare_acknowledgement(x: BatchExecution, op: operations.PrepareAcknowledgement) -> None:
    ack = op.acknowledgement
    x.run(
        x.statements.insert_acked,
        **subscription_columns(ack.key),
        id=ack.id,
        priority=ack.priority,
        xid=op.xid,
    )


def _commit_add(x: BatchExecution, op: operations.CommitAdd) -> None:
    x.run(x.statements.commit_add, row_id=op.prepared_id, new_id=op.message.id)
    x.count_added(op.message)


def _commit_acknowledgement(x: BatchExecution, op: operations.CommitAcknowledgement) -> None:
    ack = op.acknowledgement
    x.run(x.statements.forget_prepared, row_id=ack.id, **subscription_parameters(ack.key))
    x.acknowledge(ack.key, [ack])


def _rollback_add(x: BatchExecution, op: operations.RollbackAdd) -> None:
    x.run(x.statements.rollback_add, row_id=op.id)


def _rollback_remove(x: BatchExecution, op: operations.RollbackRemove) -> None:
    x.run(x.statements.set_xid, row_id=op.id, new_xid=None)


def _rollback_acknowledgement(x: BatchExecution, op: operations.RollbackAcknowledgement) -> None:
    ack = op.acknowledgement
    x.run(x.statements.forget_prepared, row_id=ack.id, **subscription_parameters(ack.key))


def _clean_up(x: BatchExecution, op: operations.CleanUp) -> None:
    """Delete rows by comparing marks, reading only those that are deleted, in order."""
    s = x.statements
    marks = x.run(s.lowest_marks, at=op.container).all()
    found: list[int] = []
    if not op.prioritized and marks:
        after = min(mark for _, mark in marks)
        page = x.run(s.past[False], at=op.container, after=after, limit=op.limit)
        found += page.scalars()
    elif op.prioritized:
        for level, after in marks:
            page = x.run(s.past[True], at=op.container, after=after, level=level, limit=op.limit)
            found += page.scalars()
    for chunk in x.chunks(found):
        x.run(s.delete_messages, ids=list(chunk), at=op.container)
    x.outcome.cleaned.append((op.container, len(found)))


def _trim_duplicates(x: BatchExecution, op: operations.TrimDuplicates) -> None:
    x.run(x.statements.trim_duplicates, at=op.container, after=op.up_to)


def _trim_producers(x: BatchExecution, op: operations.TrimProducers) -> None:
    s = x.statements
    last = x.run(s.producer_use, skip=op.keep).scalar()
    if last is not None:
        x.run(s.forget_producers, until=last)


def _note_message(x: BatchExecution, op: operations.NoteMessage) -> None:
    x.count(op.container, 0, 0, op.id)
    x.note(op)
    if op.freed is not None:
        x.outcome.freed.append((op.container, op.freed))


def _journal_mark(x: BatchExecution, op: operations.JournalMark) -> None:
    x.raise_state(JOURNAL_MARK, op.place)


RARE_OPERATIONS: Final[dict[type, Callable[[BatchExecution, Any], None]]] = {
    operations.UpdateMessage: _update,
    operations.RemoveTopicMessage: _remove_topic_message,
    operations.RemoveAll: _remove_all,
    operations.AddContainer: _add_container,
    operations.RemoveContainer: _remove_container,
    operations.AddSubscription: _add_subscription,
    operations.RemoveSubscription: _remove_subscription,
    operations.SetPrioritized: _set_prioritized,
    operations.PrepareAdd: _prepare_add,
    operations.PrepareRemove: _prepare_remove,
    operations.PrepareAcknowledgement: _prepare_acknowledgement,
    operations.CommitAdd: _commit_add,
    operations.CommitAcknowledgement: _commit_acknowledgement,
    operations.RollbackAdd: _rollback_add,
    operations.RollbackRemove: _rollback_remove,
    operations.RollbackAcknowledgement: _rollback_acknowledgement,
    operations.CleanUp: _clean_up,
    operations.TrimDuplicates: _trim_duplicates,
    operations.TrimProducers: _trim_producers,
    operations.NoteMessage: _note_message,
    operations.JournalMark: _journal_mark,
}
