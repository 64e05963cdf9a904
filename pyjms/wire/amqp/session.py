"""Sessions, links and deliveries of AMQP 1.0 on the accepting side; see `engine`. (parts 2.5, 2.6)

A session numbers the transfers of each direction. The client's numbers matter only for its window,
which is opened again when half of it is used. Ours are limited by the client's window: transfers
behind it wait in `_waiting`, with what is left of their payload.

A link has the direction of its messages: a `Receiver` is a link on which the client sends, a
`Sender` one on which it receives. `delivery_count` and `credit` are ours; the client's view of both
comes with a Flow. A detached link stays known under the client's handle until the client has
detached it as well, and what arrives for it meanwhile is ignored; the same holds for sessions.

Dispositions of successive deliveries with the same state are collected and sent as a range, at the
end of the turn or before the session's next frame.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.amqp.deliveries import Delivery, Unsettled, difference
from pyjms.wire.amqp.format import FRAMING_ERROR, Frame, Item
from pyjms.wire.amqp.performatives import (
    MAX_UINT,
    MIXED_MODE,
    RECEIVER,
    SENDER,
    SETTLE_MODES,
    SETTLED_MODE,
    Attach,
    Begin,
    Coordinator,
    Detach,
    Disposition,
    End,
    Error,
    Fields,
    Flow,
    Performative,
    Received,
    SaslFrame,
    Source,
    State,
    Symbols,
    Target,
    Transfer,
    write_body,
)
from pyjms.wire.limits import LARGE_FRAME

if TYPE_CHECKING:
    from pyjms.wire.amqp.engine import Engine

HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
WINDOW_VIOLATION: Final = "amqp:session:window-violation"
INVALID_FIELD: Final = "amqp:invalid-field"
RESOURCE_LIMIT: Final = "amqp:resource-limit-exceeded"
MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"

OUTGOING_WINDOW: Final = 0x7FFFFFFF
FIRST_OUTGOING_ID: Final = 1
_HEAD: Final = 128
"""Bytes of a frame that a transfer without a state needs at most, beside its payload."""
_LONGEST_TAG: Final = 32
_TRANSFER_FRAME: Final = struct.Struct(">IBBHBBBBBBBIBIBB")
"""The frame of a transfer of format 0, until its tag; then follow the tag and one of these."""
_SETTLED_TAIL: Final = b"\x43\x41\x42"
_UNSETTLED_TAIL: Final = b"\x43\x42\x42"


class LinkHandler(Protocol):
    """What a client does on any link."""

    def on_detach(self, link: Link, closed: bool, error: Error | None) -> None:
        """The client has detached, or closed, the link. Answer `detach` of the link."""


class ReceiverHandler(LinkHandler, Protocol):
    """What a client does on a link on which it sends."""

    def on_deliveries(self, deliveries: list[Delivery]) -> None:
        """Messages have arrived. Answer `settle` of each delivery, unless it is settled.

        The link may be detached meanwhile: those that are left are to be ignored then.
        """


class SenderHandler(LinkHandler, Protocol):
    """What a client does on a link on which it receives."""

    def on_credit(self, link: Sender) -> None:
        """The client has told its credit, or wants a drain."""

    def on_dispositions(self, deliveries: list[Delivery]) -> None:
        """The client has told the state of deliveries, and may have settled them.

        The link may be detached meanwhile: those that are left are to be ignored then.
        """


class Session:
    """A session of a client; see the module. Not thread-safe."""

    def __init__(self, engine: Engine, channel: int, begin: Begin) -> None:
        settings = engine.settings
        self.engine: Engine = engine
        self.channel: int = channel
        self.context: Any = None
        """For the handler of the connection."""
        self.is_ended: bool = False
        """Whether our side has ended it, or the connection has ended."""
        self.links: dict[int, Receiver | Sender] = {}
        """By the client's handle, until the client has detached them."""
        self.handles: set[int] = set()
        """Ours, of links that our side has not detached."""
        self.link_count: int = 0
        """The number of links that one side at least has not detached."""
        self.names: int = 0
        """The characters of their names."""
        self.incoming_window: int = settings.incoming_window
        self.next_incoming_id: int = begin.next_outgoing_id
        self.next_outgoing_id: int = FIRST_OUTGOING_ID
        self.remote_window: int = begin.incoming_window
        """The number of transfers that the client accepts."""
        self.unsettled: Unsettled = Unsettled()
        """What was sent and is not settled."""
        self._begun: bool = False
        self._waiting: deque[tuple[Transfer, bytes, int]] = deque()
        """Transfers behind the client's window, with the offset of what is left of the payload."""
        self._role: bool = RECEIVER
        self._first: int = -1
        self._last: int = -1
        self._state: State | None = None
        """The collected disposition; `_first` is -1 if there is none."""

    # from the client
    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Handle a transfer."""
        if self.is_ended:
            return
        self.next_incoming_id = (self.next_incoming_id + 1) & MAX_UINT
        self.incoming_window -= 1
        if self.incoming_window <= self.engine.settings.incoming_window >> 1:
            if self.incoming_window < 0:
                self.fail(WINDOW_VIOLATION, "More transfers than the incoming window")
                return
            self.send_flow()
        link = self.links.get(transfer.handle)
        if not isinstance(link, Receiver) or link.is_detached_by_peer:
            self.end_unattached(transfer.handle)
        elif not link.is_detached:
            link.on_transfer(transfer, payload)

    def receive_run(self, handle: int, items: deque[Item]) -> int:
        """Remove and handle the first items, as far as they are usual transfers on a link.

        They are whole messages, and within the window and the credit. Returns how many.
        """
        link = None if self.is_ended else self.links.get(handle)
        if not isinstance(link, Receiver) or link.is_detached_by_peer:
            return 0
        settings = self.engine.settings
        room = self.incoming_window - (settings.incoming_window >> 1) - 1
        deliveries = link.take_run(items, room, settings.max_message_size)
        count = len(deliveries)
        if count:
            self.next_incoming_id = (self.next_incoming_id + count) & MAX_UINT
            self.incoming_window -= count
            link.handler.on_deliveries(deliveries)
        return count

    def on_frame(self, body: Performative | SaslFrame) -> bool:
        """Handle a frame other than a transfer; return whether it is one of a session."""
        if isinstance(body, End):
            self._on_end(body)
        elif isinstance(body, Attach | Detach | Flow | Disposition):
            if self.is_ended:
                return True
            if isinstance(body, Disposition):
                self._on_disposition(body)
            elif isinstance(body, Flow):
                self._on_flow(body)
            elif isinstance(body, Attach):
                self._on_attach(body)
            else:
                self._on_detach(body)
        else:
            return False
        return True

    def _on_attach(self, attach: Attach) -> None:
        handle, settings = attach.handle, self.engine.settings
        if handle > settings.handle_max:
            self.engine.fail(FRAMING_ERROR, f"The handle {handle} exceeds {settings.handle_max}")
            return
        if handle in self.links:
            self.fail(HANDLE_IN_USE, f"The handle {handle} has a link already")
            return
        link = Sender(self, attach) if attach.role is RECEIVER else Receiver(self, attach)
        self.links[handle] = link
        self.handles.add(link.handle)
        self.link_count += 1
        engine, size = self.engine, len(attach.name)
        engine.links += 1
        if engine.links > 2 * settings.max_links:  # refused ones that the client keeps
            engine.fail(RESOURCE_LIMIT, "Too many links")
        elif engine.links > settings.max_links:
            link.refuse_for_good(Error(RESOURCE_LIMIT, "Too many links"))
        elif size > settings.max_name:
            text = f"The name of a link has {size} characters, more than {settings.max_name}"
            link.refuse_for_good(Error(INVALID_FIELD, text))
        elif 0 < settings.max_names < engine.names + size:
            text = f"The names of the links have more than {settings.max_names} characters"
            link.refuse_for_good(Error(RESOURCE_LIMIT, text))
        else:
            engine.names += size
            self.names += size
            engine.handler.on_attach(link)

    def _on_flow(self, flow: Flow) -> None:
        start = FIRST_OUTGOING_ID if flow.next_incoming_id is None else flow.next_incoming_id
        window = difference(start, self.next_outgoing_id) + flow.incoming_window
        self.remote_window = max(0, window)
        if self._waiting:
            self._send_waiting()
        if flow.handle is None:
            if flow.echo:
                self.send_flow()
            return
        link = self.links.get(flow.handle)
        if link is None or link.is_detached_by_peer:
            self.end_unattached(flow.handle)
        elif not link.is_detached:
            link.on_flow(flow)

    def _on_disposition(self, disposition: Disposition) -> None:
        if disposition.role is SENDER:
            return  # our side settles at once, and has forgotten the delivery
        settled, state = disposition.settled, disposition.state
        if not settled and isinstance(state, Received | None):
            return  # it tells nothing, and many of them with long ranges would cost much
        unsettled, first, last = self.unsettled, disposition.first, disposition.last
        taken = unsettled.take(first, first if last is None else last, with_outcome=settled)
        found = taken
        if not taken and not settled and last in {None, first}:
            known = unsettled.by_id.get(first)  # its outcome may change
            found = [] if known is None or known.state == state else [known]
        by_link: dict[Receiver | Sender, list[Delivery]] = {}
        link: Receiver | Sender | None = None
        group: list[Delivery] = []
        kept = 0
        for delivery in found:
            if delivery.link is not link:
                link = delivery.link
                group = by_link.setdefault(link, [])
            group.append(delivery)
            if state is not None:
                delivery.state = state
            if settled:
                delivery.settled = True
                delivery.is_unsettled = False
                del unsettled.by_id[delivery.id]
                link.unsettled -= 1
                kept += delivery.size
        self.engine.kept -= kept
        for each, deliveries in by_link.items():
            if isinstance(each, Sender) and not each.is_detached:
                each.handler.on_dispositions(deliveries)
        if not settled:
            unsettled.set_outcome([each for each in taken if each.is_unsettled])

    def _on_detach(self, detach: Detach) -> None:
        link = self.links.get(detach.handle)
        if link is None or link.is_detached_by_peer:
            self.end_unattached(detach.handle)
        else:
            link.on_detach(detach)

    def _on_end(self, end: End) -> None:
        if not self.is_ended:
            self.engine.handler.on_end(self, end.error)
            self.end()
        self.engine.sessions.pop(self.channel, None)

    def end_unattached(self, handle: int) -> None:
        """End the session, as the client uses a handle without a link."""
        self.fail(UNATTACHED_HANDLE, f"The handle {handle} has no such link")

    def fail(self, condition: str, reason: str) -> None:
        """End the session because of a violation, and tell the handler as if the client had."""
        error = Error(condition, reason)
        self.engine.handler.on_end(self, error)
        self.end(error)

    # to the client
    def begin(self) -> None:
        """Answer Begin."""
        if not self._begun:
            self._begun = True
            settings = self.engine.settings
            window = self.incoming_window
            answer = Begin(self.channel, FIRST_OUTGOING_ID, window, OUTGOING_WINDOW)
            answer.handle_max = settings.handle_max
            self.send(answer)

    def end(self, error: Error | None = None) -> None:
        """End the session, because of an error of either side or as an answer."""
        if not self.is_ended:
            self.flush()
            self.begin()
            self.send(End(error))
            self.discard()

    def send(self, body: Performative, payload: bytes = b"") -> None:
        """Send a frame, unless the session has ended."""
        if not self.is_ended:
            self.engine.send(Frame(self.channel, body, payload))

    def send_flow(self, link: Link | None = None) -> None:
        """Send the windows, and the credit of a link."""
        self.flush()
        self.incoming_window = self.engine.settings.incoming_window
        flow = Flow(
            self.next_incoming_id, self.incoming_window, self.next_outgoing_id, OUTGOING_WINDOW
        )
        if link is not None:
            flow.handle = link.handle
            flow.delivery_count, flow.link_credit = link.delivery_count, link.credit
            flow.drain = link.drain
        self.send(flow)

    def dispose(self, role: bool, first: int, last: int, state: State | None) -> None:
        """Collect the settlement of successive deliveries."""
        if self.is_ended:
            return
        has_collected = self._first >= 0
        if has_collected:
            is_next = first == (self._last + 1) & MAX_UINT
            if is_next and role is self._role and (state is self._state or state == self._state):
                self._last = last
                return
            self.flush()
        self._first, self._last = first, last
        self._role, self._state = role, state
        if not has_collected:
            self.engine.flush_later(self)

    def flush(self) -> None:
        """Send what `dispose` has collected."""
        if self._first >= 0:
            first, self._first = self._first, -1
            self.send(Disposition(self._role, first, self._last, settled=True, state=self._state))

    @property
    def has_waiting(self) -> bool:
        """Whether transfers wait for the client's window."""
        return bool(self._waiting)

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Send a message, or the part for which the client's windows and frames have room."""
        if self.is_ended:
            return
        fits = len(payload) + _HEAD <= self.engine.max_frame_size and transfer.state is None
        if fits and self.remote_window > 0 and not self._waiting:
            self.remote_window -= 1
            self.next_outgoing_id = (self.next_outgoing_id + 1) & MAX_UINT
            self.engine.send(Frame(self.channel, transfer, payload))
            return
        self._waiting.append((transfer, payload, 0))
        self.engine.queued += len(payload) + _HEAD
        if len(self._waiting) == 1:
            self._send_waiting()

    def _send_waiting(self) -> None:
        engine, waiting = self.engine, self._waiting
        while waiting and self.remote_window > 0 and not self.is_ended:
            transfer, payload, start = waiting[0]
            transfer.more = True
            end = start + engine.max_frame_size - 8 - len(write_body(transfer))
            transfer.more = end < len(payload)
            if transfer.more:
                waiting[0] = (Transfer(transfer.handle), payload, end)
            else:
                waiting.popleft()
                end = len(payload)
                engine.queued -= _HEAD
            self.remote_window -= 1
            self.next_outgoing_id = (self.next_outgoing_id + 1) & MAX_UINT
            engine.queued -= end - start
            engine.send(Frame(self.channel, transfer, payload[start:end]))

    def free_handle(self, wanted: int) -> int:
        """Return a handle of ours that is free: that of the client, if possible.

        A client may use its handle again before our side has detached the former link.
        """
        if wanted not in self.handles:
            return wanted
        return next(each for each in range(len(self.handles) + 1) if each not in self.handles)

    def remove(self, link: Link) -> None:
        """Stop counting a link, because both sides have detached it."""
        if not self.is_ended:
            self.link_count -= 1
            self.engine.links -= 1
            self.engine.names -= len(link.name)
            self.names -= len(link.name)

    def forget(self, link: Link) -> None:
        """Drop the deliveries of a link that is detached."""
        if link.unsettled and isinstance(link, Sender):
            for delivery in self.unsettled.drop_of(link):
                delivery.is_unsettled = False
                self.engine.kept -= delivery.size
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if each[0].handle == link.handle:
                self.engine.queued -= len(each[1]) - each[2] + _HEAD
            else:
                self._waiting.append(each)

    def discard(self) -> None:
        """End the session without a frame, because the connection has ended."""
        if self.is_ended:
            return
        self.is_ended = True
        self._first = -1
        self.engine.links -= self.link_count
        self.engine.names -= self.names
        self.link_count = self.names = 0
        self.engine.queued -= sum(
            len(payload) - start + _HEAD for _, payload, start in self._waiting
        )
        self._waiting.clear()
        links, self.links = self.links, {}
        for link in links.values():
            link.discard()
        for delivery in self.unsettled.by_id.values():
            delivery.is_unsettled = False
            self.engine.kept -= delivery.size
        self.unsettled = Unsettled()


