"""Links of AMQP 1.0 on the accepting side; see `session`. (part 2.6)

A link has the direction of its messages: a `Receiver` is a link on which the client sends, a
`Sender` one on which it receives. `delivery_count` and `credit` are ours; the client's view of both
comes with a Flow. A detached link stays known under the client's handle until the client has
detached it as well, and what arrives for it meanwhile is ignored.

Messages are handled singly, or in runs: those that follow each other on a link, and are whole.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.amqp.deliveries import Delivery, difference
from pyjms.wire.amqp.format import Frame, Item
from pyjms.wire.amqp.performatives import (
    MAX_UINT,
    MIXED_MODE,
    RECEIVER,
    SENDER,
    SETTLE_MODES,
    SETTLED_MODE,
    Attach,
    Coordinator,
    Detach,
    Error,
    Fields,
    Flow,
    Source,
    State,
    Symbols,
    Target,
    Transfer,
)
from pyjms.wire.limits import LARGE_FRAME

if TYPE_CHECKING:
    from pyjms.wire.amqp.session import Session

INVALID_FIELD: Final = "amqp:invalid-field"
RESOURCE_LIMIT: Final = "amqp:resource-limit-exceeded"
MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
FRAME_HEAD: Final = 128
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


class Link:
    """A link of a session, from the client's Attach to the Detach of both sides."""

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
            self.tell_detach(detach.closed, detach.error)
            session.forget(self)

    def tell_detach(self, closed: bool, error: Error | None) -> None:
        """Tell the link's handler that the client has detached it."""

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
    """Set by `accept`."""

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

    def tell_detach(self, closed: bool, error: Error | None) -> None:
        self.handler.on_detach(self, closed, error)

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
        self.tell_detach(True, error)

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
    """Set by `accept`."""

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

    def tell_detach(self, closed: bool, error: Error | None) -> None:
        self.handler.on_detach(self, closed, error)

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
        return min(self.session.engine.max_frame_size, LARGE_FRAME) - FRAME_HEAD

    def send_run(
        self, payloads: Sequence[bytes], contexts: Sequence[Any] = (), overhead: int = 0
    ) -> None:
        """Send messages of format 0 as `send` does each, in one step.

        `contexts` are those of their deliveries; without these the messages are settled. With
        `overhead` the size of each is that of its payload and so much more.

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
                if overhead:
                    delivery.size = len(payload) + overhead
                    session.engine.kept += delivery.size
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
