"""The data of `pyjms broker top`: counters of a broker and its destinations, with rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyjms import _clock
from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms_broker.cli.management.client import Attributes, ManagementClient
from pyjms_broker.cli.management.names import brokers, pattern
from pyjms_broker.management.counters import DestinationCounters
from pyjms_broker.management.object_name import ObjectName

__all__ = ["ConsumerRow", "DestinationRow", "Sample", "Sampler"]

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

    def __init__(self, client: ManagementClient, now: Callable[[], float] = _clock.now) -> None:
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