class Link:
    """A link of a session, from the client's Attach to the Detach of both sides."""

    handler: LinkHandler
    """Set by `accept`."""

    def __init__(self, session: Session, attach: Attach) -> None:
        self.session: Session = session
        self.role: bool = not attach.role
        """Ours."""
        self.peer: Attach = attach
        """The client's Attach; without nodes and properties once it is answered."""
        """The client's Attach."""
        self.name: str = attach.name
        self.handle: int = session.free_handle(attach.handle)
        """Ours; the client's is that of its Attach."""
        self.context: Any = None
        """For the handlers."""
        self.is_attached: bool = False
        """Whether our side has accepted it."""
        self.is_detached: bool = False
        """Whether our side has detached it, or the session has ended."""
        self.is_detached_by_peer: bool = False
        self.credit: int = 0
        self.delivery_count: int = 0
        self.drain: bool = False
        self.unsettled: int = 0
        """The number of deliveries that our side has not settled."""
        self._early: list[Flow | Detach] = []
        """What the client has sent before the answer to its Attach."""

    @property
    def settle_mode(self) -> str:
        """How the sending side settles: `settled`, `unsettled` or `mixed`."""
        mode = self.peer.snd_settle_mode
        return SETTLE_MODES[mode] if mode < MIXED_MODE else SETTLE_MODES[MIXED_MODE]

    def refuse(self, error: Error) -> None:
        """Do not attach the link: Attach without its node, and Detach with the error."""
        if not self.is_attached and not self.is_detached:
            answer = self._answer(self.peer.source, self.peer.target)
            if self.role is SENDER:
                answer.source = None
            else:
                answer.target = None
            self.session.send(answer)
            self.is_attached = True
            self._forget_terms()
            self.detach(closed=True, error=error)
            self._handle_early()

    def refuse_for_good(self, error: Error) -> None:
        """Do not attach the link, and keep nothing of it: the client may never detach it."""
        self.refuse(error)
        self.name = self.peer.name = ""

    def detach(self, closed: bool = True, error: Error | None = None) -> None:
        """Detach the link, or close it; also the answer to the client's Detach."""
        if self.is_detached or not self.is_attached:
            return
        session = self.session
        session.flush()
        session.send(Detach(self.handle, closed, error))
        self.is_detached = True
        self.discard()
        session.forget(self)
        session.handles.discard(self.handle)
        if self.is_detached_by_peer:
            session.remove(self)

    def on_detach(self, detach: Detach) -> None:
        """Handle the client's Detach."""
        self.is_detached_by_peer = True
        if not self.is_attached:
            self._early.append(detach)
            return
        session = self.session
        session.links.pop(detach.handle, None)
        if self.is_detached:
            session.remove(self)
        else:
            self.discard()
            self.handler.on_detach(self, detach.closed, detach.error)
            session.forget(self)

    def discard(self) -> None:
        """Drop what is incomplete."""
        self.is_detached = self.is_detached or self.session.is_ended
        self.credit = 0

    def _accept(
        self,
        source: Source | None,
        target: Target | Coordinator | None,
        offered_capabilities: Symbols | None,
        properties: Fields | None,
    ) -> bool:
        """Send our Attach, unless it is too late."""
        if self.is_attached or self.is_detached or self.session.is_ended:
            return False
        answer = self._answer(source or self.peer.source, target or self.peer.target)
        answer.offered_capabilities = offered_capabilities
        answer.properties = properties
        self.session.send(answer)
        self.is_attached = True
        self._forget_terms()
        return True

    def _forget_terms(self) -> None:
        """Drop what the answer has used: its maps may take ten times the bytes of their frame."""
        peer = self.peer
        self.peer = Attach(peer.name, peer.handle, peer.role, peer.snd_settle_mode)
        if isinstance(peer.target, Coordinator):
            self.peer.target = peer.target

    def _answer(self, source: Source | None, target: Target | Coordinator | None) -> Attach:
        answer = Attach(self.name, self.handle, self.role, self.peer.snd_settle_mode)
        answer.source, answer.target = source, target
        if self.role is SENDER:
            answer.initial_delivery_count = 0
        return answer

    def _handle_early(self) -> None:
        early, self._early = self._early, []
        self.is_detached_by_peer = False
        for each in early:
            self.session.on_frame(each)


