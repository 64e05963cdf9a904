"""The described lists of AMQP 1.0: performatives, SASL frames, states, nodes and the two headers.

Each is a dataclass and a row of `_ROWS`, which has the descriptor and the type of each field, in
the order of the class. A field with `!` is mandatory. A field that is null, or behind the end of
the list, has the default of its class; a field with its default is written as null. (parts 2 to 5
of the standard)

Transfer and Disposition pass with each message, so that their usual forms have functions of their
own; these raise a LookupError for any other form, and for damage: then the table is used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.amqp.codec import (
    COMPOSITES,
    FALSE,
    LIST_0,
    LIST_8,
    LIST_32,
    NULL,
    READ_ERRORS,
    SMALL_UINT,
    SMALL_ULONG,
    TRUE,
    U32,
    UINT,
    UINT_0,
    WRITE_ERRORS,
    WRITERS,
    Reader,
    write_array,
    write_binary,
    write_boolean,
    write_compound,
    write_failure,
    write_map,
    write_string,
    write_symbol,
    write_symbol_map,
    write_timestamp,
    write_ubyte,
    write_uint,
    write_ulong,
    write_ushort,
    write_value,
)
from pyjms.wire.amqp.values import (
    Array,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
)

Symbols: TypeAlias = list[str]
"""A field that may have several values."""
Fields: TypeAlias = dict[Value, Value]
"""A map whose keys are symbols."""

MAX_UINT: Final = 0xFFFFFFFF
SENDER: Final = False
RECEIVER: Final = True
"""Roles of a link's end."""
UNSETTLED_MODE: Final = 0
SETTLED_MODE: Final = 1
MIXED_MODE: Final = 2
"""Settle modes of a sender."""
SETTLE_MODES: Final = ("unsettled", "settled", "mixed")
"""Their names."""


# connection, session, link
@dataclass
class Error:
    """Why something failed. `condition` is a symbol such as `amqp:not-found`."""

    condition: str
    description: str | None = None
    info: Fields | None = None


@dataclass
class Open:
    """Begins a connection."""

    container_id: str
    hostname: str | None = None
    max_frame_size: int = MAX_UINT
    channel_max: int = 65535
    idle_time_out: int | None = None
    """Milliseconds."""
    outgoing_locales: Symbols | None = None
    incoming_locales: Symbols | None = None
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Fields | None = None


@dataclass
class Begin:
    """Begins a session."""

    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = MAX_UINT
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Fields | None = None


@dataclass
class Source:
    """The node from which a link's messages come."""

    address: str | None = None
    durable: int = 0
    """0: none, 1: configuration, 2: unsettled state."""
    expiry_policy: str = "session-end"
    timeout: int = 0
    """Seconds."""
    dynamic: bool = False
    dynamic_node_properties: Fields | None = None
    distribution_mode: str | None = None
    filter: Fields | None = None
    default_outcome: Value = None
    outcomes: Symbols | None = None
    capabilities: Symbols | None = None


@dataclass
class Target:
    """The node to which a link's messages go."""

    address: str | None = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: Fields | None = None
    capabilities: Symbols | None = None


@dataclass
class Coordinator:
    """The target of a link that controls transactions."""

    capabilities: Symbols | None = None


@dataclass
class Attach:
    """Attaches a link. `role` is that of the end that sends it."""

    name: str
    handle: int
    role: bool
    snd_settle_mode: int = MIXED_MODE
    rcv_settle_mode: int = 0
    source: Source | None = None
    target: Target | Coordinator | None = None
    unsettled: dict[Value, Value] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Fields | None = None


@dataclass
class Flow:
    """The windows of a session, and with `handle` the credit of a link."""

    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: Fields | None = None


@dataclass
class Transfer:
    """A message, or a part of it: the payload of its frame."""

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool = False
    more: bool = False
    rcv_settle_mode: int | None = None
    state: State | None = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False

    def __init__(
        self,
        handle: int,
        delivery_id: int | None = None,
        delivery_tag: bytes | None = None,
        message_format: int | None = None,
        settled: bool = False,
        more: bool = False,
        rcv_settle_mode: int | None = None,
        state: State | None = None,
        resume: bool = False,
        aborted: bool = False,
        batchable: bool = False,
    ) -> None:
        self.handle = handle
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.message_format = message_format
        self.settled = settled
        self.more = more
        self.rcv_settle_mode = rcv_settle_mode
        self.state = state
        self.resume = resume
        self.aborted = aborted
        self.batchable = batchable


