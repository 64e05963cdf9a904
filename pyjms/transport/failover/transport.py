"""The failover transport: connects to one of several brokers, and to another if that is lost.

    state          sending                              ends with
    ------------   ----------------------------------   ------------------------------------------
    CONNECTING     requests and messages wait           a broker has accepted the client; or the
                   acknowledgements are dropped         policy allows no further attempt: FAILED
    CONNECTED      goes to the broker's transport       that transport fails: CONNECTING, or FAILED
                                                        if no reconnection is allowed
    FAILED         raises                               stop()

Commands are recorded (`ClientState`), then passed to the current transport. For a new broker the
record is replayed, followed by the pending requests, all without an await.

Acknowledgements, removals and rollbacks are not replayed, because they refer to state that the new
broker does not have. Their callers get a response at once; the outcome is the same. A commit that
the lost broker may have executed is not repeated either: it ends in a
TransactionRolledBackException. (activemq-edges F1 to F8, U4; activemq-broker X9)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Final

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, Waiter, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.discovery import DiscoveryAgent, create_agent, known_agents
from pyjms.transport.failover.brokers import BrokerList, FailoverOptions, read_failover_options
from pyjms.transport.failover.connector import Connector, CreateTransport, Peer
from pyjms.transport.failover.state import (
    ClientState,
    OnResponse,
    Request,
    consumer_controls,
    doubt_error,
    is_done_by_loss,
    is_in_doubt,
    outcome_of,
    reconnecting,
    repeat,
    resources,
)
from pyjms.transport.openwire.correlator import (
    ReconnectingTransport,
    RequestTransport,
    fresh_error,
    stop_error,
)
from pyjms.transport.options import (
    Options,
    boolean,
    check_known,
    integer,
    options_for,
    read_options,
)
from pyjms.transport.uri import TransportURI, could_not_create
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionControl,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    MessageDispatch,
    ProducerInfo,
    Response,
    Throwable,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand

logger: Final = get_logger(__name__)

_NEVER: Final = float("inf")


class FailoverTransport(ReconnectingTransport):
    """Reconnects to one of several brokers if its broker is lost. Belongs to one loop."""

    def __init__(self, connector: Connector, options: FailoverOptions) -> None:
        self._connector = connector
        self._options = options
        self._state = ClientState(options)
        self._pulls = self._state.pulls
        self._requests: dict[Request, None] = {}
        """The requests whose response is pending, in the order in which they were sent."""
        self._held: dict[int, tuple[ActiveMQMessage, bool]] = {}
        """By their `id()`: the messages sent without response while there was no broker, and
        whether the replay of the state sends them in any case; their senders wait in `drain`."""
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
        self._watch: BackgroundTask | None = None
        self._alarm: Waiter | None = None

    # --- life cycle

    async def start(self) -> None:
        """Connect to one of the brokers; wait until that succeeds or no pass is allowed."""
        self._check_usable()
        self._lost_at = _clock.now()
        self._begin(None, is_first=True)
        await self._settled.wait()
        self._is_starting = False
        if self._error is not None:
            raise fresh_error(self._error)

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
            self._end(stop_error(self.remote_address))

    @property
    def remote_address(self) -> str:
        if self._peer is None:
            return f"failover:({self._connector.brokers})"
        return self._peer.transport.remote_address

    @property
    def wire_version(self) -> int:
        return super().wire_version if self._current is None else self._current.wire_version

    @property
    def max_frame_size(self) -> int | None:
        return None if self._peer is None else self._peer.transport.max_frame_size

    # --- sending

    def oneway(self, command: Command) -> None:
        self._check_usable()
        is_replayed = self._state.record(command, is_request=False)
        current = self._current
        if current is not None:
            try:
                current.oneway(command)
            except ConnectionFailedException as error:
                self._stop_sending(command, error)
            except Exception:
                self._state.untrack(command)
                raise
            else:
                return
        if isinstance(command, ActiveMQMessage):
            self._held[id(command)] = command, is_replayed
        self._check_deadlines()

    def request_soon(self, command: Command, on_response: OnResponse) -> None:
        self._check_usable()
        self._state.record(command, is_request=True)
        if self._current is None and is_done_by_loss(command):
            self._state.complete(command)
            on_response(Response())
            return
        request = Request(command, on_response, _clock.now())
        self._requests[request] = None
        if self._current is None:
            self._check_deadlines()
            return
        try:
            self._request(self._current, request, command)
        except ConnectionFailedException as error:
            self._stop_sending(command, error)
        except Exception:
            self._requests.pop(request, None)
            self._state.untrack(command)
            raise

    def abandon(self, command: Command) -> None:
        request = next((each for each in self._requests if each.command is command), None)
        if request is not None:
            del self._requests[request]
        self._state.complete(command)  # a transaction that it ends is not replayed
        if request and not request.was_sent and isinstance(command, ActiveMQMessage):
            self._state.untrack(command)

    def withdraw(self, command: Command) -> bool:
        key = id(command)
        if key not in self._held and isinstance(command, ActiveMQMessage) and command.message_id:
            # a copy was held: copies have the same id object
            ids = ((held, each.message_id) for held, (each, _) in self._held.items())
            key = next((held for held, each in ids if each is command.message_id), key)
        message, _ = self._held.pop(key, (None, False))
        if message is not None:
            self._state.untrack(message)
        return message is not None

    def flush(self) -> None:
        if self._current is not None:
            self._current.flush()

    def defer(self, function: Callable[[], object]) -> bool:
        return self._current is not None and self._current.defer(function)

    def describe_arrivals(self) -> str:
        return "" if self._current is None else self._current.describe_arrivals()

    @property
    def congested(self) -> bool:
        return self._current is None or self._current.congested

    async def drain(self) -> None:
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
                await current.drain()
                continue
            left = None if deadline is None else deadline - _clock.now()
            if timeout is not None and left is not None and left <= 0:
                raise self._timeout_error(timeout)
            with _clock.timeout(left):
                await self._settled.wait()
        raise fresh_error(self._error or stop_error(self.remote_address))

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._current is not None:
            self._current.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._current is not None:
            self._current.resume_reading()

    def _stop_sending(self, command: Command, error: Exception) -> None:
        """Stop sending to the current broker, whose `on_exception` is about to be called."""
        logger.debug("%s is not sent yet: %s", type(command).__name__, error)
        self._current = None
        self._settled = anyio.Event()

    def _request(self, transport: RequestTransport, request: Request, command: Command) -> None:
        """Send `command`, the request's command or a copy, by the transport of one broker."""
        transport.request_soon(command, partial(self._on_response, request))
        request.was_repeated, request.was_sent = request.was_sent, True

    def _check_usable(self) -> None:
        if self._error is not None:
            raise fresh_error(self._error)

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
        peer = self._peer
        self._interrupt(error)
        if self._is_stopped:
            return
        if self._options.limit(is_first=False) == 0:
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
        self._begin(peer)

    def _on_response(self, request: Request, outcome: Response | Exception) -> None:
        if isinstance(outcome, ConnectionFailedException):
            return  # the broker's transport has failed: the next broker gets the request
        if request not in self._requests:
            return
        del self._requests[request]
        self._state.complete(request.command)
        if isinstance(outcome, Exception):
            self._state.untrack(request.command)
        request.on_response(outcome_of(request, outcome))

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
        self._begin(peer, at_once=True)

    def _begin(self, lost: Peer | None, *, is_first: bool = False, at_once: bool = False) -> None:
        name = f"pyjms {self.remote_address}"
        began = _clock.now()
        self._watch = spawn(
            self._watch_deadlines, began, name=f"{name} deadlines", on_error=self._give_up
        )
        connect = partial(self._connect, lost, is_first=is_first, at_once=at_once)
        self._connecting = spawn(connect, name=f"{name} reconnecting", on_error=self._give_up)

    async def _connect(self, lost: Peer | None, *, is_first: bool, at_once: bool) -> None:
        waits = self._options.back_off()
        if lost is not None:
            wait = waits.next_back_off() or 0.0
            await lost.stop()
            if not at_once:
                await _clock.sleep(wait)
        await self._connector.connect(waits, self._take_over, is_first=is_first)

    async def _take_over(self, peer: Peer) -> None:
        """Restore the client's state at a broker, and start to use the broker.

        Raises:
            JMSException: the broker refuses the client, or was lost in the meantime.
        """
        transport = peer.transport
        transport.oneway(ConnectionControl(fault_tolerant=True))
        pending = frozenset(id(request.command) for request in self._requests)
        for info in self._state.connections.values():
            if id(info) not in pending:
                await transport.request(reconnecting(info))
        if self._is_stopped:  # the task is about to be cancelled
            raise stop_error(self.remote_address)
        self._restore_state(peer)
        self._use(peer)

    def _restore_state(self, peer: Peer) -> None:
        """Send the state, then the commands that wait to be sent, without an await.

        Raises:
            ConnectionFailedException: the broker was lost; all is repeated with the next one.
        """
        transport = peer.transport
        doubtful = [request for request in self._requests if is_in_doubt(request)]
        for request in doubtful:
            self._state.complete(request.command)
        pending = frozenset(id(request.command) for request in self._requests)
        for command in resources(self._state, pending):
            if isinstance(command, ProducerInfo | ConsumerInfo | DestinationInfo):
                transport.request_soon(command, partial(self._report_refusal, command))
            else:
                transport.oneway(command)
        for pull in self._pulls.replay():
            transport.oneway(pull)
        for request in list(self._requests):
            if request not in doubtful:
                self._request(transport, request, repeat(request))
        for message, is_replayed in self._held.values():
            if not is_replayed:
                transport.oneway(copy(message))
        for control in consumer_controls(self._state, pending):
            transport.oneway(control)
        if peer.error is not None:
            raise fresh_error(peer.error)
        self._held.clear()
        for request in doubtful:
            self._requests.pop(request, None)
            request.on_response(doubt_error(request))

    def _report_refusal(self, command: Command, outcome: Response | Exception) -> None:
        """Report a command that the broker refuses, since no caller would see it."""
        if isinstance(outcome, ConnectionFailedException) or not isinstance(outcome, Exception):
            return
        kind = type(command).__name__
        logger.warning("The new broker refuses %s: %s", kind, outcome)
        text = f"{kind} was refused after a failover: {outcome}"
        self.listener.on_command(ConnectionErrorCommand(Throwable("javax.jms.JMSException", text)))

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
            logger.log(self._connector.outage_log.start(), "Connected to %s", self.remote_address)
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
        for request in list(self._requests):
            if is_done_by_loss(request.command):
                self._requests.pop(request, None)
                self._state.complete(request.command)
                request.on_response(Response())

    # --- the end

    async def _watch_deadlines(self, began: float) -> None:
        """End pulls and sends whose time passes during an outage; runs until cancelled.

        The option `timeout` limits each send, and counts again from the beginning of an outage.
        """
        timeout = self._options.timeout
        while True:
            messages: dict[Request, float] = {}
            if timeout is not None:
                messages = {
                    request: max(request.since, began) + timeout
                    for request in self._requests
                    if isinstance(request.command, ActiveMQMessage)
                }
            deadline = min(self._pulls.next_deadline(), min(messages.values(), default=_NEVER))
            self._alarm = Waiter()
            if deadline == _NEVER:
                await self._alarm.wait()
            elif deadline > _clock.now():
                await _clock.wait(self._alarm, deadline - _clock.now())
            else:
                self._pulls.respond_to_overdue(self.listener.on_command)
                for request, due in messages.items():
                    if due <= _clock.now() and request in self._requests:
                        self._time_out(request)

    def _check_deadlines(self) -> None:
        """Let `_watch_deadlines` look again, because there is a new deadline."""
        if self._alarm is not None:
            self._alarm.wake()

    def _time_out(self, request: Request) -> None:
        del self._requests[request]
        self._state.untrack(request.command)
        assert self._options.timeout is not None
        request.on_response(self._timeout_error(self._options.timeout))

    def _timeout_error(self, seconds: float) -> ConnectionFailedException:
        return ConnectionFailedException(
            f"Failover timeout of {seconds * 1000:.0f} ms reached.",
            hint=f"none of [{self._connector.brokers}] could be reached; the option timeout (ms) "
            "sets the limit",
        )

    def _give_up(self, error: BaseException) -> None:
        failure = error if isinstance(error, Exception) else ConnectionFailedException(repr(error))
        self._end(failure)
        if not self._is_starting and not self._is_stopped:
            self.listener.on_exception(failure)

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        held, self._held = self._held, {}
        for message, _ in held.values():
            self._state.untrack(message)
        self._end_waiting()
        self._connector.outage_log.leave()
        requests, self._requests = self._requests, {}
        for request in requests:
            request.on_response(fresh_error(error))

    def _end_waiting(self) -> None:
        self._settled.set()
        if self._watch is not None:
            self._watch.cancel()