class Receiver(Link):
    """A link on which the client sends."""

    handler: ReceiverHandler

    def __init__(self, session: Session, attach: Attach) -> None:
        super().__init__(session, attach)
        self.delivery_count = attach.initial_delivery_count or 0
        self._partial: Delivery | None = None
        self._content: bytearray = bytearray()

    @property
    def is_coordinator(self) -> bool:
        """Whether it controls transactions."""
        return isinstance(self.peer.target, Coordinator)

    def accept(
        self,
        handler: ReceiverHandler,
        *,
        source: Source | None = None,
        target: Target | Coordinator | None = None,
        offered_capabilities: Symbols | None = None,
        properties: Fields | None = None,
    ) -> None:
        """Attach the link; source and target are the client's unless given."""
        self.handler = handler
        if self._accept(source, target, offered_capabilities, properties):
            self._handle_early()

    def grant(self, credit: int) -> None:
        """Allow the client to send so many messages from now on."""
        if self.is_attached and not (self.is_detached or self.is_detached_by_peer):
            self.credit = credit
            self.session.send_flow(self)

    def take_run(self, items: deque[Item], room: int, largest: int) -> list[Delivery]:
        """Remove the first items, as far as they are usual transfers; return their deliveries."""
        deliveries: list[Delivery] = []
        if not self.is_attached or self.is_detached or self._partial is not None:
            return deliveries
        most, count, unsettled = min(room, self.credit), 0, 0
        channel, handle = self.session.channel, self.peer.handle
        while items and count < most:
            item = items[0]
            if type(item) is not Frame or item.channel != channel:
                break
            transfer, payload = item.body, item.payload
            if type(transfer) is not Transfer or transfer.handle != handle:
                break
            number, tag = transfer.delivery_id, transfer.delivery_tag
            if number is None or tag is None or len(tag) > _LONGEST_TAG or len(payload) > largest:
                break
            if transfer.more or transfer.aborted or transfer.state is not None:
                break
            items.popleft()
            delivery = Delivery(self, number, tag, transfer.message_format or 0, payload)
            if transfer.settled:
                delivery.settled = True
                delivery.is_unsettled = False
            else:
                unsettled += 1
            deliveries.append(delivery)
            count += 1
        self.credit -= count
        self.delivery_count = (self.delivery_count + count) & MAX_UINT
        self.unsettled += unsettled
        return deliveries

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Handle a message, or a part of one."""
        delivery = self._partial
        if delivery is None:
            if not self.is_attached:
                self.session.end_unattached(transfer.handle)
                return
            if self.credit <= 0:
                self._fail(TRANSFER_LIMIT_EXCEEDED, "More messages than the credit")
                return
            number, tag = transfer.delivery_id, transfer.delivery_tag
            if number is None or tag is None or len(tag) > _LONGEST_TAG:
                self.session.fail(INVALID_FIELD, "A message has no delivery id, or no valid tag")
                return
            # a client that resumes one (`resume`) gets an answer as for any other: we keep no state
            delivery = Delivery(self, number, tag, transfer.message_format or 0, payload)
        elif transfer.delivery_id is not None and transfer.delivery_id != delivery.id:
            self.session.fail(INVALID_FIELD, "A message begins within another one")
            return
        if transfer.settled:
            delivery.settled = True
        if transfer.state is not None:
            delivery.state = transfer.state
        if transfer.more or transfer.aborted or self._partial is not None:
            if not self._collect(delivery, transfer, payload):
                return
        elif len(payload) > self.session.engine.settings.max_message_size:
            self._fail_size(len(payload))
            return
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & MAX_UINT
        if delivery.settled:
            delivery.is_unsettled = False
        else:
            self.unsettled += 1
        self.handler.on_deliveries([delivery])

    def _collect(self, delivery: Delivery, transfer: Transfer, payload: bytes) -> bool:
        """Add a part to a message; return whether it is complete."""
        engine = self.session.engine
        if transfer.aborted:  # the client counts it, and gets the credit back
            self._drop_partial()
            self.delivery_count = (self.delivery_count + 1) & MAX_UINT
            self.session.send_flow(self)
            return False
        self._partial = delivery
        delivery.payload = b""
        self._content += payload
        try:
            engine.count_partial(len(payload))
        except RemoteProtocolError as error:
            engine.fail(RESOURCE_LIMIT, error.reason)
            return False
        limit = engine.settings.max_message_size
        if len(self._content) > limit:
            self._fail_size(len(self._content))
            return False
        if engine.partial > limit:
            self._fail(RESOURCE_LIMIT, "Too many incomplete messages on the connection")
            return False
        if transfer.more:
            return False
        delivery.payload = bytes(self._content)
        self._drop_partial()
        return True

    def _drop_partial(self) -> None:
        self._partial = None
        size = len(self._content)
        self._content = bytearray()
        self.session.engine.count_partial(-size)

    def _fail_size(self, size: int) -> None:
        limit = self.session.engine.settings.max_message_size
        self._fail(MESSAGE_SIZE_EXCEEDED, f"A message has {size} bytes, more than {limit}")

    def _fail(self, condition: str, reason: str) -> None:
        """Close the link, and tell the handler as if the client had."""
        error = Error(condition, reason)
        self.detach(closed=True, error=error)
        self.handler.on_detach(self, True, error)

    def on_flow(self, flow: Flow) -> None:
        """Handle the client's Flow."""
        if not self.is_attached:
            self._early = [flow]
        elif flow.echo:
            self.session.send_flow(self)

    def settle_all(self, deliveries: list[Delivery], state: State) -> None:
        """Settle deliveries of the link that are not settled."""
        first = last = -1
        for delivery in deliveries:
            if not delivery.is_unsettled:
                continue
            delivery.is_unsettled = False
            self.unsettled -= 1
            if self.is_detached:
                continue
            number = delivery.id
            if first >= 0 and number != (last + 1) & MAX_UINT:
                self.session.dispose(RECEIVER, first, last, state)
                first = -1
            if first < 0:
                first = number
            last = number
        if first >= 0:
            self.session.dispose(RECEIVER, first, last, state)

    def settle(self, delivery: Delivery, state: State | None) -> None:
        """Settle a delivery of the link."""
        self.unsettled -= 1
        if not self.is_detached:
            self.session.dispose(RECEIVER, delivery.id, delivery.id, state)

    def discard(self) -> None:
        super().discard()
        if self._partial is not None:
            self._drop_partial()


