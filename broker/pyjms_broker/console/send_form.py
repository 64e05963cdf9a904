"""The console's form for sending: its fields, and the messages that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pyjms.errors import IllegalStateException, MessageFormatException
from pyjms.jms import scheduled
from pyjms.jms.types import Long
from pyjms_broker.console.model.destinations import destination_view, find_destination
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View

MOST_MESSAGES: Final = 1000
"""The maximum number of messages that one form may send."""


class Field(NamedTuple):
    """A field of the form for sending.

    Args:
        name: its name.
        label: its label.
        hint: an example or the default.
        header: the header or property that it sets; empty: none.
        least: the least number; None: it is a text.
        most: the greatest number.
        value: its value in an empty form.
    """

    name: str
    label: str
    hint: str = ""
    header: str = ""
    least: int | None = None
    most: int = 1 << 52
    value: str = ""


_INT: Final = 1 << 31
HEADER_FIELDS: Final = (
    Field("correlation_id", "Correlation id", header="JMSCorrelationID"),
    Field("reply_to", "Reply to", "queue, or topic://name", "JMSReplyTo"),
    Field("jms_type", "Type", header="JMSType"),
    Field("priority", "Priority", "0 to 9; 4", "JMSPriority", 0, 9),
    Field("time_to_live", "Time to live", "ms; for ever", "timeToLive", 0),
    Field("group", "Group", header="JMSXGroupID"),
    Field("group_sequence", "Number in the group", "", "JMSXGroupSeq", -_INT, _INT - 1),
)
_SCHEDULE: Final = (
    Field("delay", "Delay", "ms", scheduled.AMQ_SCHEDULED_DELAY, 0),
    Field("period", "Period", "ms", scheduled.AMQ_SCHEDULED_PERIOD, 0),
    Field("repeat", "Repeat", "times; -1: for ever", scheduled.AMQ_SCHEDULED_REPEAT, -1, _INT - 1),
    Field("cron", "Cron entry", "30 6 * * 1-5", scheduled.AMQ_SCHEDULED_CRON),
)
_COUNT: Final = Field("count", "Number of messages", least=1, most=MOST_MESSAGES, value="1")
_COUNTER: Final = Field("counter", "Property for the counter", value="JMSXMessageCounter")
NUMBER_FIELDS: Final = (_COUNT, _COUNTER, *_SCHEDULE)

EMPTY_FORM: Final[Mapping[str, str]] = {
    "destination": "",
    "type": "queue",
    "persistent": "1",
    "properties": "",
    "body": "",
    **{each.name: each.value for each in (*HEADER_FIELDS, *NUMBER_FIELDS)},
}
"""The values of all fields in an empty form."""


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
    """
    kind = "topic" if form.get("type") == "topic" else "queue"
    name = form.get("destination", "").strip()
    if not name:
        raise _wrong("destination", "is empty", "name a queue or a topic")
    count = _number(form, _COUNT) or 1
    headers = _headers(form)
    if any(form.get(field.name, "").strip() for field in _SCHEDULE):
        _check_scheduler(management)
    view = await _find_or_create(management, kind, name)
    counter, message_id = form.get(_COUNTER.name, "").strip(), ""
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
    for field in (*HEADER_FIELDS, *_SCHEDULE):
        text = form.get(field.name, "").strip()
        value = text if field.least is None else _number(form, field)
        if value not in ("", None):
            headers[field.header] = value
    headers["JMSDeliveryMode"] = "PERSISTENT" if form.get("persistent") else "NON_PERSISTENT"
    return headers


def _number(form: Mapping[str, str], field: Field) -> int | None:
    value = form.get(field.name, "").strip()
    if not value:
        return None
    assert field.least is not None, "it is a number"
    hint = f"write a whole number from {field.least} to {field.most}, or nothing"
    try:
        number = int(value)
    except ValueError as error:
        raise _wrong(field.name, f"is {value[:50]!r}", hint) from error
    if not field.least <= number <= field.most:
        raise _wrong(field.name, f"is {value[:50]!r}", hint)
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
