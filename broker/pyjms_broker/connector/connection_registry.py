"""All connections of one broker by connection id, across its connectors. (activemq-broker C8)

It also stores data for producers that fail over and resend messages without a response: sends that
the store is still writing, and sends that never reached the store. (activemq-broker T27)
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms.destination import Destination
from pyjms.runtime.event_loop import LoopHandle, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionId, MessageId, ProducerId
from pyjms_broker.api.completion import COMPLETED, Completion, all_of
from pyjms_broker.api.context import BlockedSend, ClientConnection, ConnectionContext
from pyjms_broker.connector.mqtt.marks import MARKS

if TYPE_CHECKING:
    from pyjms_broker.connector.base import BrokerHost
    from pyjms_broker.connector.mqtt.sessions import KeptSessions

logger = get_logger(__name__)

_CAPACITY: Final = 50_000
"""The maximum number of recorded sends of all producers; a connection has about 1000 at most."""

_FORMER: Final = 10_000
"""The maximum number of ended connections whose users are remembered."""


class UnstoredSends:
    """Sequence numbers by producer of sends that waited for space when their connection was lost.

    They are not stored, although a later send of the same producer may be. The highest stored
    sequence number of a producer therefore does not suffice to tell whether a send that a
    reconnected client repeats is a duplicate.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        """Record at most `capacity` sends; the oldest producers are dropped first."""
        self._capacity = capacity
        self._count = 0
        self._by_producer: dict[ProducerId, set[int]] = {}

    def record(self, sends: Iterable[BlockedSend]) -> None:
        """Record those of `sends` that are persistent and were never accepted."""
        for send in sends:
            message, message_id = send.message, send.message.message_id
            if send.is_admitted or not message.persistent:
                continue
            if message.producer_id is not None and message_id is not None:
                self._add(message.producer_id, message_id.producer_sequence_id)

    def producer_returned(self, producer_id: ProducerId, last_stored: int) -> None:
        """Drop the producer's numbers above `last_stored`, whose sends are accepted anyway."""
        numbers = self._by_producer.pop(producer_id, None)
        if numbers is not None:
            self._count -= len(numbers)
            for sequence in numbers:
                if sequence <= last_stored:
                    self._add(producer_id, sequence)

    def pop(self, producer_id: ProducerId | None, sequence: int) -> bool:
        """Remove a send, as it is stored now; return whether it was recorded as unstored."""
        numbers = None if producer_id is None else self._by_producer.get(producer_id)
        if producer_id is None or numbers is None or sequence not in numbers:
            return False
        numbers.remove(sequence)
        self._count -= 1
        if not numbers:
            del self._by_producer[producer_id]
        return True

    def _add(self, producer_id: ProducerId, sequence: int) -> None:
        numbers = self._by_producer.setdefault(producer_id, set())
        if sequence not in numbers:
            numbers.add(sequence)
            self._count += 1
        while self._count > self._capacity:
            self._count -= len(self._by_producer.pop(next(iter(self._by_producer))))


_STEPS_AT_ONCE: Final = 100
_END: Final = object()


class ConnectionEnds:
    """Ends lost connections, step by step: at once, or in slices if the steps are many.

    A client may have thousands of consumers, and a host thousands of clients.
    """

    def __init__(self) -> None:
        self._in_turn = 0
        """The number of steps in the loop's present turn."""
        self._waiting: deque[Iterator[None]] = deque()

    def add(self, steps: Iterator[None]) -> None:
        """Take the steps that end a connection, now or later."""
        if not self._in_turn:
            LoopHandle().call_next(self._on_next_turn)
        while not self._waiting and self._in_turn < _STEPS_AT_ONCE:
            self._in_turn += 1
            if next(steps, _END) is _END:
                return
        self._waiting.append(steps)
        if len(self._waiting) == 1:
            spawn(self._end_all, name="broker removes lost connections")

    def _on_next_turn(self) -> None:
        self._in_turn = 0

    async def _end_all(self) -> None:
        slices = Slices(items=_STEPS_AT_ONCE)
        while self._waiting:
            await slices.after_item()
            try:
                if next(self._waiting[0], _END) is not _END:
                    continue
            except Exception:
                logger.exception("Ending a lost connection failed")
            self._waiting.popleft()


