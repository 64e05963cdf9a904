"""The form that sends messages: its fields, their limits, and the messages. (activemq-edges W4)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyjms.errors import IllegalStateException, MessageFormatException
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_CRON,
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
)
from pyjms.jms.types import Long
from pyjms_broker.console.model.destinations import destination_view, find_destination
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View

MOST_MESSAGES: Final = 1000
"""The maximum number of messages that one form may send."""

DEFAULTS: Final[Mapping[str, str]] = {
    "destination": "",
    "type": "queue",
    "correlation_id": "",
    "persistent": "1",
    "reply_to": "",
    "priority": "",
    "jms_type": "",
    "time_to_live": "",
    "group": "",
    "group_sequence": "",
    "delay": "",
    "period": "",
    "repeat": "",
    "cron": "",
    "count": "1",
    "counter": "JMSXMessageCounter",
    "properties": "",
    "body": "",
}
"""The fields with their values in an empty form."""

_TEXTS: Final = {
    "correlation_id": "JMSCorrelationID",
    "reply_to": "JMSReplyTo",
    "jms_type": "JMSType",
    "group": "JMSXGroupID",
    "cron": AMQ_SCHEDULED_CRON,
}
_NUMBERS: Final = {
    "priority": ("JMSPriority", 0, 9),
    "time_to_live": ("timeToLive", 0, 1 << 52),
    "group_sequence": ("JMSXGroupSeq", -(1 << 31), (1 << 31) - 1),
    "delay": (AMQ_SCHEDULED_DELAY, 0, 1 << 52),
    "period": (AMQ_SCHEDULED_PERIOD, 0, 1 << 52),
    "repeat": (AMQ_SCHEDULED_REPEAT, -1, (1 << 31) - 1),
}
_SCHEDULE: Final = ("delay", "period", "repeat", "cron")


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


_TYPES: Final[Mapping[str, Callable[[str], object]]] = {
    "string": str,
    "int": int,
    "long": lambda text: Long(int(text)),
    "double": float,
    "boolean": _boolean,
}


async def send_messages(management: Management, form: Mapping[str, str]) -> tuple[int, str]:
    """Send the form's messages; return their number and the id of the last one.

    It returns once they are stored. A cancellation takes effect between two messages.

    Raises:
        MessageFormatException: a field, which the message names, is invalid.
        JMSException: the broker refused a message; those before it were sent.
    """
    kind = "topic" if form.get("type") == "topic" else "queue"
    name = form.get("destination", "").strip()
    if not name:
        raise _wrong("destination", "is empty", "name a queue or a topic")
    count = _number(form, "count", 1, MOST_MESSAGES) or 1
    headers = _headers(form)
    if any(form.get(field, "").strip() for field in _SCHEDULE):
        _check_scheduler(management)
    view = await _find_or_create(management, kind, name)
    counter, message_id = form.get("counter", "").strip(), ""
    for number in range(1, count + 1):
        numbered = {**headers, counter: number} if counter and count > 1 else headers
        sent = await view.invoke("sendTextMessage", numbered, form.get("body", ""))
        message_id = str(sent)
    return count, message_id


async def _find_or_create(management: Management, kind: str, name: str) -> View[Any]:
    if find_destination(management.context, kind, name) is None:
        operation = "addTopic" if kind == "topic" else "addQueue"
        await management.invoke(management.context.names.broker(), operation, name)
    return destination_view(management, kind, name)


def _check_scheduler(management: Management) -> None:
    if management.context.host.job_store is None:
        raise IllegalStateException(
            "This broker has no scheduler: a delayed message would be delivered at once",
            hint="set scheduler_support: true in broker.yaml, or leave the schedule empty",
        )


def _headers(form: Mapping[str, str]) -> dict[str, object]:
    headers = _properties(form.get("properties", ""))
    for field, header in _TEXTS.items():
        value = form.get(field, "").strip()
        if value:
            headers[header] = value
    for field, (header, least, most) in _NUMBERS.items():
        number = _number(form, field, least, most)
        if number is not None:
            headers[header] = number
    headers["JMSDeliveryMode"] = "PERSISTENT" if form.get("persistent") else "NON_PERSISTENT"
    return headers


def _number(form: Mapping[str, str], field: str, least: int, most: int) -> int | None:
    value = form.get(field, "").strip()
    if not value:
        return None
    hint = f"write a whole number from {least} to {most}, or nothing"
    try:
        number = int(value)
    except ValueError as error:
        raise _wrong(field, f"is {value[:50]!r}", hint) from error
    if not least <= number <= most:
        raise _wrong(field, f"is {value[:50]!r}", hint)
    return number


def _properties(text: str) -> dict[str, object]:
    properties: dict[str, object] = {}
    for line_number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        name, _, kind = name.strip().partition(":")
        read = _TYPES.get(kind.strip() or "string")
        hint = f"write name=value or name:type=value, with a type of {', '.join(_TYPES)}"
        if not equals or not name or read is None:
            raise _wrong("properties", f"has no property in line {line_number}", hint)
        try:
            properties[name] = read(value.strip() if kind else value)
        except ValueError as error:
            raise _wrong("properties", f"has no {kind} in line {line_number}", hint) from error
    return properties


def _wrong(field: str, problem: str, hint: str) -> MessageFormatException:
    return MessageFormatException(f"The field {field.replace('_', ' ')} {problem}", hint=hint)
