"""The trail of messages: what happened to each message of the chosen destinations, in files.

Events are kept in memory as they happen, unformatted, and written by a thread twice a second, so
that a send costs little more. A line has the time in ms, the event, the destination, the id of the
message, its correlation id, who or what else, and the trace id of OpenTelemetry, separated by tabs.
Neither bodies nor properties are written; of `traceparent` only the trace id.

A file is closed when it is a tenth of the maximum size or of the retention; the oldest are removed
when all exceed one of them. The trail is no journal: after a crash its last half second is missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import anyio.to_thread

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.wildcard import matches

logger = get_logger(__name__)

_INTERVAL: Final = 0.5
"""Seconds between two writes."""
_MOST_KEPT: Final = 200_000
"""The maximum number of events in memory; further ones are counted and lost."""
_PARTS: Final = 10
_LONGEST: Final = 300
"""The maximum number of characters of a field."""
MOST_FOUND: Final = 1000
"""The maximum number of events that a search returns."""
FIELDS: Final = ("time", "event", "destination", "id", "correlation", "details", "trace")
_TRACE: Final = re.compile(rb"traceparent\x09\x007[0-9a-f]{2}-([0-9a-f]{32})-")
"""The property `traceparent` of W3C as OpenWire marshals it, with the trace id."""

_Event: TypeAlias = tuple[
    int, str, Destination, MessageId, str | None, tuple[object, ...], re.Match[bytes] | None
]
"""Time, event, destination, message, correlation id, details and the match of the trace id."""


class MessageTrail:
    """The trail of one broker. Events are recorded on its loop; use it there.

    Args:
        directory: where the files are.
        patterns: names or patterns of the destinations.
        retention: seconds for which events are kept.
        maximum_size: bytes of all files.
        trace_url: the URL of a trace, with `{trace_id}`; empty: none.
    """

    def __init__(
        self,
        directory: Path,
        patterns: Iterable[Destination],
        retention: float,
        maximum_size: int,
        trace_url: str = "",
    ) -> None:
        self.directory = directory
        self.trace_url = trace_url
        self._patterns = tuple(patterns)
        self._retention = retention
        self._maximum_size = maximum_size
        self._events: list[_Event] = []
        self._lost = 0
        self._task: event_loop.BackgroundTask | None = None
        self._file: Path | None = None
        self._has_failed = False

    def includes(self, destination: Destination) -> bool:
        """Return whether the events of a destination are recorded."""
        return any(matches(each, destination) for each in self._patterns)

    # events
    def on_sent(self, reference: MessageReference) -> None:
        """Record a message that has become visible."""
        message = reference.cached or reference.message
        marshalled = message.marshalled_properties
        trace = None
        if marshalled is not None and b"traceparent" in marshalled:
            trace = _TRACE.search(marshalled)
        producer = "by", message.producer_id
        self._add(message.broker_in_time, "sent", reference, producer, trace)

    def on_dispatched(self, reference: MessageReference, subscription: Subscription) -> None:
        """Record a message that was sent to a consumer, or to another broker by a bridge."""
        event = "dispatched"
        if subscription.info.network_subscription:
            event = "forwarded"
        elif reference.redelivery_counter:
            event = "redelivered"
        context = subscription.context
        details = "to", subscription.consumer_id, "of", context.client_id, context.user_name or ""
        self._add(_clock.time_ms(), event, reference, details, None)

    def on_acknowledged(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Record a message that a client has acknowledged."""
        details = "by", context.client_id, context.user_name or ""
        self._add(_clock.time_ms(), "acknowledged", reference, details, None)

    def on_event(self, event: str, reference: MessageReference, *details: object) -> None:
        """Record another event of a message."""
        self._add(_clock.time_ms(), event, reference, details, None)

    def _add(
        self,
        time: int,
        event: str,
        reference: MessageReference,
        details: tuple[object, ...],
        trace: re.Match[bytes] | None,
    ) -> None:
        if len(self._events) >= _MOST_KEPT:
            self._lost += 1
            return
        message = reference.cached
        correlation = None if message is None else message.correlation_id
        where = reference.destination.destination
        self._events.append((time, event, where, reference.message_id, correlation, details, trace))

    # files
    async def start(self) -> None:
        """Create the directory, and begin to write.

        Raises:
            OSError: the directory cannot be created.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._task = event_loop.spawn(self._run, name=f"message trail in {self.directory}")

    async def stop(self) -> None:
        """Write what was recorded, and end. Idempotent."""
        task, self._task = self._task, None
        await event_loop.end_tasks(task)
        await self.flush()

    async def _run(self) -> None:
        while True:
            await _clock.sleep(_INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Write what was recorded."""
        events, self._events = self._events, []
        lost, self._lost = self._lost, 0
        if lost:
            logger.warning("The message trail has lost %d events: they came too fast", lost)
        if events:
            await anyio.to_thread.run_sync(partial(self._write, events))

    def _write(self, events: list[_Event]) -> None:
        texts = _Texts()
        lines = "".join(map(texts.line, events)).encode("utf-8", "backslashreplace")
        try:
            file = self._current_file()
            descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, lines)
            finally:
                os.close(descriptor)
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                logger.error("The message trail in %s cannot be written: %s", self.directory, error)
            self._has_failed = True

    def _current_file(self) -> Path:
        now = _clock.time_ms()
        file = self._file
        if file is not None and file.exists():
            is_young = now - int(file.stem.partition("-")[2]) < self._retention * 1000 / _PARTS
            if is_young and file.stat().st_size < self._maximum_size / _PARTS:
                return file
        self._remove_old(now)
        self._file = self.directory / f"trail-{now}.log"
        return self._file

    def _remove_old(self, now: int) -> None:
        left = self._maximum_size - self._maximum_size // _PARTS
        for file in sorted(self.files(), reverse=True):
            status = file.stat()
            left -= status.st_size
            if left < 0 or now / 1000 - status.st_mtime > self._retention:
                file.unlink(missing_ok=True)

    def files(self) -> list[Path]:
        """Return the files, the oldest first."""
        return sorted(self.directory.glob("trail-*.log"))

    # reading
    async def find(self, message_id: str = "", correlation_id: str = "") -> list[dict[str, str]]:
        """Return the events of a message, or of those with a correlation id. Cancellable.

        They are in order, at most `MOST_FOUND`, with the keys `FIELDS`.
        """
        await self.flush()
        column, wanted = (3, message_id) if message_id else (4, correlation_id)
        find = partial(self._find, column, _clean(wanted))
        return await anyio.to_thread.run_sync(find, abandon_on_cancel=True)

    def _find(self, column: int, wanted: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        needle = f"\t{wanted}\t".encode("utf-8", "backslashreplace")
        for file in self.files():
            for line in _lines_with(file, needle):
                values = line.split("\t")
                if len(values) == len(FIELDS) and values[column] == wanted:
                    found.append(dict(zip(FIELDS, values, strict=True)))
                if len(found) >= MOST_FOUND:
                    break
        return sorted(found, key=_order_of)


def _order_of(event: dict[str, str]) -> tuple[str, bool]:
    """Order by time; a message is dispatched before it counts as sent, in the same ms or later."""
    return event["time"].rjust(20), event["event"] != "sent"


def _lines_with(file: Path, needle: bytes) -> Iterator[str]:
    try:
        with file.open("rb") as opened:
            for line in opened:
                if needle in line:
                    yield line.decode("utf-8", "replace").rstrip("\n")
    except FileNotFoundError:  # it was removed meanwhile
        return


class _Texts:
    """The texts of destinations, ids and clients, each made once a batch, by the object's `id`."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def of(self, value: object) -> str:
        """Return the text of a value that lives as long as this object."""
        key = id(value)
        text = self._known.get(key)
        if text is None:
            shown = value.qualified_name if isinstance(value, Destination) else str(value)
            text = self._known[key] = _clean(shown)
        return text

    def of_message(self, message_id: MessageId) -> str:
        """Return the text of a message id, whose producer sends others, too."""
        producer_id = message_id.producer_id
        if message_id.text_view is not None or producer_id is None:
            return _clean(str(message_id))
        return f"{self.of(producer_id)}:{message_id.producer_sequence_id}"

    def line(self, event: _Event) -> str:
        """Return the line of an event."""
        time, what, destination, message_id, correlation, details, trace = event
        if len(details) == 2 and details[1] is not None:
            shown = f"{details[0]} {self.of(details[1])}"
        else:
            shown = " ".join([self.of(each) for each in details if each is not None and each != ""])
        of = "" if correlation is None else _clean(correlation)
        trace_id = "" if trace is None else trace[1].decode("ascii")
        own = self.of_message(message_id)
        return f"{time}\t{what}\t{self.of(destination)}\t{own}\t{of}\t{shown}\t{trace_id}\n"


def _clean(text: str) -> str:
    """Return a field without what would end it."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else "?" for each in text)
    return text[:_LONGEST]
