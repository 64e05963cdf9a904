"""connectionDotFilePlugin and destinationDotFilePlugin: graphs for Graphviz.

ActiveMQ writes the file within the call that makes a change. Here a task writes it, at most once a
second, so that clients do not wait for the disk.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import anyio
import anyio.to_thread

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.runtime.paths import replace_text
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.commands import ConsumerInfo
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.names import is_internal
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.attribute import Unit, attribute, flag

logger = get_logger(__name__)

_PAUSE: Final = 1.0
"""The minimum time between two writes of a file in seconds."""
_MOST_DESTINATIONS: Final = 100
"""The maximum number of destinations shown for an anonymous producer."""
_STYLE: Final = 'node [style = "rounded,filled", fontname="Helvetica-Oblique"];'
_COLOURS: Final[dict[type[Destination], str]] = {
    Queue: "red",
    Topic: "deepskyblue",
    TemporaryQueue: "salmon",
    TemporaryTopic: "lightblue",
}


@dataclass(frozen=True, kw_only=True)
class DotFilePlugin:
    """The common base of both plug-ins."""

    is_read_at_start: ClassVar[bool] = True

    file: Path | str | None = attribute(
        None, "The file; null: a file in the broker's directory.", unit=Unit.PATH
    )

    def path(self) -> Path:
        """Return the path of the file.

        Raises:
            ConfigurationException: no file is set; in broker.yaml there is a default.
        """
        if self.file is None:
            raise ConfigurationException(
                "The plug-in for a DOT file has no file",
                hint=f"write {type(self).__name__}(file=...)",
            )
        return Path(self.file)


@dataclass(frozen=True, kw_only=True)
class ConnectionDotFilePlugin(DotFilePlugin):
    """A file for Graphviz shows which client uses which destination.

    Source: ActiveMQ ConnectionDotFilePlugin.
    """

    default_file: ClassVar[tuple[str, str]] = ("file", "ActiveMQConnections.dot")

    redraw_on_remove: bool = flag(
        "Whether the file is also redrawn when a consumer or producer is removed."
    )

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`.

        Raises:
            ConfigurationException: there is no file.
        """
        return ConnectionDotFileBroker(broker, self.path(), self.redraw_on_remove)