@dataclass
class Disposition:
    """The states of the deliveries from `first` to `last`. `role` is that of the sending end."""

    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: State | None = None
    batchable: bool = False


@dataclass
class Detach:
    """Detaches a link, and with `closed` ends it."""

    handle: int
    closed: bool = False
    error: Error | None = None


@dataclass
class End:
    """Ends a session."""

    error: Error | None = None


@dataclass
class Close:
    """Ends a connection."""

    error: Error | None = None


# SASL
@dataclass
class SaslMechanisms:
    """The server's first frame."""

    sasl_server_mechanisms: Symbols


@dataclass
class SaslInit:
    """The client's choice."""

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None

    def __repr__(self) -> str:
        return f"SaslInit({self.mechanism!r}, ..., {self.hostname!r})"


@dataclass
class SaslChallenge:
    """A question of the server."""

    challenge: bytes


@dataclass
class SaslResponse:
    """The answer of the client."""

    response: bytes

    def __repr__(self) -> str:
        return "SaslResponse(...)"


@dataclass
class SaslOutcome:
    """The end of SASL; `code` 0: the client may go on."""

    code: int
    additional_data: bytes | None = None


# delivery states
@dataclass
class Received:
    """How far a delivery has been received."""

    section_number: int
    section_offset: int


@dataclass
class Accepted:
    """The delivery was consumed."""


@dataclass
class Rejected:
    """The delivery is invalid."""

    error: Error | None = None


@dataclass
class Released:
    """The delivery was not consumed."""


@dataclass
class Modified:
    """The delivery was not consumed, and is to be changed."""

    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: Fields | None = None


@dataclass
class Declare:
    """The body of a message to a coordinator: begins a transaction."""

    global_id: Value = None


@dataclass
class Discharge:
    """The body of a message to a coordinator: ends a transaction."""

    txn_id: bytes
    fail: bool = False


@dataclass
class Declared:
    """The outcome of `Declare`."""

    txn_id: bytes


@dataclass
class TransactionalState:
    """A delivery, or its outcome, is part of a transaction."""

    txn_id: bytes
    outcome: State | None = None
    """An `Outcome`, unless the client is wrong."""


Outcome: TypeAlias = Accepted | Rejected | Released | Modified | Declared
State: TypeAlias = Outcome | Received | TransactionalState | Described
"""The state of a delivery; a Described is one that this module does not know."""


# lifetimes of dynamic nodes
@dataclass
class DeleteOnClose:
    """The node is deleted with the link that made it."""


@dataclass
class DeleteOnNoLinks:
    """The node is deleted when it has no links."""


@dataclass
class DeleteOnNoMessages:
    """The node is deleted when it has no messages."""


@dataclass
class DeleteOnNoLinksOrMessages:
    """The node is deleted when it has neither links nor messages."""


# sections of a message
@dataclass
class Header:
    """The first section of a message."""

    durable: bool = False
    priority: int = 4
    ttl: int | None = None
    """Milliseconds."""
    first_acquirer: bool = False
    delivery_count: int = 0


@dataclass
class Properties:
    """The section of a message that nobody changes on its way."""

    message_id: MessageId = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: MessageId = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    """Milliseconds since 1970, as `creation_time`."""
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None

    def __init__(
        self,
        message_id: MessageId = None,
        user_id: bytes | None = None,
        to: str | None = None,
        subject: str | None = None,
        reply_to: str | None = None,
        correlation_id: MessageId = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        absolute_expiry_time: int | None = None,
        creation_time: int | None = None,
        group_id: str | None = None,
        group_sequence: int | None = None,
        reply_to_group_id: str | None = None,
    ) -> None:
        self.message_id = message_id
        self.user_id = user_id
        self.to = to
        self.subject = subject
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.absolute_expiry_time = absolute_expiry_time
        self.creation_time = creation_time
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.reply_to_group_id = reply_to_group_id


