"""The state of one AMQP 1.0 connection on the accepting side, without I/O, clock and tasks.

    transport   TcpTransport with AmqpFormat                                items <-> bytes
    Engine      protocol headers, SASL, Open and Close, the sessions        items <-> calls
    Session     channels, windows, handles, dispositions (`session`)
    Link        credit, deliveries (`session`)

What the client does is passed to handlers: `ConnectionHandler`, and one handler for each link.
Their answers are method calls, which may come later; while a login or an Open is not answered, the
frames that follow are kept, as clients may send them without waiting. A command for a link, session
or connection that has ended is ignored: the answers of a broker may come late.

    stage      left by
    HEADER     the client's first protocol header
    SASL       `accept_login`
    SECOND     the client's second protocol header
    OPENING    `open`
    OPEN       Close, of either side
    FINISHED   never

A violation ends what it is about, a link, a session or the connection, with the standard's
condition. Our Close is the last frame; the engine does not wait for the client's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pyjms.wire.amqp.format import (
    AMQP,
    DECODE_ERROR,
    FRAMING_ERROR,
    MIN_MAX_FRAME_SIZE,
    SASL,
    Fault,
    Frame,
    Item,
    ProtocolHeader,
)
from pyjms.wire.amqp.links import Receiver, Sender
from pyjms.wire.amqp.performatives import (
    MAX_UINT,
    Begin,
    Close,
    Error,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
)
from pyjms.wire.amqp.session import Session
from pyjms.wire.limits import UnfinishedFrame

ILLEGAL_STATE: Final = "amqp:illegal-state"
RESOURCE_LIMIT: Final = "amqp:resource-limit-exceeded"
PLAIN: Final = "PLAIN"

SASL_OK: Final = 0
SASL_AUTH: Final = 1
"""Wrong credentials."""
SASL_SYS: Final = 2
"""The broker cannot tell now."""
SASL_SYS_PERM: Final = 3
"""The mechanism is not supported."""

_HELD: Final = 64
"""The number of items that are kept until a login or an Open is answered."""
_VERSION: Final = (1, 0, 0)
_UNSUPPORTED: Final = "Connection from client using unsupported AMQP attempted"


class Stage:
    """How far a connection is."""

    HEADER: Final = 0
    SASL: Final = 1
    SECOND: Final = 2
    OPENING: Final = 3
    OPEN: Final = 4
    FINISHED: Final = 5


@dataclass
class EngineSettings:
    """What a connector allows its clients."""

    mechanisms: Sequence[str] = (PLAIN, "ANONYMOUS")
    allow_non_sasl: bool = False
    """Whether a client may leave SASL out."""
    max_frame_size: int = 131072
    channel_max: int = 32767
    handle_max: int = 65535
    incoming_window: int = 16383
    """The number of transfers that a session accepts."""
    max_message_size: int = 104857600
    """Bytes of a message of several transfers, and of all such messages that are incomplete."""
    max_sessions: int = 10_000
    max_links: int = 10_000
    """Of the connection, as the sessions."""
    max_name: int = 32_000
    """Characters of the name of a link."""
    max_names: int = 64 * 1024 * 1024
    """Characters of the names of all links of the connection; 0: no limit."""


class ConnectionHandler(Protocol):
    """What a client does with its connection."""

    def on_login(self, mechanism: str, user: str | None, password: str | None) -> None:
        """SASL: `mechanism` is one of the settings'. Answer `accept_login` or `refuse_login`."""

    def on_open(self, peer: Open) -> None:
        """The client opens the connection. Answer `open` or `refuse_open`."""

    def on_begin(self, session: Session) -> None:
        """The client begins a session, which is accepted unless this ends it with an error."""

    def on_attach(self, link: Receiver | Sender) -> None:
        """The client attaches a link. Answer `accept` or `refuse` of the link."""

    def on_end(self, session: Session, error: Error | None) -> None:
        """The client has ended a session, or violated it, and so all its links are over."""

    def on_close(self, error: Error | None) -> None:
        """The client has closed the connection."""

    def on_finish(self) -> None:
        """The last frame has been given to `send`: the socket is to be closed behind it."""