def failover_transport(uri: TransportURI, create: CreateTransport) -> RequestTransport:
    """Return a transport for `failover:(uri,uri)?options`, not started.

    `create` creates the transports of the brokers; the brokers in the URL are checked at once.

    Raises:
        ConfigurationException: an option, or the URL of a broker, is wrong.
        UnsupportedOperationException: a broker's scheme is not supported.
    """
    options, nested = read_failover_options(uri)
    brokers = BrokerList(uri.components, options, nested)
    for component in [*brokers.connect_list(), *brokers.priorities()]:
        create(component)
    return FailoverTransport(Connector(brokers, options, create), options)


_STATIC: Options = {
    **options_for(
        integer,
        "initial_reconnect_delay",
        "max_reconnect_delay",
        "max_reconnect_attempts",
        "min_connect_time",
    ),
    **options_for(float, "back_off_multiplier"),
    **options_for(boolean, "use_exponential_back_off"),
}
_OF_BRIDGES = "it is for network bridges; a client's delays are options for discovery:(...)"


def discovery_transport(uri: TransportURI, create: CreateTransport) -> RequestTransport:
    """Return a transport for `static:(uri,uri)` or `discovery:(agent)?options`.

    As in ActiveMQ, it is a failover transport over the brokers that the agent finds; the options of
    `discovery:` are those of failover. The agent `static` finds the brokers listed in its URL;
    options `discovered.*` apply to the URLs that other agents find, whose own options are ignored.

    Raises:
        ConfigurationException: an option, the agent, or the URL of a broker, is wrong.
    """
    if uri.scheme == "discovery" and finds_brokers(uri):
        return _found_by(uri.components[0], uri, create)
    options = dict(uri.options) if uri.scheme == "discovery" else {}
    return failover_transport(
        TransportURI("failover", options=options, components=static_brokers(uri)), create
    )


