"""The search for the next broker: passes over the list until a broker accepts the client.

A pass tries the connected backups, then the requested broker, then the list. A broker that accepts
the connection but refuses the client counts as failed.

Log lines: a warning when the very first pass has failed, and one after every
`warnAfterReconnectAttempts` passes; the transport logs the loss of a broker and the reconnection.

Of several connections that search for the same brokers, only one logs (`OutageLog`). A process with
twenty listeners has twenty connections, which lose their broker together. The first connection that
fails reports the outage; the lines of the others are logged at DEBUG until the outage is over. If
the reporting connection was only starting, or gives up, it does not log the end of the outage:
another connection without a broker continues the report. If the reporting connection gave up or was
closed, a new connection may be the first one to reach a broker, and logs that.
(activemq-edges F1, F7, F8)
"""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock
from typing import Final
from urllib.parse import unquote, urlsplit
from weakref import WeakSet, WeakValueDictionary

import anyio
from anyio import to_thread

from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.backoff import BackOffExecution
from pyjms.runtime.logging import get_logger
from pyjms.transport.base import TransportListener
from pyjms.transport.failover.brokers import BrokerList, FailoverOptions
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerInfo, Command, ConnectionControl

logger: Final = get_logger(__name__)

_reporting: Final[WeakValueDictionary[str, OutageLog]] = WeakValueDictionary()
_lock: Final = Lock()  # connections may belong to loops in several threads


class OutageLog:
    """Determines the levels of one connection's log lines about outages. Thread-safe."""

    def __init__(self, brokers: str) -> None:
        """Keep `brokers`, the list of brokers in the connection's URL."""
        self.brokers: Final = brokers

    def warning(self) -> int:
        """Return the log level of a line that says that no broker is available."""
        with _lock:
            _waiting.add(self)
            reporting = _reporting.setdefault(self.brokers, self)
        return logging.WARNING if reporting is self else logging.DEBUG

    def end(self) -> int:
        """Return the log level of a line that says that the outage is over, and record its end."""
        with _lock:
            _waiting.discard(self)
            if _reporting.get(self.brokers) is not self:
                return logging.DEBUG
            del _reporting[self.brokers]
            _left.discard(self.brokers)
        return logging.INFO

    def start(self) -> int:
        """Return the log level of a line that says that a starting connection has a broker."""
        with _lock:
            if self.brokers not in _left:
                self._hand_over()
                return logging.DEBUG
            _waiting.discard(self)
            _left.discard(self.brokers)
            _reporting.pop(self.brokers, None)
        return logging.INFO

    def leave(self) -> None:
        """Stop reporting, because this connection has ended; another one continues."""
        with _lock:
            if self._hand_over():
                _left.add(self.brokers)

    def _hand_over(self) -> bool:
        """Pass the report to another waiting connection; return whether this one was reporting."""
        _waiting.discard(self)
        if _reporting.get(self.brokers) is not self:
            return False
        del _reporting[self.brokers]
        heirs = [other for other in _waiting if other.brokers == self.brokers]
        if heirs:
            _reporting[self.brokers] = heirs[0]
        return True


_waiting: Final[WeakSet[OutageLog]] = WeakSet()
"""The connections that have logged, at any level, that no broker is available."""

_left: Final[set[str]] = set()
"""The broker lists whose outage was reported by a connection that ended during the outage."""


_MOST_CONTROLS: Final = 16


class Peer:
    """One broker and the started transport to it.

    It listens to the transport until another listener is set, and keeps the broker's BrokerInfo and
    its latest ConnectionControl commands: ActiveMQ sends the list of its cluster before the
    response to ConnectionInfo.
    """

    def __init__(self, uri: TransportURI, transport: RequestTransport) -> None:
        self.uri = uri
        self.transport = transport
        self.error: Exception | None = None
        self.broker_info: BrokerInfo | None = None
        self.on_lost: Callable[[Peer], None] | None = None
        self._controls: deque[ConnectionControl] = deque(maxlen=_MOST_CONTROLS)
        transport.listener = self

    def dismiss(self) -> None:
        """Listen to the transport again, because it is no longer in use."""
        self.on_lost = None
        self.transport.listener = self

    async def stop(self) -> None:
        """Stop the transport. Not cancellable."""
        self.dismiss()
        with anyio.CancelScope(shield=True):
            await self.transport.stop()

    def on_command(self, command: Command) -> None:
        """Keep the BrokerInfo and the commands about the broker's cluster."""
        if isinstance(command, BrokerInfo):
            self.broker_info = command
        elif isinstance(command, ConnectionControl):
            self._controls.append(command)

    def deliver_to(self, listener: TransportListener[Command]) -> None:
        """Pass on the ConnectionControl commands so far, while `listener` is the transport's."""
        while self._controls and self.transport.listener is listener:
            listener.on_command(self._controls.popleft())

    def on_exception(self, error: Exception) -> None:
        """Record that the transport has failed."""
        self.error = error
        if self.on_lost is not None:
            self.on_lost(self)


