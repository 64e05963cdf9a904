"""The screen of `pyjms broker top`. Requires textual."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static
from textual.worker import get_current_worker

from pyjms.errors import JMSException
from pyjms_broker.cli.terminal import safe_text
from pyjms_broker.cli.top.order import (
    COLUMNS,
    CONSUMER_COLUMNS,
    MOST,
    Choice,
    cell_text,
    cells,
    consumer_cells,
)
from pyjms_broker.cli.top.sampling import Sample, Sampler

__all__ = ["TopApp", "run"]

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
        chosen = self._chosen()
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

    def _chosen(self) -> str | None:
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
        self._choose(self._choice.reversed())

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