MessageId: TypeAlias = str | ULong | UUID | bytes | None
SaslFrame: TypeAlias = SaslMechanisms | SaslInit | SaslChallenge | SaslResponse | SaslOutcome
Performative: TypeAlias = (
    Open | Begin | Attach | Flow | Transfer | Disposition | Detach | End | Close
)  # fmt: skip

ACCEPTED: Final = Accepted()
RELEASED: Final = Released()
"""Shared, as they have no fields."""

_NODE: Final = (
    "address:string durable:uint expiry-policy:symbol timeout:uint dynamic:boolean "
    "dynamic-node-properties:fields"
)
_ROWS: Final[tuple[tuple[int, type, str, str], ...]] = (
    (0x10, Open, "open", ("container-id:string! hostname:string max-frame-size:uint "
     "channel-max:ushort idle-time-out:uint outgoing-locales:symbols incoming-locales:symbols "
     "offered-capabilities:symbols desired-capabilities:symbols properties:fields")),
    (0x11, Begin, "begin", ("remote-channel:ushort next-outgoing-id:uint! incoming-window:uint! "
     "outgoing-window:uint! handle-max:uint offered-capabilities:symbols "
     "desired-capabilities:symbols properties:fields")),
    (0x12, Attach, "attach", ("name:string! handle:uint! role:boolean! snd-settle-mode:ubyte "
     "rcv-settle-mode:ubyte source:source target:target|coordinator unsettled:map "
     "incomplete-unsettled:boolean initial-delivery-count:uint max-message-size:ulong "
     "offered-capabilities:symbols desired-capabilities:symbols properties:fields")),
    (0x13, Flow, "flow", ("next-incoming-id:uint incoming-window:uint! next-outgoing-id:uint! "
     "outgoing-window:uint! handle:uint delivery-count:uint link-credit:uint available:uint "
     "drain:boolean echo:boolean properties:fields")),
    (0x14, Transfer, "transfer", ("handle:uint! delivery-id:uint delivery-tag:binary "
     "message-format:uint settled:boolean more:boolean rcv-settle-mode:ubyte state:state "
     "resume:boolean aborted:boolean batchable:boolean")),
    (0x15, Disposition, "disposition", ("role:boolean! first:uint! last:uint settled:boolean "
     "state:state batchable:boolean")),
    (0x16, Detach, "detach", "handle:uint! closed:boolean error:error"),
    (0x17, End, "end", "error:error"),
    (0x18, Close, "close", "error:error"),
    (0x1D, Error, "error", "condition:symbol! description:string info:fields"),
    (0x23, Received, "received", "section-number:uint! section-offset:ulong!"),
    (0x24, Accepted, "accepted", ""),
    (0x25, Rejected, "rejected", "error:error"),
    (0x26, Released, "released", ""),
    (0x27, Modified, "modified", ("delivery-failed:boolean undeliverable-here:boolean "
     "message-annotations:fields")),
    (0x28, Source, "source", (f"{_NODE} distribution-mode:symbol filter:fields default-outcome:any "
     "outcomes:symbols capabilities:symbols")),
    (0x29, Target, "target", f"{_NODE} capabilities:symbols"),
    (0x2B, DeleteOnClose, "delete-on-close", ""),
    (0x2C, DeleteOnNoLinks, "delete-on-no-links", ""),
    (0x2D, DeleteOnNoMessages, "delete-on-no-messages", ""),
    (0x2E, DeleteOnNoLinksOrMessages, "delete-on-no-links-or-messages", ""),
    (0x30, Coordinator, "coordinator", "capabilities:symbols"),
    (0x31, Declare, "declare", "global-id:any"),
    (0x32, Discharge, "discharge", "txn-id:binary! fail:boolean"),
    (0x33, Declared, "declared", "txn-id:binary!"),
    (0x34, TransactionalState, "transactional-state", "txn-id:binary! outcome:state"),
    (0x40, SaslMechanisms, "sasl-mechanisms", "sasl-server-mechanisms:symbols!"),
    (0x41, SaslInit, "sasl-init", "mechanism:symbol! initial-response:binary hostname:string"),
    (0x42, SaslChallenge, "sasl-challenge", "challenge:binary!"),
    (0x43, SaslResponse, "sasl-response", "response:binary!"),
    (0x44, SaslOutcome, "sasl-outcome", "code:ubyte! additional-data:binary"),
    (0x70, Header, "header", ("durable:boolean priority:ubyte ttl:uint first-acquirer:boolean "
     "delivery-count:uint")),
    (0x73, Properties, "properties", ("message-id:id user-id:binary to:string subject:string "
     "reply-to:string correlation-id:id content-type:symbol content-encoding:symbol "
     "absolute-expiry-time:timestamp creation-time:timestamp group-id:string "
     "group-sequence:uint reply-to-group-id:string")),
)  # fmt: skip


