"""What the broker remembers of MQTT sessions: the packet ids in use, in both directions.

    direction             remembered                       until
    from the client       ids of QoS 2 messages            PUBREL
    to the client         ids of QoS 1 and 2 messages      PUBACK, PUBCOMP

A session that is kept has its ids when the client connects again, so that a message that was sent
twice in either direction keeps its id, and one of QoS 2 is delivered once. (mqtt-connector M62,
M82, M85)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ConsumerId, MessageId

_MOST_KEPT: Final = 10_000
"""The maximum number of sessions of absent clients whose ids are kept."""
_HIGHEST_ID: Final = 65535
MOST_RECEIVED: Final = 10_000
"""The maximum number of ids of a client for which it has not sent PUBREL."""


class Sent:
    """A message of QoS 1 or 2 that was sent to the client and not finally acknowledged."""

    __slots__ = ("consumer_id", "destination", "is_released", "key", "message_id", "qos")

    def __init__(
        self,
        key: str,
        message_id: MessageId,
        qos: int,
        consumer_id: ConsumerId,
        destination: Destination | None,
    ) -> None:
        self.key = key
        """The subscription; see `Subscription.key`."""
        self.message_id = message_id
        self.qos = qos
        self.consumer_id: ConsumerId | None = consumer_id
        """The consumer that sent it; None: one of a former connection."""
        self.destination = destination
        self.is_released = False
        """Whether PUBREC has come, so that PUBREL is sent and not the message."""


class SessionState:
    """The packet ids of one session."""

    def __init__(self) -> None:
        self.received: dict[int, MessageId | None] = {}
        """The ids of QoS 2 messages before PUBREL, and the message while it is not stored."""
        self.sent: dict[int, Sent] = {}
        self._last = 0
        self._by_message: dict[tuple[str, MessageId], int] = {}

    def __bool__(self) -> bool:
        return bool(self.received or self.sent)

    def find(self, key: str, message_id: MessageId) -> int:
        """Return the id under which a former connection has sent a message; 0: none has."""
        packet_id = self._by_message.get((key, message_id), 0)
        return packet_id if packet_id and self.sent[packet_id].consumer_id is None else 0

    def free_id(self) -> int:
        """Return an id that is not in use; 0: there is none."""
        if len(self.sent) == _HIGHEST_ID:
            return 0
        while True:
            self._last = self._last % _HIGHEST_ID + 1
            if self._last not in self.sent:
                return self._last

    def add(self, packet_id: int, sent: Sent) -> None:
        """Record that a message was sent."""
        self.sent[packet_id] = sent
        self._by_message[sent.key, sent.message_id] = packet_id

    def remove(self, packet_id: int) -> None:
        """Forget a message that is finally acknowledged."""
        sent = self.sent.pop(packet_id)
        if self._by_message.get((sent.key, sent.message_id)) == packet_id:
            del self._by_message[sent.key, sent.message_id]

    def remove_of(self, key: str) -> None:
        """Forget the messages of a subscription that was removed, unless they are released."""
        for packet_id in [i for i, s in self.sent.items() if s.key == key and not s.is_released]:
            self.remove(packet_id)

    def end_connection(self, refused: Collection[MessageId | None]) -> None:
        """Prepare for the client's next connection; `refused` are messages that were not stored."""
        for sent in self.sent.values():
            sent.consumer_id = None
        for packet_id, message_id in list(self.received.items()):
            if message_id is not None:
                if message_id in refused:
                    del self.received[packet_id]
                else:  # the store is writing it
                    self.received[packet_id] = None


class KeptSessions:
    """The states of the sessions that one broker keeps, by client id."""

    def __init__(self) -> None:
        self._states: OrderedDict[str, SessionState] = OrderedDict()

    def get(self, client_id: str) -> SessionState | None:
        """Return the state of a session that is kept."""
        return self._states.get(client_id)

    def keep(self, client_id: str) -> SessionState:
        """Return the state of a session, which is kept from now on."""
        state = self._states.setdefault(client_id, SessionState())
        self._states.move_to_end(client_id)
        if len(self._states) > _MOST_KEPT:
            self._states.popitem(last=False)
        return state

    def drop(self, client_id: str) -> None:
        """Forget a session, if it was kept."""
        self._states.pop(client_id, None)
