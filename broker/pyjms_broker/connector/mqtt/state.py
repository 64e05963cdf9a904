"""What the broker remembers of MQTT sessions: the packet ids in use, in both directions.

    direction             remembered                       until
    from the client       ids of QoS 2 messages            PUBREL
    to the client         ids of QoS 1 and 2 messages      PUBACK, PUBCOMP

A session that is kept has its ids when the client connects again, so that a message that was sent
twice in either direction keeps its id, and one of QoS 2 is delivered once. Those of QoS 2 are also
recorded in the store: see `marks`. (mqtt-connector M62, M82, M85, M86)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.wire.mqtt import Filter
from pyjms.wire.openwire.commands import ConsumerId, MessageId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.connector.mqtt.marks import DONE, RECEIVED, RELEASED, SENT, Mark, Marks, Stored

if TYPE_CHECKING:
    from pyjms_broker.api.transaction import Transaction
    from pyjms_broker.region.region_broker import RegionBroker

_MOST_KEPT: Final = 10_000
"""The maximum number of sessions of absent clients whose ids are kept."""
_HIGHEST_ID: Final = 65535
MOST_RECEIVED: Final = 10_000
"""The maximum number of ids of a client for which it has not sent PUBREL."""
EXACTLY_ONCE: Final = 2
NEVER_EXPIRES: Final = 0xFFFFFFFF
"""The session expiry interval of sessions that never expire, as those of 3.1 and 3.1.1."""


class State(Enum):
    """The state of a client."""

    NEW = auto()
    CONNECTED = auto()
    DISCONNECTING = auto()
    CLOSED = auto()


class Sent:
    """A message of QoS 1 or 2 that was sent to the client and not finally acknowledged."""

    __slots__ = ("consumer_id", "destination", "is_released", "key", "message_id", "qos")

    def __init__(
        self,
        key: str,
        message_id: MessageId,
        qos: int,
        consumer_id: ConsumerId | None,
        destination: Destination | None,
    ) -> None:
        self.key = key
        """The subscription; see `Subscription.key`."""
        self.message_id = message_id
        self.qos = qos
        self.consumer_id = consumer_id
        """The consumer that sent it; None: one of a former connection."""
        self.destination = destination
        self.is_released = False
        """Whether PUBREC has come, so that PUBREL is sent and not the message."""


class SessionState:
    """The packet ids of one session.

    Args:
        client_id: the client's id.
        is_kept: whether the session outlives the connection.
        marks: the records of QoS 2; None: there are none.
    """

    def __init__(
        self, client_id: str = "", *, is_kept: bool = False, marks: Marks | None = None
    ) -> None:
        self.received: dict[int, MessageId | None] = {}
        """The ids of QoS 2 messages before PUBREL, and the message while it is not stored."""
        self.sent: dict[int, Sent] = {}
        self.filters: dict[str, tuple[Filter, list[int]]] = {}
        """The subscriptions of 5.0 with their identifiers, as the store has not all of it."""
        self._client_id = client_id
        self._is_kept = is_kept
        self._marks = marks
        self._marked: dict[tuple[bool, int], Stored] = {}
        """By whether it is about a received message, and the packet id."""
        self._last = 0
        self._by_message: dict[tuple[str, str], int] = {}

    @property
    def has_marks(self) -> bool:
        """Whether ids of QoS 2 are recorded."""
        return self._marks is not None

    # to the client
    def find(self, key: str, message_id: MessageId) -> int:
        """Return the id under which a former connection has sent a message; 0: none has."""
        if not self._by_message:
            return 0
        packet_id = self._by_message.get((key, str(message_id)), 0)
        return packet_id if packet_id and self.sent[packet_id].consumer_id is None else 0

    def free_id(self) -> int:
        """Return an id that is not in use; 0: there is none."""
        if len(self.sent) >= _HIGHEST_ID:
            return 0
        while True:
            self._last = self._last % _HIGHEST_ID + 1
            if self._last not in self.sent:
                return self._last

    def add(self, packet_id: int, sent: Sent) -> Completion:
        """Record a message; send it when the result is completed."""
        is_marked = packet_id in self.sent
        self.sent[packet_id] = sent
        if self._is_kept:
            self._by_message[sent.key, str(sent.message_id)] = packet_id
        if sent.qos == EXACTLY_ONCE and not is_marked:
            return self._mark_sent(packet_id, sent, SENT)
        return COMPLETED

    def release(self, packet_id: int, sent: Sent) -> Completion:
        """Record PUBREC for a message; send PUBREL when the result is completed."""
        sent.is_released = True
        return self._mark_sent(packet_id, sent, RELEASED)

    def _mark_sent(self, packet_id: int, sent: Sent, kind: str) -> Completion:
        if self._marks is None:
            return COMPLETED
        mark = Mark(self._client_id, kind, packet_id, sent.key, str(sent.message_id))
        return self._replace_mark((False, packet_id), self._marks, mark)

    def remove(self, packet_id: int) -> None:
        """Forget a message that is finally acknowledged."""
        sent = self.sent.pop(packet_id)
        if self._is_kept:
            key = sent.key, str(sent.message_id)
            if self._by_message.get(key) == packet_id:
                del self._by_message[key]
        self._unmark((False, packet_id))

    def remove_of(self, key: str) -> None:
        """Forget the messages of a subscription that was removed, unless they are released."""
        for packet_id in [i for i, s in self.sent.items() if s.key == key and not s.is_released]:
            self.remove(packet_id)

    # from the client
    def mark_received(self, packet_id: int, transaction: Transaction) -> None:
        """Record the id of a message in its transaction."""
        if self._marks is not None:
            mark = Mark(self._client_id, RECEIVED, packet_id)
            self._replace_mark((True, packet_id), self._marks, mark, transaction)

    def release_received(self, packet_id: int) -> Completion:
        """Forget the id of a message after PUBREL; send PUBCOMP when the result is completed.

        Otherwise the client could use the id again, and lose a message in a crash.
        """
        self.received.pop(packet_id, None)
        former = self._marked.pop((True, packet_id), None)
        marks = self._marks
        if former is None or marks is None:
            return COMPLETED
        done = marks.write(Mark(self._client_id, DONE, packet_id))

        def remove(_done: Completion) -> None:
            marks.remove(former)
            marks.remove(done)

        done.stored.then(remove)
        return done.stored

    def refuse_received(self, packet_id: int) -> None:
        """Forget the id of a message that was not stored."""
        self._marked.pop((True, packet_id), None)
        self.received.pop(packet_id, None)

    # records
    def _replace_mark(
        self,
        place: tuple[bool, int],
        marks: Marks,
        mark: Mark,
        transaction: Transaction | None = None,
    ) -> Completion:
        former = self._marked.get(place)
        stored = self._marked[place] = marks.write(mark, transaction)
        if former is not None:
            stored.stored.then(lambda _: marks.remove(former))
        return stored.stored

    def _unmark(self, place: tuple[bool, int]) -> None:
        mark = self._marked.pop(place, None)
        if mark is not None and self._marks is not None:
            self._marks.remove(mark)

    def restore(self, mark: Mark, message_id: MessageId) -> None:
        """Take over a record of a former broker, which replaces an earlier one of its packet id."""
        place = mark.kind in {RECEIVED, DONE}, mark.packet_id
        self._unmark(place)
        self._marked[place] = Stored(message_id, COMPLETED)
        if mark.kind == RECEIVED:
            self.received[mark.packet_id] = None
        elif mark.kind == DONE:
            self.received.pop(mark.packet_id, None)
            self._unmark(place)
        else:
            sent = Sent(mark.key, MessageId(mark.message), EXACTLY_ONCE, None, None)
            sent.is_released = mark.kind == RELEASED
            self.sent[mark.packet_id] = sent
            self._by_message[mark.key, mark.message] = mark.packet_id

    # the end
    def end_connection(self, refused: Collection[MessageId | None]) -> None:
        """Prepare for the client's next connection; `refused` are messages that were not stored."""
        for sent in self.sent.values():
            sent.consumer_id = None
        for packet_id, message_id in list(self.received.items()):
            if message_id is not None:
                if message_id in refused:
                    self.refuse_received(packet_id)
                else:  # the store is writing it
                    self.received[packet_id] = None

    def close(self) -> None:
        """Remove the records, because the session is not kept any longer."""
        for place in list(self._marked):
            self._unmark(place)