class ConnectionRegistry:
    """All live connections of one broker by connection id.

    On a broker with users, a connection id belongs to the user who has or had a connection with it,
    and so do the ids that begin with it: of producers and messages. Advisories tell these ids.
    """

    def __init__(self) -> None:
        self.ends = ConnectionEnds()
        self._host: BrokerHost | None = None
        self._mqtt_sessions: KeptSessions | None = None
        self.by_id: dict[ConnectionId, ClientConnection] = {}
        self._users: dict[str, str] = {}
        self._former_users: OrderedDict[str, str] = OrderedDict()
        """Of ids whose connections have ended; their clients may reconnect."""
        self.total = 0
        """The number of connections so far."""
        self.pending_sends: dict[ProducerId | None, Completion] = {}
        """For producers whose connection was lost: completed when the store has written their
        sends. None is never a key."""
        self.unstored_sends = UnstoredSends()
        """Sends of such producers that are not stored, although later ones may be."""

    def start(self, host: BrokerHost) -> None:
        """Serve the clients of `host`, and go on with the MQTT sessions that its store has kept."""
        self._host, self._mqtt_sessions = host, None
        if MARKS in host.region_broker.destinations():
            self._go_on_with_mqtt_sessions()

    @property
    def mqtt_sessions(self) -> KeptSessions:
        """The sessions that MQTT clients keep."""
        return self._mqtt_sessions or self._go_on_with_mqtt_sessions()

    def _go_on_with_mqtt_sessions(self) -> KeptSessions:
        # imported here, so that a broker starts without MQTT
        from pyjms_broker.connector.mqtt.sessions import KeptSessions  # noqa: PLC0415

        sessions = self._mqtt_sessions = KeptSessions()
        if self._host is not None:
            sessions.start(self._host)
        return sessions

    async def close(self) -> None:
        """Send no more wills of MQTT clients and end no more sessions, as the broker stops."""
        if self._mqtt_sessions is not None:
            await self._mqtt_sessions.close()

    def user_of(self, connection_id: str) -> str | None:
        """Return the user to whom a connection id belongs; None: it is unknown."""
        return self._users.get(connection_id) or self._former_users.get(connection_id)

    def claim(
        self, connection_id: ConnectionId, connection: ClientConnection, user: str | None = None
    ) -> None:
        """Register `connection`, replacing (and closing) an older one with the same id.

        Raises:
            JMSSecurityException: the id belongs to another user than the authenticated `user`.
        """
        if user is not None and self.user_of(str(connection_id.value)) not in {None, user}:
            raise JMSSecurityException(
                f"Connection id {connection_id} belongs to another user than {user}",
                hint="connect with a new connection id",
            )
        former = self.by_id.get(connection_id)
        if former is not None and former is not connection:
            former.give_way(
                JMSException("Another connection has the same connection id; this one is closed")
            )
        self.by_id[connection_id] = connection
        if user is not None:
            self._users[str(connection_id.value)] = user
        self.total += 1

    def check_message_id(self, context: ConnectionContext, message: ActiveMQMessage) -> None:
        """Check that a user sends no message with an id of another's connection.

        It would count as the one that the other producer sends later. Bridges send ids of other
        brokers' connections; if a client of the other broker has come here, what a bridge has of
        its earlier messages gets ids of the bridge's own.

        Raises:
            JMSSecurityException: the id is of a connection that is not the user's.
        """
        message_id, own, user = message.message_id, message.producer_id, context.user
        if user is None or own is None or message_id is None:
            return
        producer = message_id.producer_id or own
        names = {producer.connection_id}
        if message_id.text_view is not None:
            names.add(str(message_id).rsplit(":", 3)[0])
        owner = self.user_of(str(producer.connection_id))
        is_others = any(self.user_of(str(name)) not in {None, user} for name in names)
        if not is_others and (owner is not None or context.network_connection):
            return
        if context.access is not None and context.access.is_administrator:
            return
        if not context.network_connection:
            raise JMSSecurityException(
                f"User {user} cannot send a message with the id {message_id} of another connection"
            )
        connection = f"{own.connection_id}|{producer.connection_id}"
        renamed = ProducerId(connection, producer.value, producer.session_id)
        message.message_id = MessageId(None, renamed, message_id.producer_sequence_id)
        message.raw = None

    def release(
        self,
        connection_id: ConnectionId,
        connection: ClientConnection,
        *,
        refused: bool = False,
    ) -> None:
        """Remove `connection`, unless a newer one has its id, which stays its user's."""
        if self.by_id.get(connection_id) is connection:
            del self.by_id[connection_id]
            user = self._users.pop(str(connection_id.value), None)
            if user is not None and not refused:
                self._former_users[str(connection_id.value)] = user
                self._former_users.move_to_end(str(connection_id.value))
                if len(self._former_users) > _FORMER:
                    self._former_users.popitem(last=False)

    def owner_of(self, destination: Destination) -> ClientConnection | None:
        """Return the connection that created a temporary destination, or None."""
        for connection in self.by_id.values():
            if connection.owns_temporary(destination):
                return connection
        return None

    def connection_lost(
        self, pending: Mapping[ProducerId, Iterable[Completion]], waiting: Iterable[BlockedSend]
    ) -> None:
        """Record the unfinished sends of producers that may reconnect.

        Args:
            pending: the sends that the store has not confirmed yet, by producer.
            waiting: the sends that were still waiting for space, which are not stored.
        """
        self.unstored_sends.record(waiting)
        for producer_id, sends in pending.items():
            self._record_pending(producer_id, sends)

    def _record_pending(self, producer_id: ProducerId, sends: Iterable[Completion]) -> None:
        whole = all_of([send for send in sends if not send.done])
        if whole is COMPLETED:
            return
        self.pending_sends[producer_id] = whole

        def forget(_done: Completion) -> None:
            if self.pending_sends.get(producer_id) is whole:
                del self.pending_sends[producer_id]

        whole.then(forget)