@dataclass(frozen=True, kw_only=True)
class DestinationDotFilePlugin(DotFilePlugin):
    """A file for Graphviz shows the destinations as a tree.

    Source: ActiveMQ DestinationDotFilePlugin.
    """

    default_file: ClassVar[tuple[str, str]] = ("file", "ActiveMQDestinations.dot")

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`.

        Raises:
            ConfigurationException: there is no file.
        """
        return DestinationDotFileBroker(broker, self.path())


class _DotFileBroker(BrokerFilter):
    """Rewrites the file after changes."""

    def __init__(self, next_broker: Broker, path: Path) -> None:
        super().__init__(next_broker)
        self._path = path
        self._changed = anyio.Event()
        self._writing: event_loop.BackgroundTask | None = None

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Return the lines of the graph."""

    def redraw(self) -> None:
        """Write the file again soon."""
        self._changed.set()

    async def start(self) -> None:
        await super().start()
        self._writing = event_loop.spawn(self._write, name=f"graph {self._path.name}")
        self.redraw()

    async def stop(self) -> None:
        await event_loop.end_tasks(self._writing)
        await super().stop()

    async def _write(self) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            text = "\n".join([*self.lines(), ""])
            try:
                await anyio.to_thread.run_sync(replace_text, self._path, text)
            except OSError as error:
                logger.error("The graph is not written to %s: %s", self._path, error)
            await _clock.sleep(_PAUSE)


class ConnectionDotFileBroker(_DotFileBroker):
    """Records the destinations of consumers and producers."""

    def __init__(self, next_broker: Broker, path: Path, redraw_on_remove: bool) -> None:
        super().__init__(next_broker, path)
        self._redraws = redraw_on_remove
        self._consumers: dict[commands.ConsumerId, tuple[str, Destination]] = {}
        self._producers: dict[commands.ProducerId, tuple[str, dict[Destination, None]]] = {}

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        subscription = self.next.add_consumer(context, info)
        if info.destination is not None and info.consumer_id is not None:
            self._consumers[info.consumer_id] = (_client(context), info.destination)
            self.redraw()
        return subscription

    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        if info.consumer_id is not None:
            self._on_removal(self._consumers.pop(info.consumer_id, None))
        self.next.remove_consumer(context, info, last_delivered_sequence_id)

    def add_producer(self, context: ConnectionContext, info: commands.ProducerInfo) -> None:
        self.next.add_producer(context, info)
        if info.producer_id is not None:
            named = {} if info.destination is None else {info.destination: None}
            self._producers[info.producer_id] = (_client(context), named)
            self.redraw()

    def remove_producer(self, context: ConnectionContext, info: commands.ProducerInfo) -> None:
        if info.producer_id is not None:
            self._on_removal(self._producers.pop(info.producer_id, None))
        self.next.remove_producer(context, info)

    def send(self, exchange: ProducerExchange, message: commands.ActiveMQMessage) -> Completion:
        info, to = exchange.info, message.destination
        if info is not None and info.destination is None and info.producer_id is not None:
            _, named = self._producers.get(info.producer_id, ("", {}))
            if to is not None and to not in named and len(named) < _MOST_DESTINATIONS:
                named[to] = None
                self.redraw()
        return self.next.send(exchange, message)

    def _on_removal(self, former: object) -> None:
        if former is not None and self._redraws:
            self.redraw()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the graph, whose arrows show the direction of messages."""
        sent = [(who, to) for who, named in self._producers.values() for to in named]
        clients = {who for who, _ in (*sent, *self._consumers.values())}
        named = {to for _, to in (*sent, *self._consumers.values())}
        yield 'digraph "ActiveMQ Connections" {'
        yield f"label={_quote(f'Broker: {self.broker_name}')};"
        yield _STYLE
        for who in sorted(clients):
            label = _quote(f"Client: {who}")
            yield f"{_quote(f'client {who}')} [fillcolor=green, label={label}];"
        for to in sorted(named, key=str):
            yield f"{_quote(str(to))} [fillcolor={_COLOURS[type(to)]}];"
        arrows = {f"{_quote(f'client {who}')} -> {_quote(str(to))};" for who, to in sent}
        arrows |= {
            f"{_quote(str(of))} -> {_quote(f'client {who}')};"
            for who, of in self._consumers.values()
        }
        yield from sorted(arrows)
        yield "}"


class DestinationDotFileBroker(_DotFileBroker):
    """Requests a redraw when a destination is added or removed."""

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        found = self.next.add_destination(context, destination, create_temporary)
        self.redraw()
        return found

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        self.next.remove_destination(context, destination, timeout)
        self.redraw()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the graph."""
        yield 'digraph "ActiveMQ Destinations" {'
        yield _STYLE
        nodes: dict[str, str] = {}
        arrows: dict[str, None] = {}
        for each in sorted(self.destinations(), key=str):
            if is_internal(each):
                continue
            colour = _COLOURS[type(each)]
            above, root = "", f"{type(each).__name__}s"
            nodes[root] = f"{_quote(root)} [fillcolor={colour}, shape=box];"
            for part in each.physical_name.split("."):
                below = f"{above}.{part}" if above else f"{each.PREFIX}{part}"
                nodes[below] = f"{_quote(below)} [fillcolor={colour}, label={_quote(part)}];"
                arrows[f"{_quote(above or root)} -> {_quote(below)};"] = None
                above = below
        yield from nodes.values()
        yield from arrows
        yield "}"


def _client(context: ConnectionContext) -> str:
    return context.client_id or str(context.connection_id)


def _quote(text: str) -> str:
    """Quote untrusted text as a string of the DOT language."""
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