class _Kind(NamedTuple):
    """A type of fields: the classes of its values, and what writes one."""

    classes: frozenset[type]
    write: Callable[[bytearray, Any], None]


def _write_symbols(buffer: bytearray, value: Symbols) -> None:
    longest = max(map(len, value), default=0)
    write_array(buffer, Array(value, 0xA3 if longest < 256 else 0xB3))


_STATES: Final = (
    Accepted, Rejected, Released, Modified, Received, Declared, TransactionalState, Described,
)  # fmt: skip
_MANDATORY: Final = object()
"""In place of a default."""


def _classes(*classes: type) -> frozenset[type]:
    return frozenset(classes)


_KINDS: Final[dict[str, _Kind]] = {
    "any": _Kind(_classes(), write_value),
    "binary": _Kind(_classes(bytes), write_binary),
    "boolean": _Kind(_classes(bool), write_boolean),
    "error": _Kind(_classes(Error), write_value),
    "fields": _Kind(_classes(dict), write_symbol_map),
    "id": _Kind(_classes(str, ULong, UUID, bytes), write_value),
    "map": _Kind(_classes(dict), write_map),
    "source": _Kind(_classes(Source), write_value),
    "state": _Kind(_classes(*_STATES), write_value),
    "string": _Kind(_classes(str), write_string),
    "symbol": _Kind(_classes(Symbol, str), write_symbol),
    "symbols": _Kind(_classes(), _write_symbols),
    "target|coordinator": _Kind(_classes(Target, Coordinator), write_value),
    "timestamp": _Kind(_classes(Timestamp), write_timestamp),
    "ubyte": _Kind(_classes(UByte), write_ubyte),
    "uint": _Kind(_classes(UInt), write_uint),
    "ulong": _Kind(_classes(ULong), write_ulong),
    "ushort": _Kind(_classes(UShort), write_ushort),
}


