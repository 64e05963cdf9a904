"""Sessions of AMQP 1.0 on the accepting side; see `engine`. (part 2.5)

A session numbers the transfers of each direction. The client's numbers matter only for its window,
which is opened again when half of it is used. Ours are limited by the client's window: transfers
behind it wait in `_waiting`, with what is left of their payload.

A session that has ended stays known under its channel until the client has ended it as well, and
what arrives for it meanwhile is ignored; the same holds for `links`.

Dispositions of successive deliveries with the same state are collected and sent as a range, at the
end of the turn or before the session's next frame.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from pyjms.wire.amqp.deliveries import Delivery, Unsettled, difference
from pyjms.wire.amqp.format import FRAMING_ERROR, Frame, Item
from pyjms.wire.amqp.links import FRAME_HEAD, INVALID_FIELD, RESOURCE_LIMIT, Link, Receiver, Sender
from pyjms.wire.amqp.performatives import (
    MAX_UINT,
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Performative,
    Received,
    SaslFrame,
    State,
    Transfer,
    write_body,
)

if TYPE_CHECKING:
    from pyjms.wire.amqp.engine import Engine

HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
WINDOW_VIOLATION: Final = "amqp:session:window-violation"

OUTGOING_WINDOW: Final = 0x7FFFFFFF
FIRST_OUTGOING_ID: Final = 1


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
        fits = len(payload) + FRAME_HEAD <= self.engine.max_frame_size and transfer.state is None
        if fits and self.remote_window > 0 and not self._waiting:
            self.remote_window -= 1
            self.next_outgoing_id = (self.next_outgoing_id + 1) & MAX_UINT
            self.engine.send(Frame(self.channel, transfer, payload))
            return
        self._waiting.append((transfer, payload, 0))
        self.engine.queued += len(payload) + FRAME_HEAD
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
                engine.queued -= FRAME_HEAD
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
            for delivery in self.unsettled.drop_of(link, link.unsettled):
                delivery.is_unsettled = False
                self.engine.kept -= delivery.size
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if each[0].handle == link.handle:
                self.engine.queued -= len(each[1]) - each[2] + FRAME_HEAD
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
            len(payload) - start + FRAME_HEAD for _, payload, start in self._waiting
        )
        self._waiting.clear()
        links, self.links = self.links, {}
        for link in links.values():
            link.discard()
        for delivery in self.unsettled.by_id.values():
            delivery.is_unsettled = False
            self.engine.kept -= delivery.size
        self.unsettled = Unsettled()