class KeptSessions:
    """The states of the sessions that one broker keeps, by client id."""

    def __init__(self) -> None:
        self._states: OrderedDict[str, SessionState] = OrderedDict()
        self._marks: Marks | None = None
        self._is_restored = False
        self._expirations: dict[str, float] = {}
        """When the sessions of absent clients expire, by client id."""
        self._delayed: dict[str, BackgroundTask] = {}
        """The wills of absent clients that are sent later, by client id."""

    def expire_later(self, client_id: str, seconds: float) -> None:
        """Keep the session of a client that has left for so many seconds."""
        self._expirations[client_id] = _clock.now() + seconds

    def call_later(self, client_id: str, seconds: float, action: Callable[[], object]) -> None:
        """Call a function in so many seconds, unless the client has its session again by then.

        It is called at once if too many wait.
        """
        self._cancel(client_id)
        if len(self._delayed) >= _MOST_KEPT:
            action()
            return

        async def wait() -> None:
            await _clock.sleep(seconds)
            self._delayed.pop(client_id, None)
            action()

        self._delayed[client_id] = spawn(wait, name=f"delayed will of {client_id[:100]}")

    def _cancel(self, client_id: str) -> None:
        delayed = self._delayed.pop(client_id, None)
        if delayed is not None:
            delayed.cancel()

    async def close(self) -> None:
        """Send no more wills, as the broker stops."""
        delayed, self._delayed = list(self._delayed.values()), {}
        await end_tasks(*delayed)

    def take_expired(self) -> list[str]:
        """Return the clients whose sessions have expired since the last call."""
        now = _clock.now()
        expired = [each for each, when in self._expirations.items() if when <= now]
        for client_id in expired:
            del self._expirations[client_id]
            self._states.pop(client_id, SessionState()).close()
        return expired

    def restore(self, region: RegionBroker) -> None:
        """Read the records of a former broker, unless that was done."""
        if self._is_restored or region.store_capabilities.is_volatile:
            return
        self._is_restored = True
        self._marks = Marks(region)
        for mark, message_id in self._marks.read():
            self.keep(mark.client_id).restore(mark, message_id)

    def get(self, client_id: str) -> SessionState | None:
        """Return the state of a session that is kept."""
        return self._states.get(client_id)

    def keep(self, client_id: str) -> SessionState:
        """Return the state of a session, which is kept from now on."""
        self._expirations.pop(client_id, None)
        self._cancel(client_id)
        state = self._states.get(client_id)
        if state is None:
            state = SessionState(client_id, is_kept=True, marks=self._marks)
            self._states[client_id] = state
        self._states.move_to_end(client_id)
        if len(self._states) > _MOST_KEPT:
            oldest, forgotten = self._states.popitem(last=False)
            forgotten.close()
            self._expirations.pop(oldest, None)
        return state

    def drop(self, client_id: str) -> None:
        """Forget a session, if it was kept."""
        self._expirations.pop(client_id, None)
        self._cancel(client_id)
        state = self._states.pop(client_id, None)
        if state is not None:
            state.close()
