"""Conversion of requests to messages, and of messages to responses. (activemq-edges W6, W7)"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import Response

from pyjms.enums import DeliveryMode
from pyjms.jms import BytesMessage, Message, TextMessage
from pyjms.jms.destination import Destination, Queue, Topic, named_kind, parse_destination
from pyjms_broker.web.errors import WebError

__all__ = [
    "SendOptions",
    "destination_of",
    "milliseconds",
    "parameters_of",
    "response_of",
    "to_send",
]

_FORM: Final = "application/x-www-form-urlencoded"
_OWN: Final = frozenset({"destination", "type", "body", "clientId", "action"})
_DELIVERY: Final = {"persistent": DeliveryMode.PERSISTENT, "2": DeliveryMode.PERSISTENT}
_PRIORITY: Final = 5
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_RESERVED: Final = frozenset(
    {
        "age",
        "allow",
        "authorization",
        "connection",
        "cookie",
        "date",
        "destination",
        "etag",
        "expires",
        "forwarded",
        "from",
        "host",
        "id",
        "link",
        "location",
        "origin",
        "pragma",
        "range",
        "referer",
        "refresh",
        "server",
        "trailer",
        "upgrade",
        "vary",
        "via",
        "warning",
    }
)
"""Headers that properties of a message must not set."""
_HEADERS_SIZE: Final = 32 * 1024


def parameters_of(request: Request, body: bytes) -> tuple[dict[str, str], str]:
    """Return the parameters of a request, including those of a form, and the text to send.

    Raises:
        WebError: the body is not UTF-8 text.
    """
    given = dict(request.query_params)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise WebError(400, "The body is not UTF-8 text", "send text") from error
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
        try:
            form = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=1000))
        except ValueError as error:
            raise WebError(400, "The form has too many fields", "send at most 1000") from error
        if "body" in form:
            given.update(form)
    if "body" in given:
        return given, given["body"]
    return given, "".join(f"{line}\n" for line in text.splitlines())


def destination_of(path: str, given: Mapping[str, str]) -> Destination:
    """Return the destination of a request, by default a topic.

    Raises:
        WebError: it has no destination, or an unknown type.
        InvalidDestinationException: the name is invalid.
    """
    kind = given.get("type", "topic").lower()
    if kind not in ("queue", "topic"):
        raise WebError(400, f"There is no type {kind[:100]!r}", "write type=queue or type=topic")
    name = path.strip("/").replace("/", ".") or given.get("destination", "")
    if not name:
        raise WebError(
            400, "No destination is named", "write /api/message/NAME?type=queue, or destination="
        )
    named_kind(name)  # raises an error for a misspelt prefix
    found = parse_destination(name, Queue if kind == "queue" else Topic)
    if found.is_temporary:
        raise WebError(
            400,
            f"{name[:100]!r} is temporary: it belongs to another connection",
            "name a queue or a topic",
        )
    if found.is_pattern and not found.is_topic:
        raise WebError(400, f"{name[:100]!r} is a pattern", "name one queue")
    return found


def milliseconds(given: Mapping[str, str], name: str, default: int) -> int:
    """Return a parameter in milliseconds.

    Raises:
        WebError: it is not a number in range.
    """
    return _number(given, name, default, 0, 2**53)


def _number(given: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high:
        return int(text)
    raise WebError(400, f"{name}={text[:100]} is not a number from {low} to {high}", "change it")


@dataclass(frozen=True, slots=True)
class SendOptions:
    """The options for sending a message."""

    delivery_mode: DeliveryMode
    priority: int
    time_to_live: float


def to_send(given: Mapping[str, str], text: str) -> tuple[TextMessage, SendOptions]:
    """Return the message of a request; unknown parameters become properties.

    Raises:
        WebError: a parameter has an invalid value.
        JMSException: a name is invalid for a property.
    """
    message = TextMessage(text)
    message.correlation_id = given.get("JMSCorrelationID")
    message.type = given.get("JMSType")
    if "JMSReplyTo" in given:
        named_kind(given["JMSReplyTo"])
        message.reply_to = parse_destination(given["JMSReplyTo"])
    options = SendOptions(
        _DELIVERY.get(
            given.get("JMSDeliveryMode", "persistent").lower(), DeliveryMode.NON_PERSISTENT
        ),
        _number(given, "JMSPriority", _PRIORITY, 0, 9),
        milliseconds(given, "JMSTimeToLive", 0) / 1000,
    )
    for name, value in given.items():
        if name == "JMSXGroupSeq":
            message.properties[name] = _number(given, name, 0, 0, 2**31 - 1)
        elif name not in _OWN | _HEADERS:
            try:
                message.properties[name] = value
            except ValueError as error:  # an empty name
                raise WebError(400, str(error), "name the parameter") from error
    return message, options


_HEADERS: Final = frozenset(
    {"JMSCorrelationID", "JMSDeliveryMode", "JMSPriority", "JMSReplyTo", "JMSTimeToLive", "JMSType"}
)


def response_of(message: Message, given: Mapping[str, str]) -> Response:
    """Return the response for a message: its body, with id, destination, properties as headers."""
    own = {"id": message.message_id or "", "destination": message.destination or ""}
    headers = {name: quote(str(value), safe=_PRINTABLE) for name, value in own.items()}
    size = 0
    for name, value in message.properties.items():
        text = quote(str(value), safe=_PRINTABLE)
        size += len(name) + len(text)
        if _NAME.fullmatch(name) and name.lower() not in _RESERVED and size <= _HEADERS_SIZE:
            headers[name] = text
    if isinstance(message, TextMessage):
        media_type = "text/plain"
        if given.get("json") == "true":
            media_type = "application/json"
        elif given.get("xml") == "true":
            media_type = "text/xml"
        content = (message.text or "").encode("utf-8", "surrogatepass")
        return Response(content, 200, headers, media_type)
    if isinstance(message, BytesMessage):
        return Response(message.get_body(bytes) or b"", 200, headers, "application/octet-stream")
    body = json.dumps(
        message.decode_body() if hasattr(message, "decode_body") else None, default=str
    )
    return Response(body, 200, headers, "application/json")


_PRINTABLE: Final = "".join(chr(code) for code in range(32, 127) if chr(code) != "%")
"""Characters that headers contain unchanged; others are percent-encoded."""