class _Row:
    """How one class is read and written."""

    def __init__(self, code: int, cls: type, name: str, types: str) -> None:
        self.code = code
        self.cls = cls
        self.name = name
        pairs = [each.rstrip("!").split(":") for each in types.split()]
        self.names = [field.replace("-", "_") for field, _ in pairs]
        self.kinds = [kind for _, kind in pairs]
        self.classes = [_KINDS[kind].classes for kind in self.kinds]
        mandatory = [each.endswith("!") for each in types.split()]
        self.mandatory = [index for index, is_set in enumerate(mandatory) if is_set]
        self.defaults = [
            None if field.default is MISSING else field.default for field in fields(cls)
        ]
        self.values: Callable[[Value], Value] | None = None
        if self.names:
            self.values = attrgetter(*self.names)
        """Returns the values of all fields; of a single field, its value."""
        self.writers = [_KINDS[kind].write for kind in self.kinds]
        self.nulls = [
            _MANDATORY if is_set else default
            for is_set, default in zip(mandatory, self.defaults, strict=True)
        ]
        """The values that are written as null."""
        self.start = bytes((0, SMALL_ULONG, code))

    def read(self, items: list[Value]) -> Value:
        """Return an object of the values of a list."""
        if len(items) > len(self.names):
            raise RemoteProtocolError(f"{self.name} has {len(items)} fields")
        values = list(self.defaults)
        for index, value in enumerate(items):
            if value is not None:
                if type(value) not in self.classes[index]:
                    value = self._convert(index, value)  # noqa: PLW2901
                values[index] = value
        for index in self.mandatory:
            if values[index] is None:
                raise RemoteProtocolError(f"{self.name} has no field {self.names[index]}")
        return self.cls(*values)

    def _convert(self, index: int, value: Value) -> Value:
        """Return a value of a field that may have any class or several values."""
        kind = self.kinds[index]
        if kind == "any":
            return value
        if kind == "symbols" and isinstance(value, Symbol | Array):
            return self._symbols(value)
        raise RemoteProtocolError(
            f"the field {self.names[index]} of {self.name} is a {type(value).__name__}, "
            f"not a {kind}"
        )

    def _symbols(self, value: Symbol | Array) -> Symbols:
        if isinstance(value, Symbol):
            return [value]
        if not all(type(each) is Symbol for each in value):
            raise RemoteProtocolError(f"{self.name} has an array of values that are not symbols")
        return list(value)

    def write(self, buffer: bytearray, item: Value) -> None:
        """Append an object with its descriptor."""
        buffer += self.start
        if self.values is None:
            buffer.append(LIST_0)
            return
        values = self.values(item) if len(self.names) > 1 else (self.values(item),)
        for index in self.mandatory:
            if values[index] is None:
                raise LocalProtocolError(f"{self.name} has no {self.names[index]}")
        nulls, writers = self.nulls, self.writers
        body = bytearray()
        count = 0
        for index, value in enumerate(values):
            if value is None or value == nulls[index]:
                continue
            if index > count:
                body += b"\x40" * (index - count)
            writers[index](body, value)
            count = index + 1
        if count:
            write_compound(buffer, body, count, LIST_32)
        else:
            buffer.append(LIST_0)


_NAMES: Final[dict[type, _Row]] = {}
"""The rows by class."""
for _code, _cls, _name, _types in _ROWS:
    _row = _Row(_code, _cls, _name, _types)
    _NAMES[_cls] = _row
    COMPOSITES[_code] = COMPOSITES[f"amqp:{_name}:list"] = _row.read
    WRITERS[_cls] = _row.write


TRANSFER: Final = b"\0\x53\x14"
"""With which the body of a transfer begins."""


def _uint(data: bytes, at: int) -> tuple[int, int]:
    """Return the uint at `at`, and where it ends."""
    code = data[at]
    if code == SMALL_UINT:
        return data[at + 1], at + 2
    if code == UINT:
        return U32.unpack_from(data, at + 1)[0], at + 5
    if code == UINT_0:
        return 0, at + 1
    raise LookupError


_BOOLEANS: Final[dict[int, bool]] = {TRUE: True, FALSE: False, NULL: False}
_ACCEPTED_BYTES: Final = b"\0\x53\x24\x45"
_USUAL_STATES: Final[dict[bytes, State | None]] = {
    b"": None,
    b"\x40": None,
    _ACCEPTED_BYTES: ACCEPTED,
    b"\0\x53\x24\xc0\1\0": ACCEPTED,
    b"\0\x53\x26\x45": RELEASED,
}
"""The ends of dispositions."""


def read_transfer(data: bytes) -> tuple[Transfer, int]:
    """Return the transfer with which `data` begins, and its end.

    Raises:
        LookupError, struct.error: it is damaged, or has fields behind `more`; read it by the table.
    """
    if data[3] != LIST_8:
        raise LookupError
    end = 5 + data[4]
    # written out in their most frequent forms, as each call would cost a tenth of the whole
    if data[6] == UINT:
        (handle,) = U32.unpack_from(data, 7)
        at = 11
    else:
        handle, at = (0, 7) if data[6] == UINT_0 else _uint(data, 6)
    if data[at] == UINT:
        (delivery_id,) = U32.unpack_from(data, at + 1)
        at += 5
    else:
        delivery_id, at = _uint(data, at)
    if data[at] != 0xA0:
        raise LookupError
    tag_end = at + 2 + data[at + 1]
    tag = data[at + 2 : tag_end]
    message_format, at = (0, tag_end + 1) if data[tag_end] == UINT_0 else _uint(data, tag_end)
    count = data[5]
    settled = _BOOLEANS[data[at]] if count > 4 else False
    more = _BOOLEANS[data[at + 1]] if count > 5 else False
    if at + count - 4 != end or not 4 <= count <= 6 or len(tag) > 32:
        raise LookupError
    return Transfer(handle, delivery_id, tag, message_format, settled, more), end