class Sender(Link):
    """A link on which the client receives."""

    handler: SenderHandler

    def __init__(self, session: Session, attach: Attach) -> None:
        super().__init__(session, attach)
        self._tags: int = 0
        self._echo: bool = False

    @property
    def is_settled_mode(self) -> bool:
        """Whether the client wants messages to be sent settled."""
        return self.peer.snd_settle_mode == SETTLED_MODE

    def accept(
        self,
        handler: SenderHandler,
        *,
        source: Source | None = None,
        target: Target | None = None,
        offered_capabilities: Symbols | None = None,
        properties: Fields | None = None,
    ) -> None:
        """Attach the link; source and target are the client's unless given."""
        self.handler = handler
        if self._accept(source, target, offered_capabilities, properties):
            self._handle_early()

    def send(
        self,
        payload: bytes,
        *,
        settled: bool = False,
        message_format: int = 0,
        state: State | None = None,
        context: Any = None,
        size: int = 0,
    ) -> Delivery:
        """Send a message, which uses one credit; `size` counts until it is settled.

        Raises:
            LocalProtocolError: there is no credit.
        """
        if self.credit <= 0:
            raise LocalProtocolError(f"The link {self.name} has no credit")
        session = self.session
        unsettled = session.unsettled
        number = unsettled.next_number & MAX_UINT
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & MAX_UINT
        if settled:
            delivery = Delivery(self, number, b"", message_format)
            delivery.is_unsettled = False
        else:
            tag = self._tags
            self._tags = tag + 1
            width = (tag.bit_length() + 7) >> 3 or 1
            delivery = Delivery(self, number, tag.to_bytes(width, "big"), message_format)
            unsettled.by_id[number] = delivery
            unsettled.numbers.append(unsettled.next_number)
            self.unsettled += 1
            if size:
                delivery.size = size
                session.engine.kept += size
        unsettled.next_number += 1
        delivery.context = context
        transfer = Transfer(self.handle, number, delivery.tag, message_format, settled)
        transfer.state = state
        session.transfer(transfer, payload)
        return delivery

    @property
    def run_room(self) -> int:
        """The number of messages for which `send_run` has credit and window."""
        session = self.session
        return 0 if session.has_waiting else min(self.credit, session.remote_window)

    @property
    def longest_of_run(self) -> int:
        """Bytes of a message of `send_run` at most."""
        return min(self.session.engine.max_frame_size, LARGE_FRAME) - _HEAD

    def send_run(self, payloads: Sequence[bytes], contexts: Sequence[Any] = ()) -> None:
        """Send messages of format 0 as `send` does each, in one step.

        `contexts` are those of their deliveries; without these the messages are settled.

        Raises:
            LocalProtocolError: there is no room for so many.
        """
        session, count = self.session, len(payloads)
        if count > self.run_room:
            raise LocalProtocolError(f"The link {self.name} has no credit")
        unsettled, tags = session.unsettled, self._tags
        number, channel, handle = unsettled.next_number, session.channel, self.handle
        data, tag, tail = bytearray(), b"", _SETTLED_TAIL
        if contexts:
            tail = _UNSETTLED_TAIL
        for index, payload in enumerate(payloads):
            delivery_id = number & MAX_UINT
            if contexts:
                tag = tags.to_bytes((tags.bit_length() + 7) >> 3 or 1, "big")
                tags += 1
                delivery = Delivery(self, delivery_id, tag, 0)
                delivery.context = contexts[index]
                unsettled.by_id[delivery_id] = delivery
                unsettled.numbers.append(number)
            number += 1
            width = len(tag)
            data += _TRANSFER_FRAME.pack(
                29 + width + len(payload), 2, 0, channel, 0, 0x53, 0x14, 0xC0, 16 + width, 6,
                0x70, handle, 0x70, delivery_id, 0xA0, width,
            )  # fmt: skip
            data += tag
            data += tail
            data += payload
        self._tags, unsettled.next_number = tags, number
        if contexts:
            self.unsettled += count
        self.credit -= count
        self.delivery_count = (self.delivery_count + count) & MAX_UINT
        session.remote_window -= count
        session.next_outgoing_id = (session.next_outgoing_id + count) & MAX_UINT
        if not session.is_ended:
            session.engine.send(bytes(data))

    def finish_drain(self) -> None:
        """Use up the credit, as the client's drain wants when there are no more messages."""
        self.delivery_count = (self.delivery_count + self.credit) & MAX_UINT
        self.credit = 0
        self._echo = False
        self.drain = True
        self.session.send_flow(self)
        self.drain = False

    def on_flow(self, flow: Flow) -> None:
        """Handle the client's Flow."""
        if not self.is_attached:
            self._early = [flow]
            return
        if flow.link_credit is not None:
            used = max(0, difference(self.delivery_count, flow.delivery_count or 0))
            self.credit = max(0, flow.link_credit - used)
        self.drain, self._echo = flow.drain, flow.echo
        self.handler.on_credit(self)
        if self._echo and not self.is_detached:
            self._echo = False
            self.session.send_flow(self)

    def settle(self, delivery: Delivery, state: State | None) -> None:
        """Settle a delivery of the link."""
        self.unsettled -= 1
        self.session.unsettled.drop(delivery)
        self.session.engine.kept -= delivery.size
        if not self.is_detached:
            self.session.dispose(SENDER, delivery.id, delivery.id, state)
