"""The MQTT sessions of one broker that outlive their connections: their states, ends and wills.

A session of 3.1 and 3.1.1 is kept until the client connects with clean session, one of 5.0 for its
expiry. The will of a client of 5.0 that was lost may wait for its delay; a broker with a persistent
store sends it after a restart, too. (mqtt-connector M141)
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.mqtt import V5, MqttFormat, Publish
from pyjms.wire.openwire.commands import ActiveMQMessage, ProducerInfo
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.connector.mqtt.marks import MARKS, Marks
from pyjms_broker.connector.mqtt.messages import to_message
from pyjms_broker.connector.mqtt.state import NEVER_EXPIRES, SessionState
from pyjms_broker.connector.mqtt.topics import STRATEGIES, delete_kept

if TYPE_CHECKING:
    from pyjms_broker.connector.base import BrokerHost

logger = get_logger(__name__)

_MOST_ABSENT: Final = 10_000
"""The maximum number of sessions of absent clients whose ids, options and expiry are remembered."""
_MOST_BYTES: Final = 64 * 1024 * 1024
"""The memory that they take at most, by an estimate; the same for wills that wait."""
_INTERVAL: Final = 1.0
"""Seconds between two looks for expired sessions, at least."""


class Waiting(NamedTuple):
    """The will of an absent client that is sent later."""

    task: BackgroundTask
    send: Callable[[], object]
    size: int


class KeptSessions:
    """The states of the sessions that one broker keeps, by client id.

    Those of clients that are there are as many as the connections. Of absent clients, those that
    left first are forgotten when there are too many, or their states take too much memory.
    """

    def __init__(self) -> None:
        self._states: dict[str, SessionState] = {}
        self._absent: OrderedDict[str, int] = OrderedDict()
        """The sizes of the states of absent clients, in the order in which these have left."""
        self._absent_size = 0
        self._host: BrokerHost | None = None
        self._marks: Marks | None = None
        self._expirations: dict[str, float] = {}
        """When the sessions of absent clients expire, by client id."""
        self._timer: BackgroundTask | None = None
        self._wakes_at = 0.0
        """When the timer looks for expired sessions."""
        self._wills: dict[str, Waiting] = {}
        """The wills of absent clients that are sent later, by client id."""
        self._wills_size = 0

    # the broker
    def start(self, host: BrokerHost) -> None:
        """Read the records of a former broker, end its sessions when they expire, and send its
        wills.
        """
        self._host, region = host, host.region_broker
        self._states.clear()
        self._absent.clear()
        self._absent_size = 0
        self._expirations.clear()
        self._marks = None if region.store_capabilities.is_volatile else Marks(region)
        if self._marks is None:
            return
        for mark, message_id in self._marks.read():
            try:
                self.keep(mark.client_id).restore(mark, message_id)
            except Exception:  # no stored data may prevent a start
                logger.exception("%s of %s is no record", message_id, MARKS)
        for client_id, state in list(self._states.items()):
            left = state.seconds_left
            if left is not None:
                self._expire_in(client_id, left)
            self._leave(client_id, state)
            try:
                self._restore_will(client_id, state, host, self._marks)
            except Exception:  # no stored data may prevent a start
                logger.exception("The will of %s cannot be read", client_id[:100])

    def _restore_will(
        self, client_id: str, state: SessionState, host: BrokerHost, marks: Marks
    ) -> None:
        """Send the will of a former broker's client when it is due."""
        if not state.will:
            return
        due, strategy, data = state.will.split()
        (packet,) = MqttFormat(level=V5).receive_data(base64.b64decode(data))
        assert isinstance(packet, Publish)
        topics = STRATEGIES[strategy]
        topic, now = topics.topic(packet.topic), _clock.time_ms()
        message = to_message(packet, topic, topics, marks.next_id(), now)
        region = host.region_broker
        exchange = ProducerExchange(region.context, ProducerInfo(message.producer_id))
        seconds = max(0.0, (int(due) - now) / 1000)
        self.send_later(client_id, seconds, message, exchange, len(data))

    async def close(self) -> None:
        """Send no more wills and end no more sessions, as the broker stops."""
        waiting, self._wills = [each.task for each in self._wills.values()], {}
        timer, self._timer = self._timer, None
        await end_tasks(timer, *waiting)

    # the end of sessions
    def expire_later(self, client_id: str, seconds: int) -> None:
        """Keep the session of a client that has left for so many seconds."""
        never, state = seconds == NEVER_EXPIRES, self._states.get(client_id)
        if state is None:  # it was forgotten meanwhile
            return
        try:
            state.keep_for(seconds, 0 if never else _clock.time_ms())
        except JMSException as error:
            logger.warning("The expiry of the session of %s: %s", client_id[:100], error)
        if not never:
            self._expire_in(client_id, seconds)
        self._leave(client_id, state)

    def _leave(self, client_id: str, state: SessionState) -> None:
        """Count a state as that of an absent client; forget others if they are too many."""
        self._return(client_id)
        size = self._absent[client_id] = state.size
        self._absent_size += size
        while len(self._absent) > _MOST_ABSENT or self._absent_size > _MOST_BYTES:
            oldest = next(iter(self._absent))
            logger.warning("The state of the MQTT session of %s is forgotten", oldest[:100])
            self._return(oldest)
            self._expirations.pop(oldest, None)
            self._states.pop(oldest).close()

    def _return(self, client_id: str) -> None:
        """Count a state no longer as that of an absent client."""
        self._absent_size -= self._absent.pop(client_id, 0)

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
            for client_id in self.expired_clients():
                self.end_if_expired(client_id)
        self._timer = None

    def expired_clients(self) -> list[str]:
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
    def send_later(
        self,
        client_id: str,
        seconds: float,
        message: ActiveMQMessage,
        exchange: ProducerExchange,
        size: int,
    ) -> None:
        """Send the will of an absent client in so many seconds, or when the session ends before.

        It is not sent if the client resumes its session by then, and at once if too many wait.
        """
        self._take_will(client_id)

        def send() -> None:
            try:
                if self._host is not None:
                    self._host.broker.send(exchange, message)
            except JMSException as error:
                logger.warning("The will of %s is refused: %s", client_id[:100], error)
            state = self._states.get(client_id)
            if state is not None:
                state.forget_will()

        if len(self._wills) >= _MOST_ABSENT or self._wills_size + size > _MOST_BYTES:
            send()
            return

        async def wait() -> None:
            await _clock.sleep(seconds)
            self._take_will(client_id)
            send()

        task = spawn(wait, name=f"delayed will of {client_id[:100]}")
        self._wills[client_id] = Waiting(task, send, size)
        self._wills_size += size

    def _take_will(self, client_id: str) -> Waiting | None:
        """Return a will that waits no longer."""
        waiting = self._wills.pop(client_id, None)
        if waiting is not None:
            self._wills_size -= waiting.size
        return waiting

    # sessions
    def get(self, client_id: str) -> SessionState | None:
        """Return the state of a session that is kept."""
        return self._states.get(client_id)

    def keep(self, client_id: str) -> SessionState:
        """Return the state of a client's session, which is kept when the client leaves."""
        self._expirations.pop(client_id, None)
        self._return(client_id)
        waiting = self._take_will(client_id)
        state = self._states.get(client_id)
        if state is None:
            state = SessionState(client_id, marks=self._marks)
            self._states[client_id] = state
        elif waiting is not None:
            waiting.task.cancel()
            state.forget_will()
        return state

    def drop(self, client_id: str) -> None:
        """Forget a session, if it was kept, and send its will if that waits."""
        self._expirations.pop(client_id, None)
        self._return(client_id)
        waiting = self._take_will(client_id)
        if waiting is not None:
            waiting.task.cancel()
            waiting.send()
        state = self._states.pop(client_id, None)
        if state is not None:
            state.close()