def _found_by(agent: TransportURI, uri: TransportURI, create: CreateTransport) -> RequestTransport:
    discovered, rest = uri.split_options("discovered.")
    options, nested = read_failover_options(rest)
    brokers = BrokerList((), options, {**nested, **discovered})
    for each in brokers.priorities():
        create(each)
    connector = Connector(brokers, options, create)
    return DiscoveryTransport(connector, options, discovery_agent(agent))


def finds_brokers(uri: TransportURI) -> bool:
    """Whether what a URL names is one agent that finds brokers, other than `static`."""
    if len(uri.components) != 1:
        return False
    scheme = uri.components[0].scheme
    return scheme != "static" and scheme in known_agents()  # those of packages are read from disk


def discovery_agent(uri: TransportURI) -> DiscoveryAgent:
    """Return the agent of a client; options that agents of bridges have are ignored and logged."""
    own = {name: text for name, text in uri.options.items() if name in _STATIC}
    check_known(replace(uri, options=own), set(), ignored=dict.fromkeys(own, _OF_BRIDGES))
    bare = {name: text for name, text in uri.options.items() if name not in own}
    return create_agent(replace(uri, options=bare))


def static_brokers(uri: TransportURI) -> tuple[TransportURI, ...]:
    """Return the brokers listed in the agent `static` of a URL, or in a `static:` URL."""
    agent = uri
    if uri.scheme != "static":
        if len(uri.components) != 1 or uri.components[0].scheme != "static":
            raise could_not_create(
                f"{uri} names no agent that finds brokers",
                hint=f"list them, as in {uri.scheme}:(static:(tcp://host:1)), or use the agent "
                f"{' or '.join(known_agents())}",
            )
        agent = uri.components[0]
    own = dict.fromkeys(_STATIC, _OF_BRIDGES)
    read_options(agent.options, _STATIC)
    check_known(replace(agent, components=()), set(), ignored=own)
    return agent.components


_FIRST_WAIT: Final = 3.0
"""Seconds until the first attempt, unless a broker is found before; brokers announce themselves
every half second."""


class DiscoveryTransport(FailoverTransport):
    """Connects to a broker that an agent finds, and to another one if that broker is lost."""

    def __init__(
        self, connector: Connector, options: FailoverOptions, agent: DiscoveryAgent
    ) -> None:
        super().__init__(connector, options)
        self._brokers = connector.brokers
        self._agent = agent
        self._services: dict[str, None] = {}
        self._has_found = anyio.Event()

    async def start(self) -> None:
        """Discover brokers, then connect to one; waits according to the options."""
        await self._agent.start(self)
        with _clock.timeout(_FIRST_WAIT):
            await self._has_found.wait()
        await super().start()

    async def stop(self) -> None:
        await self._agent.stop()
        await super().stop()

    # called by the agent
    def service_added(self, service: str) -> None:
        """Use a broker, beginning with the next attempt."""
        self._services[service] = None
        self._brokers.use_found(self._services)
        if self._brokers.connect_list():
            self._has_found.set()

    def service_removed(self, service: str) -> None:
        """Stop trying a broker, if there are others."""
        self._services.pop(service, None)
        self._brokers.use_found(self._services)
