"""The sections of a message of AMQP 1.0. (part 3.2 of the standard)

A message is a sequence of described sections: header, delivery annotations, message annotations,
properties, application properties, the body (data sections, sequence sections or one value) and the
footer, all optional. A reader accepts them in any order, as ActiveMQ does.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.amqp.codec import (
    COMPOSITES,
    I64,
    LIST_0,
    LIST_8,
    LIST_32,
    MAP_8,
    MAP_32,
    NULL,
    READ_ERRORS,
    STRING_8,
    WRITE_ERRORS,
    WRITERS,
    Reader,
    write_binary,
    write_failure,
    write_list,
    write_map,
    write_symbol_map,
    write_value,
)
from pyjms.wire.amqp.performatives import Header, Properties
from pyjms.wire.amqp.values import Symbol, Timestamp, ULong, Value

NO_BODY: Final = 0
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
"""The kinds of bodies, by the code of their sections."""

_HEADER: Final = 0x70
_DELIVERY_ANNOTATIONS: Final = 0x71
_MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
_FOOTER: Final = 0x78
_NAMES: Final = {
    "amqp:header:list": _HEADER,
    "amqp:delivery-annotations:map": _DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": _MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": _FOOTER,
}
_TIMESTAMP: Final = 0x83
_TEXTS: Final = frozenset((0, 2, 3, 4, 5, 10, 12))
_TIMES: Final = (8, 9)
_FIELDS: Final = 13
"""The fields of the properties that may be strings, those that are times, and their number."""
_SECTIONS_OF_LISTS: Final = (_HEADER, PROPERTIES)
_LISTS: Final = (LIST_0, LIST_8, LIST_32)
_MAPS: Final = (MAP_8, MAP_32)
_START: Final = b"\0\x53"

Map: TypeAlias = dict[Value, Value]


class Message:
    """A message: its sections, None where there is none.

    `body` depends on `body_kind`: DATA: a list with the bytes of each data section; SEQUENCE: a
    list with the list of each sequence section; VALUE: the value; NO_BODY: None.

    `encoded_annotations` and `encoded_properties` are the message annotations and the application
    properties as an encoded map, and then in place of the others.
    """

    def __init__(
        self,
        body_kind: int = NO_BODY,
        body: Value = None,
        *,
        header: Header | None = None,
        delivery_annotations: Map | None = None,
        message_annotations: Map | None = None,
        properties: Properties | None = None,
        application_properties: Map | None = None,
        footer: Map | None = None,
    ) -> None:
        self.header: Header | None = header
        self.delivery_annotations: Map | None = delivery_annotations
        self.message_annotations: Map | None = message_annotations
        self.properties: Properties | None = properties
        self.application_properties: Map | None = application_properties
        self.body_kind: int = body_kind
        self.body: Value = body
        self.footer: Map | None = footer
        self.encoded_annotations: bytes | None = None
        self.encoded_properties: bytes | None = None


def decode_message(payload: bytes, *, body: bool = True, properties: bool = True) -> Message:
    """Return the message that `payload` is.

    Without `body` the body's values are skipped: `body` of the result is None, its kind is set.
    Without `properties` only the size of the application properties is checked, and the result has
    `encoded_properties`.

    Raises:
        RemoteProtocolError: `payload` is no message; `position` is where.
    """
    message = Message()
    reader = Reader(payload)
    try:
        while reader.at < reader.end:
            start = reader.at
            if payload.startswith(_START, start):
                code = payload[start + 2]
                reader.at = start + 3
            else:
                code = _section_code(reader)
            if DATA <= code <= VALUE:
                if message.body_kind != NO_BODY and (code == VALUE or code != message.body_kind):
                    raise RemoteProtocolError("a message has two bodies")
                message.body_kind = code
                if body:
                    _read_body(reader, message, code)
                else:
                    reader.skip()
            elif code == _APPLICATION_PROPERTIES and not properties:
                start = reader.at
                reader.skip()
                message.encoded_properties = payload[start : reader.at]
            else:
                _read_section(reader, message, code)
    except READ_ERRORS as error:
        raise reader.failure(error) from error
    return message


def read_properties(payload: bytes, at: int) -> Properties:
    """Return the section of properties whose list begins at `at`; raises `READ_ERRORS`.

    Its usual form, with short texts and times, is read here, since each call would cost as much as
    a field.
    """
    code = payload[at]
    if code == LIST_8:
        place, end = at + 3, at + 2 + payload[at + 1]
        values: list[Value] = []
        for index in range(payload[at + 2]):
            kind = payload[place]
            if kind == NULL:
                values.append(None)
                place += 1
            elif kind == STRING_8 and index in _TEXTS:
                start = place + 2
                place = start + payload[place + 1]
                values.append(payload[start:place].decode())
            elif kind == _TIMESTAMP and index in _TIMES:
                values.append(Timestamp(I64.unpack_from(payload, place + 1)[0]))
                place += 9
            else:
                break
        else:
            if place == end <= len(payload) and len(values) <= _FIELDS:
                return Properties(*values)
    if code == LIST_0:
        return Properties()
    if code not in _LISTS:
        raise RemoteProtocolError("the section of properties is no list")
    return _BUILD_PROPERTIES(Reader(payload, at + 1).items(code))  # type: ignore[no-any-return]


def _section_code(reader: Reader) -> int:
    """Read the descriptor of a section and return its code."""
    data, at = reader.data, reader.at
    if data.startswith(_START, at):
        reader.at = at + 3
        return data[at + 2]
    if data[at]:
        raise RemoteProtocolError("a message has a value that is no section")
    reader.at = at + 1
    descriptor = reader.value()
    if type(descriptor) is ULong:
        return int(descriptor)
    return _NAMES.get(descriptor, 0) if type(descriptor) is Symbol else 0


def _read_body(reader: Reader, message: Message, code: int) -> None:
    value = reader.value()
    if code == VALUE:
        message.body = value
        return
    if type(value) is not (bytes if code == DATA else list):
        raise RemoteProtocolError("a section of the body is neither binary nor a list")
    if message.body is None:
        message.body = [value]
    else:
        message.body.append(value)


def _read_section(reader: Reader, message: Message, code: int) -> None:
    kind = reader.data[reader.at]
    reader.at += 1
    if code in _SECTIONS_OF_LISTS:
        if kind not in _LISTS:
            raise RemoteProtocolError(f"the section {code:#x} is no list")
        build = COMPOSITES[code]
        section = build([] if kind == LIST_0 else reader.items(kind))
        if code == _HEADER:
            message.header = section
        else:
            message.properties = section
        return
    if kind not in _MAPS:
        raise RemoteProtocolError(f"the section {code:#x} is no map, or does not exist")
    pairs = reader.pairs(kind)
    if code == _APPLICATION_PROPERTIES:
        message.application_properties = pairs
    elif code == _MESSAGE_ANNOTATIONS:
        message.message_annotations = pairs
    elif code == _DELIVERY_ANNOTATIONS:
        message.delivery_annotations = pairs
    elif code == _FOOTER:
        message.footer = pairs
    else:
        raise RemoteProtocolError(f"the section {code:#x} does not exist")


_BUILD_PROPERTIES: Final = COMPOSITES[PROPERTIES]
_WRITE_HEADER: Final = WRITERS[Header]
_WRITE_PROPERTIES: Final = WRITERS[Properties]


def encode_message(message: Message) -> bytes:
    """Return the payload of a message.

    Raises:
        LocalProtocolError: a value has no type in AMQP, or is out of its type's range.
    """
    buffer = bytearray()
    try:
        if message.header is not None:
            _WRITE_HEADER(buffer, message.header)
        if message.delivery_annotations is not None:
            buffer += b"\0\x53\x71"
            write_symbol_map(buffer, message.delivery_annotations)
        if message.encoded_annotations is not None:
            buffer += b"\0\x53\x72" + message.encoded_annotations
        elif message.message_annotations is not None:
            buffer += b"\0\x53\x72"
            write_symbol_map(buffer, message.message_annotations)
        if message.properties is not None:
            _WRITE_PROPERTIES(buffer, message.properties)
        if message.encoded_properties is not None:
            buffer += b"\0\x53\x74" + message.encoded_properties
        elif message.application_properties is not None:
            buffer += b"\0\x53\x74"
            write_map(buffer, message.application_properties)
        _write_body(buffer, message.body_kind, message.body)
        if message.footer is not None:
            buffer += b"\0\x53\x78"
            write_symbol_map(buffer, message.footer)
    except WRITE_ERRORS as error:
        raise write_failure(error) from error
    return bytes(buffer)


def _write_body(buffer: bytearray, kind: int, body: Value) -> None:
    if kind == VALUE:
        buffer += b"\0\x53\x77"
        write_value(buffer, body)
    elif kind == DATA:
        for each in body:
            buffer += b"\0\x53\x75"
            write_binary(buffer, each)
    elif kind == SEQUENCE:
        for each in body:
            buffer += b"\0\x53\x76"
            write_list(buffer, each)
    elif kind != NO_BODY:
        raise LocalProtocolError(f"There is no body of kind {kind}")


def with_header(payload: bytes, header: Header) -> bytes:
    """Return a payload with another header; its other sections stay as they are.

    Raises:
        RemoteProtocolError: `payload` does not begin with a section.
    """
    buffer = bytearray()
    write_value(buffer, header)
    reader = Reader(payload)
    try:
        while reader.at < reader.end:
            start = reader.at
            code = _section_code(reader)
            reader.skip()
            if code != _HEADER:
                buffer += payload[start : reader.at]
    except READ_ERRORS as error:
        raise reader.failure(error) from error
    return bytes(buffer)
