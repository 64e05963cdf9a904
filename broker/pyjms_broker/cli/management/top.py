"""The screen of `pyjms broker top`. Requires textual."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static
from textual.worker import get_current_worker

from pyjms.cli.terminal import safe_text
from pyjms.errors import JMSException
from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms.runtime import clock as _clock
from pyjms_broker.cli.management.client import Attributes, JolokiaClient, brokers, number, pattern
from pyjms_broker.management import view_attributes
from pyjms_broker.management.object_name import ObjectName

Row: TypeAlias = Mapping[str, Any]
"""A queue or topic: its attributes, `view` (the view's name), and the keys of `COLUMNS`."""

_KIND: Final = "kind"
ENQUEUE_RATE: Final = "enqueue_rate"
DEQUEUE_RATE: Final = "dequeue_rate"
"""Messages per second since the previous sample; None in the first."""


def _titles(table: view_attributes.Table, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((table[name].label, name) for name in names)


COLUMNS: Final = (
    *_titles(view_attributes.DESTINATION, "Name"),
    ("Type", _KIND),
    *_titles(
        view_attributes.DESTINATION, "QueueSize", "InFlightCount", "ConsumerCount", "ProducerCount"
    ),
    ("In/s", ENQUEUE_RATE),
    ("Out/s", DEQUEUE_RATE),
    *_titles(view_attributes.DESTINATION, "EnqueueCount", "DequeueCount", "MemoryPercentUsage"),
)
"""The titles of the columns, with the values of a row that they show."""
CONSUMER_COLUMNS: Final = _titles(
    view_attributes.SUBSCRIPTION,
    *("ClientId", "DispatchedQueueSize", "PendingQueueSize", "PrefetchSize", "DequeueCounter"),
    *("SlowConsumer", "Selector"),
)
_SUMMARY: Final = (
    *("BrokerName", "BrokerVersion", "Uptime", "CurrentConnectionsCount", "TotalMessageCount"),
    *("MemoryPercentUsage", "StorePercentUsage", "TempPercentUsage"),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of a broker at one time."""

    broker: Attributes
    destinations: tuple[Row, ...]
    consumers: tuple[Attributes, ...]
    """The consumers of the requested destination."""

    def rate(self, name: str) -> float | None:
        """Return the sum of a rate over all destinations; None in the first sample."""
        known = [rate for row in self.destinations if isinstance(rate := row[name], float)]
        return sum(known) if known else None


class Sampler:
    """Reads samples of the first broker at a URL. Blocking; not thread-safe."""

    def __init__(self, client: JolokiaClient, now: Callable[[], float] = _clock.now) -> None:
        self.url = client.url
        self._client = client
        self._now = now
        self._former: dict[object, Row] = {}
        self._time: float | None = None

    def sample(self, consumers_of: str | None = None) -> Sample:
        """Read the counters, and the consumers of the destination with the given view."""
        view, broker = next(iter(brokers(self._client, *_SUMMARY).items()))
        name = ObjectName(view).keys["brokerName"]
        now = self._now()
        seconds = None if self._time is None else now - self._time
        rows = tuple(self._destinations(name, seconds))
        self._time = now
        self._former = {row["view"]: row for row in rows}
        consumers: Iterable[Attributes] = ()
        if consumers_of is not None:
            wanted = f"{consumers_of},endpoint=Consumer,clientId=*,consumerId=*"
            names = (name for _, name in CONSUMER_COLUMNS)
            consumers = self._client.read_all(wanted, *names).values()
        return Sample(broker, rows, tuple(consumers))

    def _destinations(self, broker: str, seconds: float | None) -> Iterator[Row]:
        names = [name for _, name in COLUMNS if name in view_attributes.DESTINATION]
        for kind in ("Queue", "Topic"):
            wanted = pattern(brokerName=broker, destinationType=kind, destinationName="*")
            for view, values in self._client.read_all(wanted, *names).items():
                if str(values.get("Name")).startswith(ADVISORY_PREFIX):
                    continue
                row = {name: number(values, name) for name in names}
                former = self._former.get(view, {})  # a new destination started at 0
                yield {
                    **row,
                    "view": view,
                    "Name": str(values.get("Name")),
                    _KIND: kind.lower(),
                    ENQUEUE_RATE: _rate(row, former, "EnqueueCount", seconds),
                    DEQUEUE_RATE: _rate(row, former, "DequeueCount", seconds),
                }


def _rate(row: Row, former: Row, counter: str, seconds: float | None) -> float | None:
    """Return the rate per second; a counter that was reset starts at 0."""
    if not seconds:
        return None
    return max(number(row, counter) - number(former, counter), 0) / seconds


MOST: Final = 500
"""Maximum number of destinations shown."""
_KINDS: Final = ("all", "queue", "topic")
_TEXTS: Final = ("Name", _KIND)
"""The columns that are sorted and aligned as texts."""


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

    def of_next_kind(self) -> Choice:
        """Return this choice with the next kind: all destinations, queues, topics."""
        return replace(self, kind=_KINDS[(_KINDS.index(self.kind) + 1) % len(_KINDS)])

    def of(self, rows: Sequence[Row]) -> list[Row]:
        """Return the selected rows, sorted; rows with equal values by name."""
        wanted = self.text.lower()
        found = [
            row
            for row in rows
            if self.kind in ("all", row[_KIND]) and wanted in str(row["Name"]).lower()
        ]
        found.sort(key=lambda row: (row["Name"], row[_KIND]))
        _, key = COLUMNS[self.column]
        found.sort(key=lambda row: 0.0 if row[key] is None else row[key], reverse=self.descending)
        return found

    def __str__(self) -> str:
        shown = {"all": "queues and topics", "queue": "queues", "topic": "topics"}[self.kind]
        order = "descending" if self.descending else "ascending"
        about = f" with {self.text!r} in their names" if self.text else ""
        return f"{shown}{about}, by {COLUMNS[self.column][0]} {order}"


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a destination as text."""
    return tuple(cell_text(row[name]) for _, name in COLUMNS)


def _consumer_cell(values: Attributes, title: str, name: str) -> str:
    if view_attributes.SUBSCRIPTION[name].type == view_attributes.BOOLEAN:
        return title.lower() if values.get(name) else ""
    if view_attributes.SUBSCRIPTION[name].type == view_attributes.STRING:
        return cell_text(values.get(name) or "")
    return cell_text(number(values, name))


def cell_text(value: object) -> str:
    """Return a value as text: rates with one decimal, `-` for an unknown value."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else safe_text(value)


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
        for title, _ in CONSUMER_COLUMNS:
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
                    Text(cell, justify="left" if field in _TEXTS else "right")
                    for cell, (_, field) in zip(cells(row), COLUMNS, strict=True)
                ),
                key=str(row["view"]),
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
            table.add_row(*(Text(_consumer_cell(row, *each)) for each in CONSUMER_COLUMNS))
        found = (r["Name"] for r in self._sample.destinations if r["view"] == self._detail)
        table.border_title = Text(f"consumers of {safe_text(next(found, ''))}").markup

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
        self._choose(replace(self._choice, descending=not self._choice.descending))

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
        self._choose(replace(self._choice, text=event.value))

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
    rates = (cell_text(sample.rate(name)) for name in (ENQUEUE_RATE, DEQUEUE_RATE))
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
