"""The failover transport: connects to one of several brokers, and to another if that is lost.

    state          sending                              ends with
    ------------   ----------------------------------   ------------------------------------------
    CONNECTING     requests and messages wait           a broker has accepted the client; or the
                   acknowledgements are dropped         policy allows no further attempt: FAILED
    CONNECTED      goes to the broker's transport       that transport fails: CONNECTING, or FAILED
                                                        if no reconnection is allowed
    FAILED         raises                               stop()

Commands are recorded (`ClientState`), then passed to the current transport. For a new broker the
record is replayed (`replay`), followed by the pending requests, all without an await.

Acknowledgements, removals and rollbacks are not replayed, because they refer to state that the new
broker does not have. Their callers get a response at once; the outcome is the same. A commit that
the lost broker may have executed is not repeated either: it ends in a
TransactionRolledBackException. (activemq-edges F1 to F8, U4; activemq-broker X9)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConnectionFailedException
from pyjms.transport.failover import in_flight
from pyjms.transport.failover.connector import Connector
from pyjms.transport.failover.deadlines import OutageDeadlines
from pyjms.transport.failover.options import FailoverOptions
from pyjms.transport.failover.peer import Peer
from pyjms.transport.failover.replay import Replay
from pyjms.transport.failover.requests import HeldMessages, OnResponse, OpenRequests, Request
from pyjms.transport.failover.state import ClientState
from pyjms.transport.failover.waiting import ReconnectPolicy
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.openwire.reconnecting import ReconnectingTransport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionControl,
    ConsumerControl,
    MessageDispatch,
    Response,
)

__all__ = ["FailoverTransport"]

logger: Final = get_logger(__name__)


class FailoverTransport(ReconnectingTransport):
    """Reconnects to one of several brokers if its broker is lost. Belongs to one loop."""

    def __init__(self, connector: Connector, options: FailoverOptions) -> None:
        self._connector = connector
        self._options = options
        self._state = ClientState(options)
        self._requests = OpenRequests()
        self._held = HeldMessages()
        self._pulls = self._state.pulls
        self._replay = Replay(self._state, self._requests, self._held, self)
        self._peer: Peer | None = None
        self._current: RequestTransport | None = None
        self._settled = anyio.Event()  # set while connected, and after the transport has failed
        self._error: Exception | None = None
        self._is_starting = True
        self._is_stopped = False
        self._is_paused = False
        self._lost_at = 0.0
        self._connecting: BackgroundTask | None = None
        self._maintenance: BackgroundTask | None = None
        self._deadlines: OutageDeadlines | None = None
        self._watch: BackgroundTask | None = None

    # --- life cycle

    async def start(self) -> None:
        """Connect to one of the brokers; wait until that succeeds or the policy is exhausted."""
        self._check_usable()
        self._lost_at = _clock.now()
        self._begin(ReconnectPolicy(self._options, is_first=True), None)
        await self._settled.wait()
        self._is_starting = False
        if self._error is not None:
            raise in_flight.failed_again(self._error)

    async def stop(self) -> None:
        self._is_stopped = True
        self._current = None
        try:
            await end_tasks(self._connecting, self._maintenance, self._watch)
        finally:
            with anyio.CancelScope(shield=True):
                await self._connector.stop()
                if self._peer is not None:
                    await self._peer.stop()
            self._end(in_flight.stopped(self.remote_address))

    @property
    def remote_address(self) -> str:
        if self._peer is None:
            return f"failover:({self._connector.brokers})"
        return self._peer.transport.remote_address

    @property
    def wire_version(self) -> int:
        return super().wire_version if self._current is None else self._current.wire_version

    # --- sending

    def oneway(self, command: Command) -> None:
        self._check_usable()
        is_replayed = self._state.record(command, is_request=False)
        current = self._current
        if current is not None:
            try:
                current.oneway(command)
            except ConnectionFailedException as error:
                self._lost(command, error)
            except Exception:
                self._state.untrack(command)
                raise
            else:
                return
        if isinstance(command, ActiveMQMessage):
            self._held.add(command, is_replayed=is_replayed)
        if self._deadlines is not None:
            self._deadlines.changed()

    def request_soon(self, command: Command, on_response: OnResponse) -> None:
        self._check_usable()
        self._state.record(command, is_request=True)
        if self._current is None and in_flight.is_done_by_loss(command):
            self._state.completed(command)
            on_response(Response())
            return
        request = self._requests.add(command, on_response)
        if self._current is None:
            if self._deadlines is not None:
                self._deadlines.changed()
            return
        try:
            self.send_request(self._current, request, command)
        except ConnectionFailedException as error:
            self._lost(command, error)
        except Exception:
            self._requests.pop(request.number)
            self._state.untrack(command)
            raise

    def abandon(self, command: Command) -> None:
        request = self._requests.abandon(command)
        self._state.completed(command)  # a transaction that it ends is not replayed
        if request and not request.was_sent and isinstance(command, ActiveMQMessage):
            self._state.untrack(command)

    def withdraw(self, command: Command) -> bool:
        if held := self._held.remove(command):
            self._state.untrack(held)
        return held is not None

    def flush(self) -> None:
        if self._current is not None:
            self._current.flush()

    def defer(self, function: Callable[[], object]) -> bool:
        return self._current is not None and self._current.defer(function)

    @property
    def congested(self) -> bool:
        return self._current is None or self._current.congested

    async def drained(self) -> None:
        """Wait until there is a broker whose transport is drained.

        Raises:
            ConnectionFailedException: there is none within the option `timeout` (then `withdraw`
                the message); or the transport has ended, and waiting messages are not sent.
        """
        timeout = self._options.timeout
        deadline = None if timeout is None else _clock.now() + timeout
        while self._error is None and not self._is_stopped:
            current = self._current
            if current is not None:
                if not current.congested:
                    return
                await current.drained()
                continue
            left = None if deadline is None else deadline - _clock.now()
            if timeout is not None and left is not None and left <= 0:
                raise in_flight.timed_out(timeout, self._connector.brokers)
            with _clock.timeout(left):
                await self._settled.wait()
        raise in_flight.failed_again(self._error or in_flight.stopped(self.remote_address))

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._current is not None:
            self._current.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._current is not None:
            self._current.resume_reading()

    def _lost(self, command: Command, error: Exception) -> None:
        """Stop sending to the current broker, whose `on_exception` is about to be called."""
        logger.debug("%s is not sent yet: %s", type(command).__name__, error)
        self._current = None
        self._settled = anyio.Event()

    def send_request(self, transport: RequestTransport, request: Request, command: Command) -> None:
        """Send `command`, the request's command or a copy, by the transport of one broker."""
        transport.request_soon(command, partial(self._on_response, request))
        request.was_repeated, request.was_sent = request.was_sent, True

    def _check_usable(self) -> None:
        if self._error is not None:
            raise in_flight.failed_again(self._error)

    # --- receiving

    def on_command(self, command: Command) -> None:
        """Pass on a command of the current broker, after updating the state for a replay."""
        if type(command) is MessageDispatch:
            if self._pulls:
                self._pulls.on_dispatch(command)
        elif type(command) is ConnectionControl:
            target = self._connector.follow(command)
            if target is not None:
                self._move_to(target)
        elif type(command) is ConsumerControl and command.close and command.consumer_id:
            self._state.remove_consumer(command.consumer_id)
        self.listener.on_command(command)

    def on_exception(self, error: Exception) -> None:
        """Reconnect, because the current broker is lost."""
        policy = ReconnectPolicy(self._options, is_first=False)
        peer = self._peer
        self._interrupt(error)
        if self._is_stopped:
            return
        if not policy.allows_any:
            self._give_up(error)
            return
        logger.log(
            self._connector.outage_log.warning(),
            "The connection to %s is lost: %s. Reconnecting to one of [%s]",
            self.remote_address,
            error,
            self._connector.brokers,
        )
        if peer is not None:
            self._connector.brokers.failed = peer.uri
        self._begin(policy, peer)

    def _on_response(self, request: Request, outcome: Response | Exception) -> None:
        if isinstance(outcome, ConnectionFailedException):
            return  # the broker's transport has failed: the next broker gets the request
        if self._requests.pop(request.number) is None:
            return
        self._state.completed(request.command)
        if isinstance(outcome, Exception):
            self._state.untrack(request.command)
        request.on_response(in_flight.outcome_of(request, outcome))

    # --- changing brokers

    def _move_to(self, uri: TransportURI) -> None:
        if self._peer is not None and uri != self._peer.uri:
            logger.info("Leaving %s for %s, as the broker asked", self.remote_address, uri)
            self._connector.asked_for = uri
            self._leave()

    def _switch(self, peer: Peer) -> None:
        logger.info("Returning to the priority broker %s", peer.uri)
        self._connector.prefer(peer)
        self._leave()

    def _leave(self) -> None:
        """Leave the current broker for another one."""
        if self._is_stopped:
            return
        peer = self._peer
        self._interrupt(
            ConnectionFailedException(f"{self.remote_address} is left for another broker")
        )
        self._begin(ReconnectPolicy(self._options, is_first=False), peer, at_once=True)

    def _begin(self, policy: ReconnectPolicy, lost: Peer | None, *, at_once: bool = False) -> None:
        self._deadlines = OutageDeadlines(
            self._requests,
            self._pulls,
            self._options.timeout,
            self._time_out,
            self.listener.on_command,
        )
        name = f"pyjms {self.remote_address}"
        self._watch = spawn(self._deadlines.run, name=f"{name} deadlines", on_error=self._give_up)
        connect = partial(self._connect, policy, lost, at_once)
        self._connecting = spawn(connect, name=f"{name} reconnecting", on_error=self._give_up)

    async def _connect(self, policy: ReconnectPolicy, lost: Peer | None, at_once: bool) -> None:
        if lost is not None:
            await lost.stop()
            if not at_once:
                await _clock.sleep(policy.delay_after(0))
        await self._connector.connect(policy, self._take_over)

    async def _take_over(self, peer: Peer) -> None:
        """Restore the client's state at a broker, and start to use the broker.

        Raises:
            JMSException: the broker refuses the client, or was lost in the meantime.
        """
        await self._replay.introduce(peer.transport)
        if self._is_stopped:  # the task is about to be cancelled
            raise in_flight.stopped(self.remote_address)
        self._replay.run(peer)
        self._use(peer)

    def _use(self, peer: Peer) -> None:
        transport = peer.transport
        self.next = transport
        self._peer, self._current = peer, transport
        transport.listener = self
        if self._is_paused:
            transport.pause_reading()
        self._end_waiting()
        if peer.broker_info is not None:
            self.listener.on_command(peer.broker_info)
        if self._is_starting:
            logger.log(self._connector.outage_log.started(), "Connected to %s", self.remote_address)
        else:
            seconds = _clock.now() - self._lost_at
            level = self._connector.outage_log.end()
            logger.log(level, "Connected again, to %s, after %.1f s", self.remote_address, seconds)
            if self.interruptions is not None:
                self.interruptions.transport_resumed()
        if self._options.backup or self._options.priority_backup:
            self._maintenance = spawn(
                self._connector.maintain,
                peer.uri,
                self._switch,
                name=f"pyjms {self.remote_address} backups",
            )
        peer.deliver_to(self)

    def _interrupt(self, error: Exception) -> None:
        """Stop using the current broker."""
        self._lost_at = _clock.now()
        self._current = None
        if self._settled.is_set():
            self._settled = anyio.Event()
        if self._peer is not None:
            self._peer.dismiss()
        if self._maintenance is not None:
            self._maintenance.cancel()
        if self.interruptions is not None:
            self.interruptions.transport_interrupted(error)
        for request in self._requests:
            if in_flight.is_done_by_loss(request.command):
                self._requests.pop(request.number)
                self._state.completed(request.command)
                request.on_response(Response())

    # --- the end

    def _time_out(self, request: Request) -> None:
        self._requests.pop(request.number)
        self._state.untrack(request.command)
        assert self._options.timeout is not None
        request.on_response(in_flight.timed_out(self._options.timeout, self._connector.brokers))

    def _give_up(self, error: BaseException) -> None:
        failure = error if isinstance(error, Exception) else ConnectionFailedException(repr(error))
        self._end(failure)
        if not self._is_starting and not self._is_stopped:
            self.listener.on_exception(failure)

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        for message in self._held.pop_all():
            self._state.untrack(message)
        self._end_waiting()
        self._connector.outage_log.leave()
        for request in self._requests.pop_all():
            request.on_response(in_flight.failed_again(error))

    def _end_waiting(self) -> None:
        self._settled.set()
        if self._watch is not None:
            self._watch.cancel()