def _read_disposition(data: bytes) -> tuple[Disposition, int]:
    """Read a disposition whose state has no fields."""
    if data[3] != LIST_8 or not 4 <= data[5] <= 5:
        raise LookupError
    end = 5 + data[4]
    role = _BOOLEANS[data[6]]
    first, at = _uint(data, 7)
    last: int | None = None
    if data[at] == NULL:
        at += 1
    else:
        last, at = _uint(data, at)
    settled = _BOOLEANS[data[at]]
    state = _USUAL_STATES[data[at + 1 : end]]
    if len(data) < end or (data[5] == 5) is (at + 1 == end) or data[6] == NULL:
        raise LookupError
    return Disposition(role, first, last, settled, state), end


def read_body(data: bytes) -> tuple[Performative | SaslFrame, int]:
    """Return the performative, or SASL frame, with which the body of a frame begins, and its end.

    Raises:
        RemoteProtocolError: it is none; `position` is where.
    """
    if data[:2] == b"\0\x53":
        try:
            if data[2] == 0x14:
                return read_transfer(data)
            if data[2] == 0x15:
                return _read_disposition(data)
        except (LookupError, struct.error):
            pass  # an unusual form, or damage: read by the table, which says what is wrong
    reader = Reader(data)
    try:
        body = reader.value()
    except READ_ERRORS as error:
        raise reader.failure(error) from error
    if type(body) not in _FRAMES:
        raise RemoteProtocolError(
            f"a frame has a {type(body).__name__} as body, at byte 0", position=0
        )
    return body, reader.at


_FRAMES: Final = frozenset(
    {Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close,
     SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome}
)  # fmt: skip
SASL_FRAMES: Final = frozenset({SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome})

_TRANSFER: Final = struct.Struct(">BBBBBBBIBIBB")
_DISPOSITION: Final = struct.Struct(">BBBBBBBBIBIB")


def write_body(body: Performative | SaslFrame) -> bytes | bytearray:
    """Return the bytes of a performative or SASL frame.

    Raises:
        LocalProtocolError: a field is missing, or out of its range.
    """
    try:
        if type(body) is Transfer:
            if (
                body.delivery_tag is not None
                and body.delivery_id is not None
                and body.state is None
                and not (body.resume or body.aborted or body.batchable)
                and body.rcv_settle_mode is None
            ):
                return _transfer(body, body.delivery_tag)
        elif type(body) is Disposition and body.state is ACCEPTED and not body.batchable:
            last = body.first if body.last is None else body.last
            role, settled = _boolean(body.role), _boolean(body.settled)
            return (
                _DISPOSITION.pack(
                    0, SMALL_ULONG, 0x15, LIST_8, 17, 5, role, UINT, body.first, UINT, last, settled
                )
                + _ACCEPTED_BYTES
            )
        buffer = bytearray()
        write_value(buffer, body)
    except WRITE_ERRORS as error:
        raise write_failure(error) from error
    return buffer


def _boolean(value: bool | None) -> int:
    return TRUE if value else FALSE


def _transfer(body: Transfer, tag: bytes) -> bytes:
    """Return the bytes of a transfer that is not the continuation of another."""
    size, number = len(tag), body.message_format or 0
    tail = bytes((TRUE if body.settled else FALSE, TRUE if body.more else FALSE))
    tail = (b"\x70" + U32.pack(number) if number else b"\x43") + tail
    head = _TRANSFER.pack(
        0, SMALL_ULONG, 0x14, LIST_8, 13 + size + len(tail), 6, UINT, body.handle,
        UINT, body.delivery_id, 0xA0, size,
    )  # fmt: skip
    return head + tag + tail
