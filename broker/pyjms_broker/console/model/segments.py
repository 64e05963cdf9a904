"""Journal files of the store, and the reasons why they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pyjms_broker.console.model.rows import KeeperRow, SegmentRow
from pyjms_broker.management.host import ManagementContext

__all__ = ["kept_segments"]

_MOST: Final = 50


def kept_segments(context: ManagementContext) -> list[SegmentRow] | None:
    """Return the oldest journal files with the reasons; None if the store has no journal."""
    store: object = context.host.system_usage.store.store
    one: Callable[[], Sequence[Any]] | None = getattr(store, "segment_report", None)
    if one is not None:
        reports = {"": one()}
    else:  # mKahaDB: a store for each filter or destination
        several: Callable[[], dict[str, Sequence[Any]]] | None = getattr(
            store, "segment_reports", None
        )
        if several is None:
            return None
        reports = {f"{folder}/": each for folder, each in several().items()}
    kept = [
        (folder, each) for folder, found in sorted(reports.items()) for each in found if each.needed
    ]
    kept.sort(key=lambda each: each[1].current)  # files being written come last
    return [
        SegmentRow(f"{folder}db-{each.file_id}.log", tuple(_reasons(each)), tuple(_keepers(each)))
        for folder, each in kept[:_MOST]
    ]


def _keepers(report: Any) -> Iterator[KeeperRow]:
    for each in report.keepers:
        name = each.destination.physical_name
        yield KeeperRow(name, each.destination.is_topic, each.messages, each.oldest)


def _reasons(report: Any) -> Iterator[str]:
    if report.current:
        yield "it is being written"
    if report.messages:
        yield f"{report.messages:,} messages in it have not been consumed"
    for name in report.subscriptions[:5]:
        yield f"it has the record of the durable subscription {name}"
    if report.transactions:
        yield "a transaction that is still open began in it"
    for other in report.refers_to[:5]:
        yield f"it has the acknowledgements of messages in db-{other}.log"
