"""The screen of `pyjms broker top`. Requires textual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static
from textual.worker import get_current_worker

from pyjms.cli.terminal import safe_text
from pyjms.errors import JMSException
from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms.runtime import clock as _clock
from pyjms_broker.cli.management.client import Attributes, JolokiaClient, brokers, pattern
from pyjms_broker.management.counters import DestinationCounters
from pyjms_broker.management.object_name import ObjectName

_BROKER: Final = (
    *("BrokerName", "BrokerVersion", "Uptime", "CurrentConnectionsCount", "TotalMessageCount"),
    *("MemoryPercentUsage", "StorePercentUsage", "TempPercentUsage"),
)
_DESTINATION: Final = (
    *("Name", "QueueSize", "InFlightCount", "ConsumerCount", "ProducerCount"),
    *("EnqueueCount", "DequeueCount", "MemoryPercentUsage"),
)
_CONSUMER: Final = (
    *("ClientId", "DispatchedQueueSize", "PendingQueueSize", "PrefetchSize"),
    *("DequeueCounter", "SlowConsumer", "Selector"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationRow(DestinationCounters):
    """A queue or a topic.

    Args:
        view: the name of the management view.
        kind: `queue` or `topic`.
        enqueue_rate: messages per second since the previous sample; None in the first.
    """

    view: str
    name: str
    kind: str
    memory: int
    enqueue_rate: float | None
    dequeue_rate: float | None


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """A consumer or a durable subscription of a destination."""

    client_id: str
    in_flight: int
    pending: int
    prefetch: int
    dequeued: int
    is_slow: bool
    selector: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of a broker at one time."""

    broker: Attributes
    destinations: tuple[DestinationRow, ...]
    consumers: tuple[ConsumerRow, ...]
    """The consumers of the requested destination."""

    def rate(self, attribute: str) -> float | None:
        """Return the sum of a rate over all destinations; None in the first sample."""
        found = [getattr(row, attribute) for row in self.destinations]
        known = [each for each in found if each is not None]
        return sum(known) if known else None


class Sampler:
    """Reads samples of the first broker at a URL. Blocking; not thread-safe.

    Args:
        client: access to the broker.
        now: returns monotonic seconds.
    """

    def __init__(self, client: JolokiaClient, now: Callable[[], float] = _clock.now) -> None:
        self._client = client
        self._now = now
        self._counters: dict[str, tuple[int, int]] = {}
        self._time: float | None = None

    @property
    def url(self) -> str:
        """The broker's URL."""
        return self._client.url

    def sample(self, consumers_of: str | None = None) -> Sample:
        """Read the counters, and the consumers of the destination with the given view.

        Raises:
            JMSException: the broker cannot be reached, or refuses the request.
        """
        view, broker = next(iter(brokers(self._client, *_BROKER).items()))
        name = ObjectName(view).keys["brokerName"]
        now = self._now()
        seconds = None if self._time is None else now - self._time
        rows = tuple(self._destinations(name, seconds))
        self._time = now
        self._counters = {row.view: (row.enqueued, row.dequeued) for row in rows}
        consumers = () if consumers_of is None else tuple(self._consumers(consumers_of))
        return Sample(broker, rows, consumers)

    def _destinations(self, broker: str, seconds: float | None) -> Iterator[DestinationRow]:
        for kind in ("Queue", "Topic"):
            wanted = pattern(brokerName=broker, destinationType=kind, destinationName="*")
            for view, values in self._client.read_all(wanted, *_DESTINATION).items():
                if not str(values.get("Name")).startswith(ADVISORY_PREFIX):
                    yield self._row(view, kind.lower(), values, seconds)

    def _row(
        self, view: str, kind: str, values: Attributes, seconds: float | None
    ) -> DestinationRow:
        enqueued, dequeued = number(values, "EnqueueCount"), number(values, "DequeueCount")
        before = self._counters.get(view, (0, 0))  # a new destination started at 0
        return DestinationRow(
            view=view,
            name=str(values.get("Name")),
            kind=kind,
            pending=number(values, "QueueSize"),
            in_flight=number(values, "InFlightCount"),
            consumers=number(values, "ConsumerCount"),
            producers=number(values, "ProducerCount"),
            enqueued=enqueued,
            dequeued=dequeued,
            memory=number(values, "MemoryPercentUsage"),
            enqueue_rate=_rate(enqueued - before[0], seconds),
            dequeue_rate=_rate(dequeued - before[1], seconds),
        )

    def _consumers(self, view: str) -> Iterator[ConsumerRow]:
        wanted = f"{view},endpoint=Consumer,clientId=*,consumerId=*"
        for values in self._client.read_all(wanted, *_CONSUMER).values():
            yield ConsumerRow(
                str(values.get("ClientId") or ""),
                number(values, "DispatchedQueueSize"),
                number(values, "PendingQueueSize"),
                number(values, "PrefetchSize"),
                number(values, "DequeueCounter"),
                bool(values.get("SlowConsumer")),
                str(values.get("Selector") or ""),
            )