async def open_peer(uri: TransportURI, create: Callable[[TransportURI], RequestTransport]) -> Peer:
    """Return a started transport to the broker `uri`.

    Raises:
        JMSException: there is no connection.
    """
    peer = Peer(uri, create(uri))
    try:
        await peer.transport.start()
    except BaseException:
        await peer.stop()
        raise
    return peer


CreateTransport = Callable[[TransportURI], RequestTransport]
TakeOver = Callable[[Peer], Awaitable[None]]
"""Restores the client's state at a broker; raises a JMSException if the broker refuses."""


class Connector:
    """Finds brokers for one failover transport, and keeps its backups."""

    def __init__(
        self, brokers: BrokerList, options: FailoverOptions, create: CreateTransport
    ) -> None:
        self.brokers = brokers
        self.outage_log: OutageLog = OutageLog(str(brokers))
        self._options = options
        self._create = create
        self._backups: list[Peer] = []
        self._used: TransportURI | None = None
        self._lost_backup = anyio.Event()
        self._preferred: Peer | None = None
        self._refusals: dict[str, tuple[BackOffExecution, float]] = {}
        """By priority broker that has refused the client: the waits, and the time before which it
        is not tried again."""
        self.asked_for: TransportURI | None = None
        """The broker to try first in the next pass."""

    async def connect(
        self, waits: BackOffExecution, take_over: TakeOver, *, is_first: bool
    ) -> None:
        """Make passes until `take_over` has succeeded for one broker.

        Raises:
            JMSException: the options allow no further pass; the failure of the last one.
        """
        limit = self._options.limit(is_first=is_first)
        attempts = 0
        while True:
            try:
                await self._pass(take_over)
            except JMSException as error:
                attempts += 1
                if 0 <= limit <= attempts:
                    raise
                self._log_attempt(attempts, error, is_first=is_first)
                await _clock.sleep(waits.next_back_off() or 0.0)
            else:
                return

    def follow(self, control: ConnectionControl) -> TransportURI | None:
        """Apply the broker list of a cluster; return the broker to which to move, or None."""
        options, brokers = self._options, self.brokers
        changed = bool(
            control.connected_brokers
            and options.update_uris_supported
            and brokers.take_over(brokers.announced_by_broker(control.connected_brokers))
        )
        if control.reconnect_to and options.reconnect_supported:
            targets = brokers.announced_by_broker(control.reconnect_to)
            if targets:
                return targets[0]
        rebalances = control.rebalance_connection and options.rebalance_update_uris
        return brokers.connect_list()[0] if changed and rebalances else None

    async def maintain(self, current: TransportURI, switch: Callable[[Peer], None]) -> None:
        """Keep backups connected and, if so configured, return to a priority broker.

        Runs while `current` is in use. `switch` is called with the priority broker's peer, and ends
        this task.
        """
        self._used = current
        waits = self._options.back_off()
        while True:
            returning = self._options.priority_backup and not self.brokers.is_priority(current)
            if returning:
                peer = await self._first_of(self._priorities_to_try())
                if peer is not None:
                    switch(peer)
                    return
            if await self._fill_backups() and not returning:
                waits = self._options.back_off()
                self._lost_backup = anyio.Event()
                await self._lost_backup.wait()
            else:
                await _clock.sleep(waits.next_back_off() or 0.0)

    def prefer(self, peer: Peer) -> None:
        """Try an already connected peer before all others."""
        self._preferred = peer
        self._backups.insert(0, peer)

    async def stop(self) -> None:
        """Close the backups."""
        backups, self._backups = self._backups, []
        for peer in backups:
            await peer.stop()

    async def _pass(self, take_over: TakeOver) -> None:
        await self._read_list()
        failure: JMSException = ConnectionFailedException("There is no broker to connect to")
        while self._backups:
            peer = self._backups.pop(0)
            error = await self._try_peer(peer, take_over)
            if error is None:
                return
            failure = error
        uris = self.brokers.connect_list()
        asked_for, self.asked_for = self.asked_for, None
        if asked_for is not None:
            uris = [asked_for, *(uri for uri in uris if uri != asked_for)]
        for uri in uris:
            try:
                peer = await open_peer(uri, self._create)
            except JMSException as unreachable:
                logger.debug("Connecting to %s failed: %s", uri, unreachable)
                self.brokers.failed, failure = uri, unreachable
                continue
            error = await self._try_peer(peer, take_over)
            if error is None:
                return
            failure = error
        raise failure

    async def _try_peer(self, peer: Peer, take_over: TakeOver) -> JMSException | None:
        """Restore the client's state at a broker; return the failure, or None."""
        peer.on_lost = None
        try:
            await take_over(peer)
        except JMSException as error:
            logger.debug("%s did not restore the client's state: %s", peer.uri, error)
            self.brokers.failed = peer.uri
            if peer is self._preferred:
                self._postpone(peer.uri)
            await peer.stop()
            return error
        except BaseException:
            await peer.stop()
            raise
        self._refusals.pop(peer.uri.with_secrets(), None)
        return None

    def _postpone(self, uri: TransportURI) -> None:
        """Do not try a priority broker for some time, which grows with each refusal."""
        key = uri.with_secrets()
        waits = self._refusals[key][0] if key in self._refusals else self._options.back_off()
        self._refusals[key] = waits, _clock.now() + (waits.next_back_off() or 0.0)

    def _priorities_to_try(self) -> list[TransportURI]:
        now = _clock.now()
        refused = {key for key, (_, until) in self._refusals.items() if until > now}
        return [uri for uri in self.brokers.priorities() if uri.with_secrets() not in refused]

    async def _first_of(self, uris: list[TransportURI]) -> Peer | None:
        for uri in uris:
            try:
                return await open_peer(uri, self._create)
            except JMSException as error:
                logger.debug("The priority broker %s is still not available: %s", uri, error)
        return None

    async def _fill_backups(self) -> bool:
        """Connect to backups; return whether the configured number is reached."""
        if not self._options.backup:
            return True
        wanted = self._options.backup_pool_size
        for uri in self.brokers.connect_list():
            if len(self._backups) >= wanted:
                break
            if uri != self._used and all(peer.uri != uri for peer in self._backups):
                try:
                    peer = await open_peer(uri, self._create)
                except JMSException as error:
                    logger.debug("No backup at %s: %s", uri, error)
                    continue
                peer.on_lost = self._backup_lost
                self._backups.append(peer)
        return len(self._backups) >= min(wanted, len(self.brokers.connect_list()) - 1)

    def _backup_lost(self, peer: Peer) -> None:
        if peer in self._backups:
            self._backups.remove(peer)
        self._lost_backup.set()

    async def _read_list(self) -> None:
        source = self._options.update_uris_source
        if source is None or not self._options.update_uris_supported:
            return
        try:
            text = await to_thread.run_sync(_contents, source, abandon_on_cancel=True)
            self.brokers.announce(",".join(text.split()))
        except (OSError, UnicodeDecodeError, JMSException) as error:
            shown = re.sub(r"//[^/]*@", "//***@", str(source).partition("?")[0])
            logger.warning("The broker list of updateURIsURL, %s, is not used: %s", shown, error)

    def _log_attempt(self, attempt: int, error: JMSException, *, is_first: bool) -> None:
        every = self._options.warn_after_reconnect_attempts
        if (attempt == 1 and is_first) or (every > 0 and attempt % every == 0):
            logger.log(
                self.outage_log.warning(),
                "Failed to connect to [%s] after: %d attempt(s) with '%s', continuing to retry.",
                self.brokers,
                attempt,
                error,
            )


_SECONDS: Final = 5.0
"""How long a web server may take for each read."""
_LONGEST: Final = 64 * 1024


def _contents(source: Path | str) -> str:
    """Return the text of a list, or its first 64 KiB. Blocks.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is not a text.
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            return file.read(_LONGEST).decode()
    return _download(source).decode()


def _download(url: str) -> bytes:
    # few need these, and they are large
    from http.client import HTTPException  # noqa: PLC0415
    from urllib.error import HTTPError  # noqa: PLC0415
    from urllib.request import Request, urlopen  # noqa: PLC0415

    parts = urlsplit(url)
    headers = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
    server = parts.netloc.rpartition("@")[2]
    request = Request(parts._replace(netloc=server).geturl(), headers=headers)  # noqa: S310
    try:
        with urlopen(request, timeout=_SECONDS) as response:  # noqa: S310 - of two schemes only
            content: bytes = response.read(_LONGEST)
    except HTTPError as error:
        with error:
            raise OSError(f"the web server refused it: {error.code} {error.reason}") from error
    except HTTPException as error:
        raise OSError(f"the web server's response is damaged: {error!r}") from error
    return content
