"""The destinations whose messages keep journal segments, and each one's oldest message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyjms.wire.kahadb.frames import from_kaha_destination
from pyjms_broker.store.kahadb.index import StoreIndex
from pyjms_broker.store.kahadb.index.destination import DestinationIndex
from pyjms_broker.store.kahadb.maintenance.cleanup import SegmentKeeper, SegmentReport

__all__ = ["with_keepers"]

_SEGMENTS: Final = 50
"""The number of segments examined: the oldest ones, which matter when a disk is full."""
_DESTINATIONS: Final = 5
"""The maximum number of destinations listed for each segment."""
_EXAMINED: Final = 1000
"""The number of a destination's messages searched for the oldest one in a segment."""


def with_keepers(index: StoreIndex, reports: Iterable[SegmentReport]) -> list[SegmentReport]:
    """Add to the reports of the oldest segments the destinations with the most messages."""
    found = list(reports)
    needed = [report.file_id for report in found if report.messages][:_SEGMENTS]
    by_segment: dict[int, list[DestinationIndex]] = {file_id: [] for file_id in needed}
    for destination in index.destinations():
        for file_id in by_segment.keys() & destination.files.keys():
            by_segment[file_id].append(destination)
    firsts: dict[int, dict[int, str]] = {}
    return [
        report._replace(keepers=_keepers(report.file_id, by_segment[report.file_id], firsts))
        if report.file_id in by_segment
        else report
        for report in found
    ]


def _keepers(
    file_id: int, destinations: list[DestinationIndex], firsts: dict[int, dict[int, str]]
) -> list[SegmentKeeper]:
    destinations.sort(key=lambda each: (-each.files[file_id], each.destination.name))
    keepers = []
    for each in destinations[:_DESTINATIONS]:
        if each.number not in firsts:
            firsts[each.number] = _firsts(each)
        name = from_kaha_destination(each.destination)
        oldest = firsts[each.number].get(file_id)
        keepers.append(SegmentKeeper(name, each.files[file_id], oldest))
    return keepers


def _firsts(destination: DestinationIndex) -> dict[int, str]:
    """Return the first message in each segment, from the destination's first messages."""
    found: dict[int, str] = {}
    for entry in destination.page(None, _EXAMINED):
        found.setdefault(entry.file_id, entry.message_id)
    return found