def number(values: Mapping[str, object], attribute: str) -> int:
    """Return a numeric attribute; 0 if the broker does not have it."""
    found = values.get(attribute)
    return found if isinstance(found, int) else 0


def _rate(more: int, seconds: float | None) -> float | None:
    """Return the rate per second; a counter that was reset starts at 0."""
    if not seconds:
        return None
    return max(more, 0) / seconds


MOST: Final = 500
"""Maximum number of destinations shown."""
COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("Name", "name"),
    ("Type", "kind"),
    ("Pending", "pending"),
    ("In flight", "in_flight"),
    ("Consumers", "consumers"),
    ("Producers", "producers"),
    ("In/s", "enqueue_rate"),
    ("Out/s", "dequeue_rate"),
    ("Enqueued", "enqueued"),
    ("Dequeued", "dequeued"),
    ("Memory %", "memory"),
)
"""The titles of the columns, with the fields of a row that they show."""
CONSUMER_COLUMNS: Final = (
    *("Client ID", "In flight", "Pending", "Prefetch", "Dequeued", "Slow", "Selector"),
)
_KINDS: Final = ("all", "queue", "topic")
_TEXTS: Final = ("name", "kind")


@dataclass(frozen=True, slots=True)
class Choice:
    """The selected destinations and their order."""

    column: int = 2
    descending: bool = True
    kind: str = "all"
    text: str = ""
    """Part of the name, case-insensitive."""

    def sorted_by_next(self) -> Choice:
        """Return this choice sorted by the next column: texts ascending, numbers descending."""
        column = (self.column + 1) % len(COLUMNS)
        return replace(self, column=column, descending=COLUMNS[column][1] not in _TEXTS)

    def in_reverse(self) -> Choice:
        """Return this choice in reverse order."""
        return replace(self, descending=not self.descending)

    def of_next_kind(self) -> Choice:
        """Return this choice with the next kind: all destinations, queues, topics."""
        return replace(self, kind=_KINDS[(_KINDS.index(self.kind) + 1) % len(_KINDS)])

    def matching(self, text: str) -> Choice:
        """Return this choice with only destinations whose names contain the text."""
        return replace(self, text=text)

    def of(self, rows: Sequence[DestinationRow]) -> list[DestinationRow]:
        """Return the selected rows, sorted; rows with equal values by name."""
        wanted = self.text.lower()
        found = [
            row
            for row in rows
            if self.kind in ("all", row.kind) and (not wanted or wanted in row.name.lower())
        ]
        found.sort(key=lambda row: (row.name, row.kind))
        found.sort(key=_value(COLUMNS[self.column][1]), reverse=self.descending)
        return found

    def __str__(self) -> str:
        shown = {"all": "queues and topics", "queue": "queues", "topic": "topics"}[self.kind]
        order = "descending" if self.descending else "ascending"
        about = f" with {self.text!r} in their names" if self.text else ""
        return f"{shown}{about}, by {COLUMNS[self.column][0]} {order}"


def _value(field: str) -> Callable[[DestinationRow], Any]:
    def value(row: DestinationRow) -> Any:
        found = getattr(row, field)
        return 0.0 if found is None else found

    return value


def cells(row: DestinationRow) -> tuple[str, ...]:
    """Return the cells of a destination as text."""
    return tuple(cell_text(getattr(row, field)) for _, field in COLUMNS)


def consumer_cells(row: ConsumerRow) -> tuple[str, ...]:
    """Return the cells of a consumer as text."""
    numbers = (row.in_flight, row.pending, row.prefetch, row.dequeued)
    slow = "slow" if row.is_slow else ""
    return (cell_text(row.client_id), *map(cell_text, numbers), slow, cell_text(row.selector))