class Engine:
    """One connection of a client.

    Args:
        handler: gets what the client does.
        send: takes the items for the client, in order; it may raise.
        settings: what the connector allows.
        unfinished: counts the incomplete messages of several transfers, if there are large ones.
    """

    def __init__(
        self,
        handler: ConnectionHandler,
        send: Callable[[Item], object],
        settings: EngineSettings,
        unfinished: UnfinishedFrame | None = None,
    ) -> None:
        self.handler: ConnectionHandler = handler
        self.send: Callable[[Item], object] = send
        self.settings: EngineSettings = settings
        self.unfinished: UnfinishedFrame | None = unfinished
        self.stage: int = Stage.HEADER
        self.peer: Open | None = None
        """The client's Open."""
        self.max_frame_size: int = MIN_MAX_FRAME_SIZE
        """The client's."""
        self.sessions: dict[int, Session] = {}
        """By channel, which is the same in both directions."""
        self.links: int = 0
        """The number of links of all sessions."""
        self.names: int = 0
        """The characters of their names."""
        self.queued: int = 0
        """Bytes of messages that wait for the client's session windows, with their frames."""
        self.partial: int = 0
        """Bytes of incomplete messages of several transfers."""
        self.kept: int = 0
        """Bytes that handlers of links keep for deliveries that are not settled."""
        self.defer: Callable[[Callable[[], object]], bool] | None = None
        """Calls a function at the end of the turn, or returns False: see `Transport.defer`."""
        self._settling: list[Session] = []
        """The sessions that have collected dispositions."""
        self._held: list[Item] | None = None
        self._sent_header: bool = False
        self._sent_open: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is sent, and what is received is ignored."""
        return self.stage == Stage.FINISHED

    # from the client
    def receive_run(self, items: deque[Item]) -> int:
        """Remove and handle the first items, as far as they are messages of one link.

        Returns how many; the next one is for `receive`. Raises as `receive` does.
        """
        first = items[0]
        if self.stage != Stage.OPEN or self._held is not None or type(first) is not Frame:
            return 0
        session, body = self.sessions.get(first.channel), first.body
        if session is None or type(body) is not Transfer:
            return 0
        return session.receive_run(body.handle, items)

    def receive(self, item: Item) -> None:
        """Handle the next item of the client. Raises what a handler or `send` raises."""
        if self.stage == Stage.FINISHED:
            return
        if self._held is not None:
            self._held.append(item)
            if len(self._held) > _HELD:
                self._held = None
                self.fail(RESOURCE_LIMIT, "Too many frames before the answer to the first ones")
        elif isinstance(item, Frame):
            if self.stage == Stage.OPEN:
                if type(item.body) is Transfer:
                    session = self.sessions.get(item.channel)
                    if session is not None:
                        session.on_transfer(item.body, item.payload)
                        return
                self._on_frame(item)
            elif item.body is not None:
                self._on_early_frame(item.body)
        elif isinstance(item, ProtocolHeader):
            self._on_header(item)
        elif isinstance(item, Fault):
            self.fail(item.condition, item.reason)

    def _on_header(self, header: ProtocolHeader) -> None:
        settings = self.settings
        is_known = header.version == _VERSION
        if self.stage == Stage.HEADER and is_known and header.id == SASL:
            self.send(ProtocolHeader(SASL))
            self.stage = Stage.SASL
            self.send(Frame(0, SaslMechanisms(list(settings.mechanisms))))
        elif (
            self.stage == Stage.HEADER
            and is_known
            and header.id == AMQP
            and settings.allow_non_sasl
        ):
            self._send_header()
            self.stage = Stage.OPENING
        elif self.stage == Stage.SECOND and is_known and header.id == AMQP:
            self.stage = Stage.OPENING
        else:
            if self.stage == Stage.HEADER and not settings.allow_non_sasl:
                self.send(ProtocolHeader(SASL))
            self.fail(DECODE_ERROR, _UNSUPPORTED)

    def _on_early_frame(self, body: object) -> None:
        """Handle a frame before the connection is open."""
        if self.stage == Stage.SASL and isinstance(body, SaslInit):
            self._on_sasl_init(body)
        elif self.stage == Stage.OPENING and isinstance(body, Open):
            self.peer = body
            self.max_frame_size = max(body.max_frame_size, MIN_MAX_FRAME_SIZE)
            self._held = []
            self.handler.on_open(body)
            # only the answer needs them, and they may take ten times the bytes of their frame
            body.properties = body.desired_capabilities = body.offered_capabilities = None
        else:
            self.fail(ILLEGAL_STATE, f"A {type(body).__name__} came before the connection was open")

    def _on_sasl_init(self, init: SaslInit) -> None:
        mechanism = init.mechanism.upper()
        if mechanism not in self.settings.mechanisms:
            self.refuse_login(SASL_SYS_PERM)
            return
        user = password = None
        if mechanism == PLAIN and init.initial_response:
            try:
                parts = init.initial_response.decode().split("\0")
            except UnicodeDecodeError:
                parts = []
            if len(parts) not in {2, 3}:
                self.refuse_login()
                return
            user, password = parts[-2:]
        self._held = []
        self.handler.on_login(mechanism, user, password)

    def _on_frame(self, frame: Frame) -> None:
        body = frame.body
        if body is None:
            return
        session = self.sessions.get(frame.channel)
        if session is not None and session.on_frame(body):
            return
        if isinstance(body, Begin):
            self._on_begin(frame.channel, body)
        elif isinstance(body, Close):
            self.handler.on_close(body.error)
            self.close()
        elif isinstance(body, Open):
            self.fail(ILLEGAL_STATE, "The connection is open already")
        else:
            self.fail(FRAMING_ERROR, f"The channel {frame.channel} has no session")

    def _on_begin(self, channel: int, begin: Begin) -> None:
        if channel in self.sessions:
            self.fail(FRAMING_ERROR, f"The channel {channel} has a session already")
        elif channel > self.settings.channel_max or begin.remote_channel is not None:
            self.fail(FRAMING_ERROR, f"The channel {channel} is not allowed")
        else:
            session = self.sessions[channel] = Session(self, channel, begin)
            if len(self.sessions) > 2 * self.settings.max_sessions:  # refused ones that it keeps
                self.fail(RESOURCE_LIMIT, "Too many sessions")
                return
            if len(self.sessions) > self.settings.max_sessions:
                session.end(Error(RESOURCE_LIMIT, "Too many sessions"))
                return
            self.handler.on_begin(session)
            session.begin()

    # to the client
    def accept_login(self) -> None:
        """The client may use the broker."""
        if self.stage == Stage.SASL:
            self.stage = Stage.SECOND
            self.send(Frame(0, SaslOutcome(SASL_OK)))
            self._send_header()
            self._continue()

    def refuse_login(self, code: int = SASL_AUTH) -> None:
        """The client may not use the broker. Finishes."""
        if self.stage == Stage.SASL:
            self.send(Frame(0, SaslOutcome(code)))
            self._finish()

    def open(self, answer: Open) -> None:
        """Open the connection; the limits in the answer become those of the settings."""
        if self.stage == Stage.OPENING:
            self.stage = Stage.OPEN
            answer.max_frame_size = min(self.settings.max_frame_size, MAX_UINT)
            answer.channel_max = self.settings.channel_max
            self._send_open(answer)
            self._continue()

    def refuse_open(self, error: Error) -> None:
        """Do not open the connection. Finishes."""
        if self.stage == Stage.OPENING:
            self._send_open(Open("", properties={"amqp:connection-establishment-failed": True}))
            self.close(error)

    def close(self, error: Error | None = None) -> None:
        """Close the connection. Finishes."""
        if self.stage == Stage.FINISHED:
            return
        self.flush()
        self._send_header()
        if not self._sent_open:
            self._send_open(Open(""))
        self.send(Frame(0, Close(error)))
        self._finish()

    def fail(self, condition: str, reason: str) -> None:
        """Close the connection because of a violation, or an error of the broker. Finishes."""
        self.close(Error(condition, reason))

    def keep_alive(self) -> None:
        """Send an empty frame."""
        if self.stage == Stage.OPEN:
            self.send(Frame(0, None))

    def flush(self) -> None:
        """Send the dispositions that were collected in order to be sent together."""
        settling, self._settling = self._settling, []
        for session in settling:
            session.flush()

    def flush_later(self, session: Session) -> None:
        """Flush at the end of the turn."""
        self._settling.append(session)
        if len(self._settling) == 1 and (self.defer is None or not self.defer(self.flush)):
            self.flush()

    def discard(self) -> None:
        """Drop incomplete messages, because the connection has ended. Idempotent."""
        self.stage = Stage.FINISHED
        self._held = None
        for session in self.sessions.values():
            session.discard()
        self.sessions = {}
        if self.unfinished is not None:
            self.unfinished.close()

    def count_partial(self, change: int) -> None:
        """Record that incomplete messages have grown or shrunk by so many bytes.

        Raises:
            RemoteProtocolError: all connections together have no memory for them.
        """
        self.partial += change
        if self.unfinished is not None:  # in powers of 2, as each change begins a count
            self.unfinished.update(0, 1 << self.partial.bit_length() if self.partial else 0)

    def _send_header(self) -> None:
        if not self._sent_header:
            self._sent_header = True
            self.send(ProtocolHeader(AMQP))

    def _send_open(self, answer: Open) -> None:
        self._sent_open = True
        self.send(Frame(0, answer))

    def _continue(self) -> None:
        """Handle the items that were kept."""
        held, self._held = self._held, None
        for item in held or ():
            self.receive(item)

    def _finish(self) -> None:
        self.discard()
        self.handler.on_finish()
