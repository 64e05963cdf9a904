"""What the broker remembers of MQTT sessions: the packet ids in use, in both directions.

    direction             remembered                       until
    from the client       ids of QoS 2 messages            PUBREL
    to the client         ids of QoS 1 and 2 messages      PUBACK, PUBCOMP

A session that is kept has its ids when the client connects again, so that a message that was sent
twice in either direction keeps its id, and one of QoS 2 is delivered once. Those of QoS 2 are also
recorded in the store, as are the subscriptions of 5.0 and the session's expiry: see `marks`.
(mqtt-connector M62, M82, M85, M86, M141, M144)
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.mqtt import Filter
from pyjms.wire.openwire.commands import ConsumerId, MessageId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.connector.mqtt.marks import (
    DONE,
    FILTER,
    MARKS,
    RECEIVED,
    RELEASED,
    SENT,
    SESSION,
    Mark,
    Marks,
    Place,
    Stored,
)
from pyjms_broker.connector.mqtt.topics import delete_kept

if TYPE_CHECKING:
    from pyjms_broker.api.transaction import Transaction
    from pyjms_broker.connector.base import BrokerHost

logger = get_logger(__name__)

_MOST_KEPT: Final = 10_000
"""The maximum number of kept sessions whose ids, options and expiry are remembered."""
_INTERVAL: Final = 1.0
"""Seconds between two looks for expired sessions, at least."""
_HIGHEST_ID: Final = 65535
MOST_RECEIVED: Final = 10_000
"""The maximum number of ids of a client for which it has not sent PUBREL."""
EXACTLY_ONCE: Final = 2
NEVER_EXPIRES: Final = 0xFFFFFFFF
"""The session expiry interval of sessions that never expire, as those of 3.1 and 3.1.1."""


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
        self._marked: dict[Place, Stored] = {}
        self._term = ""
        """The recorded expiry, and when the connection has ended (ms; 0: it has not)."""
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
        return self._replace_mark(self._marks, mark)

    def remove(self, packet_id: int) -> None:
        """Forget a message that is finally acknowledged."""
        sent = self.sent.pop(packet_id)
        if self._is_kept:
            key = sent.key, str(sent.message_id)
            if self._by_message.get(key) == packet_id:
                del self._by_message[key]
        self._unmark((SENT, packet_id, ""))

    def remove_of(self, key: str) -> None:
        """Forget the messages of a subscription that was removed, unless they are released."""
        for packet_id in [i for i, s in self.sent.items() if s.key == key and not s.is_released]:
            self.remove(packet_id)

    # from the client
    def mark_received(self, packet_id: int, transaction: Transaction) -> None:
        """Record the id of a message in its transaction."""
        if self._marks is not None:
            mark = Mark(self._client_id, RECEIVED, packet_id)
            self._replace_mark(self._marks, mark, transaction)

    def release_received(self, packet_id: int) -> Completion:
        """Forget the id of a message after PUBREL; send PUBCOMP when the result is completed.

        Otherwise the client could use the id again, and lose a message in a crash.
        """
        self.received.pop(packet_id, None)
        former = self._marked.pop((RECEIVED, packet_id, ""), None)
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
        self._marked.pop((RECEIVED, packet_id, ""), None)
        self.received.pop(packet_id, None)

    # what the store's subscriptions do not have
    def keep_filter(self, wanted: Filter, identifiers: list[int]) -> Completion:
        """Record a subscription; answer it when the result is completed."""
        mark = Mark(self._client_id, FILTER, 0, wanted.text, _written(wanted, identifiers))
        if self.filters.get(wanted.text) == (wanted, identifiers):
            stored = self._marked.get(mark.place)
            return COMPLETED if stored is None else stored.stored
        self.filters[wanted.text] = wanted, identifiers
        return COMPLETED if self._marks is None else self._replace_mark(self._marks, mark)

    def forget_filter(self, text: str) -> None:
        """Forget a subscription that was removed."""
        if self.filters.pop(text, None) is not None:
            self._unmark((FILTER, 0, text))

    def keep_for(self, seconds: int, ended: int = 0) -> None:
        """Record for how long the session is kept after `ended` (ms); 0: the client is there."""
        term = f"{seconds} {ended}"
        if self._marks is not None and term != self._term:
            self._term = term
            self._replace_mark(self._marks, Mark(self._client_id, SESSION, 0, message=term))

    @property
    def seconds_left(self) -> float | None:
        """The time until the session of a former broker expires; None: it does not.

        For a client that was there when the broker stopped, it begins now.
        """
        seconds, ended = map(int, (self._term or f"{NEVER_EXPIRES} 0").split())
        if seconds == NEVER_EXPIRES:
            return None
        return max(0.0, seconds - ((_clock.time_ms() - ended) / 1000 if ended else 0))

    # records
    def _replace_mark(
        self, marks: Marks, mark: Mark, transaction: Transaction | None = None
    ) -> Completion:
        former = self._marked.get(mark.place)
        stored = self._marked[mark.place] = marks.write(mark, transaction)
        if former is not None:
            stored.stored.then(lambda _: marks.remove(former))
        return stored.stored

    def _unmark(self, place: Place) -> None:
        mark = self._marked.pop(place, None)
        if mark is not None and self._marks is not None:
            self._marks.remove(mark)

    def restore(self, mark: Mark, message_id: MessageId) -> None:
        """Take over a record of a former broker, which replaces an earlier one of its place."""
        place = mark.place
        self._unmark(place)
        self._marked[place] = Stored(message_id, COMPLETED)
        if mark.kind == SESSION:
            self._term = mark.message
        elif mark.kind == FILTER:
            self.filters[mark.key] = _read(mark)
        elif mark.kind == RECEIVED:
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


def _written(wanted: Filter, identifiers: list[int]) -> str:
    options = wanted.qos, wanted.no_local, wanted.retain_as_published, wanted.retain_handling
    return json.dumps([*options, *identifiers])


def _read(mark: Mark) -> tuple[Filter, list[int]]:
    qos, no_local, as_published, handling, *identifiers = json.loads(mark.message)
    return Filter(mark.key, qos, no_local, as_published, handling), identifiers


class KeptSessions:
    """The states of the sessions that one broker keeps, by client id."""

    def __init__(self) -> None:
        self._states: OrderedDict[str, SessionState] = OrderedDict()
        self._host: BrokerHost | None = None
        self._marks: Marks | None = None
        self._expirations: dict[str, float] = {}
        """When the sessions of absent clients expire, by client id."""
        self._timer: BackgroundTask | None = None
        self._wakes_at = 0.0
        """When the timer looks for expired sessions."""
        self._delayed: dict[str, tuple[BackgroundTask, Callable[[], object]]] = {}
        """The wills of absent clients that are sent later, by client id."""

    # the broker
    def start(self, host: BrokerHost) -> None:
        """Read the records of a former broker, and end its sessions when they expire."""
        self._host, region = host, host.region_broker
        self._states.clear()
        self._expirations.clear()
        self._marks = None if region.store_capabilities.is_volatile else Marks(region)
        if self._marks is None:
            return
        for mark, message_id in self._marks.read():
            try:
                self.keep(mark.client_id).restore(mark, message_id)
            except Exception:  # no stored data may prevent a start
                logger.exception("%s of %s is no record", message_id, MARKS)
        for client_id, state in self._states.items():
            left = state.seconds_left
            if left is not None:
                self._expire_in(client_id, left)

    async def close(self) -> None:
        """Send no more wills and end no more sessions, as the broker stops."""
        delayed, self._delayed = [task for task, _ in self._delayed.values()], {}
        timer, self._timer = self._timer, None
        await end_tasks(timer, *delayed)

    # the end of sessions
    def expire_later(self, client_id: str, seconds: int) -> None:
        """Keep the session of a client that has left for so many seconds."""
        never, state = seconds == NEVER_EXPIRES, self._states.get(client_id)
        if state is None:  # one too many
            return
        try:
            state.keep_for(seconds, 0 if never else _clock.time_ms())
        except JMSException as error:
            logger.warning("The expiry of the session of %s: %s", client_id[:100], error)
        if not never:
            self._expire_in(client_id, seconds)

    def _expire_in(self, client_id: str, seconds: float) -> None:
        when = self._expirations[client_id] = _clock.now() + seconds
        if self._host is None:
            return
        if self._timer is None or max(when, _clock.now() + _INTERVAL) < self._wakes_at:
            if self._timer is not None:
                self._timer.cancel()
            self._wakes_at = max(when, _clock.now() + _INTERVAL)
            self._timer = spawn(self._end_expired, name="expiry of MQTT sessions")

    async def _end_expired(self) -> None:
        while self._expirations:
            earliest = min(self._expirations.values())
            self._wakes_at = max(earliest, _clock.now() + _INTERVAL)
            await _clock.sleep(self._wakes_at - _clock.now())
            for client_id in self.expired():
                self.end_if_expired(client_id)
        self._timer = None

    def expired(self) -> list[str]:
        """Return the clients whose sessions have expired and are not ended yet."""
        now = _clock.now()
        return [each for each, when in self._expirations.items() if when <= now]

    def end_if_expired(self, client_id: str) -> None:
        """Delete the session of an absent client if it has expired."""
        when = self._expirations.get(client_id)
        if self._host is None or when is None or when > _clock.now():
            return
        self.drop(client_id)
        delete_kept(self._host, client_id)

    # wills
    def call_later(self, client_id: str, seconds: float, action: Callable[[], object]) -> None:
        """Call a function in so many seconds, or when the session ends before.

        It is not called if the client resumes its session by then, and at once if too many wait.
        """
        self._cancel(client_id)
        if len(self._delayed) >= _MOST_KEPT:
            action()
            return

        async def wait() -> None:
            await _clock.sleep(seconds)
            self._delayed.pop(client_id, None)
            action()

        task = spawn(wait, name=f"delayed will of {client_id[:100]}")
        self._delayed[client_id] = task, action

    def _cancel(self, client_id: str) -> Callable[[], object] | None:
        task, action = self._delayed.pop(client_id, (None, None))
        if task is not None:
            task.cancel()
        return action

    # sessions
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
        """Forget a session, if it was kept, and send its will if that waits."""
        self._expirations.pop(client_id, None)
        send_will = self._cancel(client_id)
        if send_will is not None:
            send_will()
        state = self._states.pop(client_id, None)
        if state is not None:
            state.close()