def cell_text(value: object) -> str:
    """Return a value as text: rates with one decimal, `-` for an unknown value."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else safe_text(value)


_LEFT: Final = ("name", "kind")


def run(sampler: Sampler, first: Sample, interval: float) -> None:
    """Show a broker until the user quits."""
    TopApp(sampler, first, interval).run()


class TopApp(App[None]):
    """A broker's destinations, refreshed at each interval; errors are shown and retried."""

    CSS = """
    #summary, #status { height: auto; padding: 0 1; }
    #summary { background: $panel; }
    #failure { height: auto; padding: 0 1; color: $text-error; }
    #filter, #consumers { display: none; }
    #consumers { height: 40%; border-top: solid $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "Quit", priority=False),
        Binding("s", "sort", "Sort by next"),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter"),
        Binding("t", "kind", "Queues/topics"),
        Binding("space", "hold", "Hold"),
        Binding("escape", "back", "Back", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, sampler: Sampler, first: Sample, interval: float) -> None:
        super().__init__()
        self._sampler = sampler
        self._sample = first
        self._interval = interval
        self._choice = Choice()
        self._held = False
        self._is_reading = False
        self._detail: str | None = None

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        yield Static(id="summary")
        yield Input(placeholder="part of the name; enter applies it, escape clears it", id="filter")
        yield DataTable[Text](id="destinations", cursor_type="row", zebra_stripes=True)
        yield DataTable[Text](id="consumers", cursor_type="none")
        yield Static(id="status")
        yield Static(id="failure")
        yield Footer()

    def on_mount(self) -> None:
        """Show the first sample and start the refresh timer."""
        for title, field in COLUMNS:
            self._table.add_column(title, key=field)
        for title in CONSUMER_COLUMNS:
            self._consumers.add_column(title)
        self._show()
        self._table.focus()
        self.set_interval(self._interval, self._read)

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one("#destinations", DataTable)

    @property
    def _consumers(self) -> DataTable[Text]:
        return self.query_one("#consumers", DataTable)

    def _read(self) -> None:
        """Read a sample in a thread, unless the previous read is still running."""
        if not self._held and not self._is_reading:
            self._is_reading = True
            self.run_worker(self._read_in_thread, thread=True)

    def _read_in_thread(self) -> None:
        worker = get_current_worker()
        sample, failure = None, ""
        try:
            sample = self._sampler.sample(self._detail)
        except JMSException as error:
            failure = f"{error}; trying again"
        if not worker.is_cancelled:
            self.call_from_thread(self._take, sample, failure)

    def _take(self, sample: Sample | None, failure: str) -> None:
        self._is_reading = False
        self.query_one("#failure", Static).update(Text(safe_text(failure)))
        if sample is not None and not self._held:
            self._sample = sample
            self._show()

    def _show(self) -> None:
        self.query_one("#summary", Static).update(_summary(self._sampler.url, self._sample))
        rows = self._choice.of(self._sample.destinations)
        table = self._table
        chosen = self._row_under_cursor()
        table.clear()
        for row in rows[:MOST]:
            table.add_row(
                *(
                    Text(cell, justify="left" if field in _LEFT else "right")
                    for cell, (_, field) in zip(cells(row), COLUMNS, strict=True)
                ),
                key=row.view,
            )
        if chosen is not None and chosen in table.rows:
            table.move_cursor(row=table.get_row_index(chosen))
        self._show_consumers()
        self.query_one("#status", Static).update(Text(safe_text(self._status(len(rows)))))

    def _status(self, count: int) -> str:
        omitted = f", {count - MOST:,} more are not shown" if count > MOST else ""
        held = "; paused, space resumes" if self._held else ""
        return f"{min(count, MOST):,} {self._choice}{omitted}{held}"

    def _show_consumers(self) -> None:
        table = self._consumers
        table.display = self._detail is not None
        table.clear()
        for row in self._sample.consumers:
            table.add_row(*(Text(cell) for cell in consumer_cells(row)))
        name = next((r.name for r in self._sample.destinations if r.view == self._detail), "")
        table.border_title = Text(f"consumers of {safe_text(name)}").markup

    def _row_under_cursor(self) -> str | None:
        """Return the view of the destination under the cursor."""
        table = self._table
        if not table.is_valid_row_index(table.cursor_row):
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._choose(self._choice.sorted_by_next())

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._choose(self._choice.in_reverse())

    def action_kind(self) -> None:
        """Show all destinations, queues, or topics, in turn."""
        self._choose(self._choice.of_next_kind())

    def action_hold(self) -> None:
        """Pause or resume reading."""
        self._held = not self._held
        self._show()
        self._read()

    def action_filter(self) -> None:
        """Open the name filter."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    async def action_back(self) -> None:
        """Close the consumers, or clear the filter."""
        if self._detail is not None:
            self._detail = None
            self._show()
            return
        field = self.query_one("#filter", Input)
        field.value = ""
        field.display = False
        self._table.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter as it is typed."""
        self._choose(self._choice.matching(event.value))

    def on_input_submitted(self) -> None:
        """Keep the filter and return to the table."""
        self._table.focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the consumers of the selected destination."""
        self._detail = event.row_key.value
        self._show()
        self._read()

    def _choose(self, choice: Choice) -> None:
        self._choice = choice
        self._show()


def _summary(url: str, sample: Sample) -> Text:
    of = sample.broker
    rates = (cell_text(sample.rate(name)) for name in ("enqueue_rate", "dequeue_rate"))
    lines = (
        f"{of.get('BrokerName')} {of.get('BrokerVersion')}, up {of.get('Uptime')}, {url}",
        f"connections {cell_text(of.get('CurrentConnectionsCount'))}"
        f"   messages {cell_text(of.get('TotalMessageCount'))}"
        "   in/s {}   out/s {}".format(*rates),
        "   ".join(
            f"{name} {cell_text(of.get(f'{name.title()}PercentUsage'))} %"
            for name in ("memory", "store", "temp")
        ),
    )
    return Text("\n".join(map(safe_text, lines)))
