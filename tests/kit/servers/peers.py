"""The brokers that our client is a peer of: ours, ActiveMQ 5.17.2, ActiveMQ 6 and Artemis.

A suite's tests run on each of them with the same expectations. Where a broker behaves otherwise, a
test asks `peer.differs(NAME)`, and expects what that broker does; the names are those of
`DIFFERENCES`, which docs/peers.md lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from pyjms.jms.destination import Queue
from pyjms.jms.message import Message, TextMessage
from tests.kit.servers.java_brokers import ARTEMIS_SETTINGS, MAVEN_PROGRAMS, JavaBroker
from tests.kit.servers.java_programs import JavaProgram

ARTEMIS = frozenset({"artemis"})
DIFFERENCES: dict[str, frozenset[str]] = {
    "dead_letter_queue": ARTEMIS,
    "sender_property": ARTEMIS,
    "deleted_temporary": ARTEMIS,
    "nested_properties": ARTEMIS,
    "version_6": ARTEMIS,
    "dead_letter_origin": ARTEMIS,
    "virtual_topic_headers": ARTEMIS,
    "credit_in_a_transaction": ARTEMIS,
}


@dataclass(frozen=True)
class Peer:
    """A broker that runs: `kind` is `pyjms`, `activemq`, `activemq6` or `artemis`."""

    kind: str
    url: str

    @property
    def dead_letters(self) -> Queue:
        """The dead-letter queue of all destinations."""
        return Queue("DLQ" if self.differs("dead_letter_queue") else "ActiveMQ.DLQ")

    def dead_from(
        self, queue: Queue, dead: Sequence[Message], texts: Sequence[str]
    ) -> list[Message]:
        """Return the messages of a dead-letter queue that came from `queue`.

        Where the broker does not say where they came from, those that have one of `texts`.
        """
        if self.differs("dead_letter_origin"):
            assert {message.original_destination for message in dead} <= {None}
            return [m for m in dead if isinstance(m, TextMessage) and m.text in texts]
        return [m for m in dead if m.original_destination == queue]

    def names(self, message: Message) -> list[str]:
        """Return the names of the properties that a sender set, or a client for the broker."""
        added = {"__AMQ_CID"} if self.differs("sender_property") else set[str]()
        assert added <= set(message.properties)
        return [name for name in message.properties if name not in added]

    def differs(self, name: str) -> bool:
        """Whether this broker is one of those that behave otherwise, in the point `name`."""
        return self.kind in DIFFERENCES[name]


def maven_broker(
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    settings: dict[str, str],
) -> Iterator[str]:
    """Run a broker from Maven with these settings of its program; yield its URL."""
    maven_program: JavaProgram = request.getfixturevalue("maven_program")
    sources, main_class = MAVEN_PROGRAMS[kind]
    command = [*maven_program(sources), main_class]
    broker = JavaBroker(kind, command, tmp_path_factory.mktemp(kind), settings)
    broker.start()
    yield broker.url
    broker.end()


@pytest.fixture(scope="session")
def activemq6_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of an ActiveMQ 6."""
    yield from maven_broker("activemq6", request, tmp_path_factory, {})


@pytest.fixture(scope="session")
def artemis_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of an Artemis."""
    yield from maven_broker("artemis", request, tmp_path_factory, ARTEMIS_SETTINGS)


BROKERS = {
    "pyjms": "our_broker",
    "activemq": "real_broker",
    "activemq6": "activemq6_broker",
    "artemis": "artemis_broker",
}


@pytest.fixture(
    params=[
        "pyjms",
        pytest.param("activemq", marks=pytest.mark.activemq),
        pytest.param("activemq6", marks=pytest.mark.maven),
        pytest.param("artemis", marks=pytest.mark.maven),
    ]
)
def peer(request: pytest.FixtureRequest) -> Peer:
    return Peer(request.param, str(request.getfixturevalue(BROKERS[request.param])))


@pytest.fixture
def broker_url(peer: Peer) -> str:
    return peer.url
