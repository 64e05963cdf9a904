"""The messages of a soak's well-behaved clients, and the guarantees for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

__all__ = ["FLOWS", "Endpoint", "Flow", "Reader", "flow_of"]

KIB: Final = 1024


@dataclass(frozen=True)
class Endpoint:
    """A queue or a subscription: it gets every message of its flow, and these promises hold."""

    name: str
    ordered: bool = False
    """The first deliveries of a sender's messages are in the order of the sends."""
    lossy: bool = False
    """Messages may be missed while the consumer is not connected, and only then."""
    flagged: bool = True
    """A second delivery has JMSRedelivered, after a restart of the broker, too."""
    refuses_duplicates_only: bool = False
    """A dead letter is a duplicate of what one of its consumers has acknowledged."""
    dead_letters_of: str | None = None
    """The endpoint that it has the dead letters of: together they get every message."""


@dataclass(frozen=True)
class Reader:
    """Consumers of an endpoint."""

    endpoint: Endpoint
    destination: str
    mode: str = "auto"
    """auto, client, transacted."""
    count: int = 1
    durable: bool = False
    waits: bool = True
    """Whether an acknowledgement in mode client is answered; unanswered ones may be lost."""
    mortal: bool = False
    """Whether the process that is killed has such consumers, too."""
    pause: float = 0.0
    """Seconds between two messages."""


@dataclass(frozen=True)
class Flow:
    """Messages to one destination."""

    name: str
    destination: str
    readers: tuple[Reader, ...]
    senders: int = 1
    transacted: bool = False
    rate: float = 8.0
    """Messages a second and sender."""
    sizes: tuple[int, int] = (16, 2 * KIB)
    lanes: int = 1
    """Numberings of one sender; more than one: message groups."""
    time_to_live: tuple[float, float] | None = None
    delay: tuple[float, float] | None = None
    poison: float = 0.0
    """Part of the messages that every consumer rolls back."""
    redeliveries: int = -1
    """Maximum number of redeliveries before a message is dead-lettered; -1: unlimited."""
    mortal: bool = False
    """Whether the process that is killed has such senders, too."""
    xa: bool = False
    """Whether it is sent in XA transactions."""
    endpoints: tuple[Endpoint, ...] = field(init=False)
    """Those that get every message."""

    def __post_init__(self) -> None:
        unique = dict.fromkeys(
            reader.endpoint for reader in self.readers if reader.endpoint.dead_letters_of is None
        )
        object.__setattr__(self, "endpoints", tuple(unique))


def _dead_letters(endpoint: Endpoint) -> Reader:
    name = endpoint.name
    dead = Endpoint(f"{name}-dead", flagged=False, dead_letters_of=name)
    return Reader(dead, f"queue://ActiveMQ.DLQ.Queue.soak.{name}")


_AUTO = Endpoint("auto")
_CLIENT = Endpoint("client", refuses_duplicates_only=True)
_TRANSACTED = Endpoint("transacted")
_EXCLUSIVE = Endpoint("exclusive", ordered=True)
_GROUPS = Endpoint("groups", ordered=True)
_DURABLE_A = Endpoint("durable-a", ordered=True, flagged=False)
_DURABLE_B = Endpoint("durable-b", ordered=True, flagged=False)
_PLAIN = Endpoint("plain", ordered=True, lossy=True)
_VIRTUAL_A = Endpoint("virtual-a")
_VIRTUAL_B = Endpoint("virtual-b")
_SCHEDULED = Endpoint("scheduled", flagged=False)
_LARGE = Endpoint("large")
_EXPIRING = Endpoint("expiring")
_POISON = Endpoint("poison")
_XA = Endpoint("xa")

FLOWS: Final = (
    Flow(
        "auto",
        "queue://soak.auto",
        (Reader(_AUTO, "queue://soak.auto", count=2, mortal=True),),
        senders=2,
        mortal=True,
    ),
    Flow(
        "client",
        "queue://soak.client",
        (
            Reader(_CLIENT, "queue://soak.client", "client", count=2, mortal=True, waits=False),
            _dead_letters(_CLIENT),
        ),
    ),
    Flow(
        "transacted",
        "queue://soak.transacted",
        (Reader(_TRANSACTED, "queue://soak.transacted", "transacted", count=2, mortal=True),),
        senders=2,
        transacted=True,
        mortal=True,
    ),
    Flow(
        "exclusive",
        "queue://soak.exclusive",
        (Reader(_EXCLUSIVE, "queue://soak.exclusive?consumer.exclusive=true"),),
        senders=2,
        mortal=True,
    ),
    Flow(
        "groups",
        "queue://soak.groups",
        (Reader(_GROUPS, "queue://soak.groups", count=3),),
        lanes=5,
    ),
    Flow(
        "durable",
        "topic://soak.durable",
        (
            Reader(_DURABLE_A, "topic://soak.durable", durable=True),
            Reader(_DURABLE_B, "topic://soak.durable", "client", durable=True),
        ),
    ),
    Flow("plain", "topic://soak.plain", (Reader(_PLAIN, "topic://soak.plain"),)),
    Flow(
        "virtual",
        "topic://VirtualTopic.soak",
        (
            Reader(_VIRTUAL_A, "queue://Consumer.A.VirtualTopic.soak", mortal=True),
            Reader(_VIRTUAL_B, "queue://Consumer.B.VirtualTopic.soak", "transacted"),
        ),
    ),
    Flow(
        "scheduled",
        "queue://soak.scheduled",
        (Reader(_SCHEDULED, "queue://soak.scheduled"),),
        delay=(0.05, 6.0),
    ),
    Flow(
        "large",
        "queue://soak.large",
        (Reader(_LARGE, "queue://soak.large"),),
        rate=0.5,
        sizes=(200 * KIB, 3072 * KIB),
    ),
    Flow(
        "expiring",
        "queue://soak.expiring",
        (
            Reader(_EXPIRING, "queue://soak.expiring?consumer.prefetchSize=1", "client", pause=0.3),
            _dead_letters(_EXPIRING),
        ),
        time_to_live=(0.02, 4.0),
    ),
    Flow(
        "poison",
        "queue://soak.poison",
        (
            Reader(_POISON, "queue://soak.poison", "transacted"),
            _dead_letters(_POISON),
        ),
        rate=3.0,
        poison=0.2,
        redeliveries=2,
    ),
    Flow("xa", "queue://soak.xa", (Reader(_XA, "queue://soak.xa", "transacted"),), xa=True),
)


def flow_of(producer: str) -> str:
    """Return the name of the flow that a sender belongs to."""
    return producer.split("/", 1)[0]
