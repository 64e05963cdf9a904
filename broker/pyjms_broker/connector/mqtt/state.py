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

import base64
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.wire.mqtt import V5, Filter, MqttFormat, Will
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.connector.mqtt.marks import (
    DONE,
    FILTER,
    RECEIVED,
    RELEASED,
    SENT,
    SESSION,
    WILL,
    Mark,
    Marks,
    Place,
    Stored,
)

if TYPE_CHECKING:
    from pyjms_broker.connector.mqtt.deliveries import Subscription

_ROW: Final = 300
"""Bytes in memory of what is remembered of a subscription, without its text."""
_HIGHEST_ID: Final = 65535
MOST_RECEIVED: Final = 10_000
"""The maximum number of ids of a client for which it has not sent PUBREL."""
EXACTLY_ONCE: Final = 2
NEVER_EXPIRES: Final = 0xFFFFFFFF
"""The session expiry interval of sessions that never expire, as those of 3.1 and 3.1.1."""


class Sent:
    """A message of QoS 1 or 2 that was sent to the client and not finally acknowledged."""

    __slots__ = ("destination", "is_released", "key", "message_id", "qos", "subscription")

    def __init__(
        self,
        key: str,
        message_id: MessageId,
        qos: int,
        subscription: Subscription | None,
        destination: Destination | None,
    ) -> None:
        self.key = key
        """The subscription; see `Subscription.key`."""
        self.message_id = message_id
        self.qos = qos
        self.subscription = subscription
        """The subscription that sent it; None: one of a former connection."""
        self.destination = destination
        self.is_released = False
        """Whether PUBREC has come, so that PUBREL is sent and not the message."""


class SessionState:
    """The packet ids of one session.

    Args:
        client_id: the client's id.
        marks: the records of QoS 2; None: there are none.
    """

    def __init__(self, client_id: str = "", *, marks: Marks | None = None) -> None:
        self.received: dict[int, MessageId | None] = {}
        """The ids of QoS 2 messages before PUBREL, and the message while it is not stored."""
        self.sent: dict[int, Sent] = {}
        self.filters: dict[str, tuple[Filter, list[int]]] = {}
        """The subscriptions of 5.0 with their identifiers, as the store has not all of it."""
        self.will = ""
        """When a recorded will is due (ms), the strategy of its topic, and its packet."""
        self._client_id = client_id
        self._marks = marks
        self._marked: dict[Place, Stored] = {}
        self._term = ""
        """The recorded expiry, and when the connection has ended (ms; 0: it has not)."""
        self._last = 0
        self.former: dict[tuple[str, str], int] = {}
        """The ids of what former connections have sent, by subscription and message."""

    @property
    def size(self) -> int:
        """An estimate of the bytes that it takes in memory."""
        filters = sum(len(text) for text in self.filters) + _ROW * len(self.filters)
        ids = _ROW // 2 * len(self.received) + 2 * _ROW * len(self.sent)
        return 2 * _ROW + len(self.will) + filters + ids

    @property
    def has_marks(self) -> bool:
        """Whether ids of QoS 2 are recorded."""
        return self._marks is not None

    # to the client
    def find(self, key: str, message_id: MessageId) -> int:
        """Return the id under which a former connection has sent a message; 0: none has."""
        return self.former.get((key, str(message_id)), 0) if self.former else 0

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
        if self.former:
            self.former.pop((sent.key, str(sent.message_id)), None)
        if sent.qos == EXACTLY_ONCE and not is_marked:
            return self._mark_sent(packet_id, sent, SENT)
        return COMPLETED

    def release(self, packet_id: int, sent: Sent) -> Completion:
        """Record PUBREC for a message; send PUBREL when the result is completed."""
        sent.is_released = True
        return COMPLETED if self._marks is None else self._mark_sent(packet_id, sent, RELEASED)

    def _mark_sent(self, packet_id: int, sent: Sent, kind: str) -> Completion:
        if self._marks is None:
            return COMPLETED
        mark = Mark(self._client_id, kind, packet_id, sent.key, str(sent.message_id))
        return self._replace_mark(self._marks, mark)

    def remove(self, packet_id: int) -> None:
        """Forget a message that is finally acknowledged."""
        sent = self.sent.pop(packet_id)
        if self.former and self.find(sent.key, sent.message_id) == packet_id:
            del self.former[sent.key, str(sent.message_id)]
        if self._marked:
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
        mark = Mark(self._client_id, FILTER, 0, wanted.text, _text_of(wanted, identifiers))
        if self.filters.get(wanted.text) == (wanted, identifiers):
            stored = self._marked.get(mark.place)
            return COMPLETED if stored is None else stored.stored
        self.filters[wanted.text] = wanted, identifiers
        return COMPLETED if self._marks is None else self._replace_mark(self._marks, mark)

    def forget_filter(self, text: str) -> None:
        """Forget a subscription that was removed."""
        if self.filters.pop(text, None) is not None:
            self._unmark((FILTER, 0, text))

    def keep_will(self, will: Will, delay: float, strategy: str) -> None:
        """Record a will that is sent in so many seconds."""
        if self._marks is not None:
            data = bytearray()
            MqttFormat(level=V5).encode_into(data, will.publish())
            due = _clock.time_ms() + round(1000 * delay)
            self.will = f"{due} {strategy} {base64.b64encode(data).decode()}"
            self._replace_mark(self._marks, Mark(self._client_id, WILL, 0, message=self.will))

    def forget_will(self) -> None:
        """Forget a will that was sent, or that is not wanted any more."""
        if self.will:
            self.will = ""
            self._unmark((WILL, 0, ""))

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
        elif mark.kind == WILL:
            self.will = mark.message
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
            self.former[mark.key, mark.message] = mark.packet_id

    # the end
    def end_connection(self, refused: Collection[MessageId | None]) -> None:
        """Prepare for the client's next connection; `refused` are messages that were not stored."""
        for packet_id, sent in self.sent.items():
            sent.subscription = None
            self.former[sent.key, str(sent.message_id)] = packet_id
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


def _text_of(wanted: Filter, identifiers: list[int]) -> str:
    options = wanted.qos, wanted.no_local, wanted.retain_as_published, wanted.retain_handling
    return json.dumps([*options, *identifiers])


def _read(mark: Mark) -> tuple[Filter, list[int]]:
    qos, no_local, as_published, handling, *identifiers = json.loads(mark.message)
    return Filter(mark.key, qos, no_local, as_published, handling), identifiers
