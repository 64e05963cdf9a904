"""What the console's forms do: actions with their confirmation questions, and sending of messages.

Every action is a POST with the session's token by a user with administrator access. Actions that
cannot be undone have a confirmation page with the numbers of affected objects at that time.
(activemq-edges W4, W5)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyjms.errors import IllegalStateException, MessageFormatException
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_CRON,
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
)
from pyjms.jms.types import Long
from pyjms_broker.console.model.clients import (
    bridge_view,
    connection_view,
    durable_subscription,
    names_of,
    network_connector_view,
)
from pyjms_broker.console.model.destinations import destination_view, find_destination
from pyjms_broker.console.model.messages import remove_job
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View


class Form:
    """The fields of a form for one broker."""

    def __init__(self, management: Management, fields: Mapping[str, str]) -> None:
        self.management = management
        self._fields = fields

    def get(self, name: str) -> str:
        """Return a field; empty if it is missing."""
        return self._fields.get(name, "").strip()

    def require(self, name: str) -> str:
        """Return a field, or raise InvalidArgumentException."""
        value = self.get(name)
        if not value:
            raise InvalidArgumentException(
                f"The field {name.replace('_', ' ')} is empty", hint="fill it in, and send again"
            )
        return value

    @property
    def kind(self) -> str:
        """`topic` or `queue`."""
        return "topic" if self.get("kind") == "topic" else "queue"

    async def broker(self, operation: str, *arguments: object) -> object:
        """Invoke an operation of the broker's view."""
        return await self.management.invoke(
            self.management.context.names.broker(), operation, *arguments
        )

    async def destination(self, operation: str, *arguments: object) -> object:
        """Invoke an operation of the view of the destination `name`."""
        view = destination_view(self.management, self.kind, self.require("name"))
        return await view.invoke(operation, *arguments)

    def count(self, attribute: str) -> int:
        """Return a counter of the destination `name`."""
        view = destination_view(self.management, self.kind, self.require("name"))
        value = view[attribute]
        assert isinstance(value, int)
        return value


class Question(NamedTuple):
    """The confirmation question of an action.

    Args:
        title: the action and its object.
        facts: the affected numbers and the consequences.
        button: the label of the confirmation button.
        may_act: whether there is anything to do.
    """

    title: str
    facts: tuple[str, ...]
    button: str
    may_act: bool = True


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a form.

    Args:
        run: executes the action; returns a description of the result.
        after: the page that is shown afterwards, unless the form names one.
        ask: returns the question; None for actions that can be undone.
        fields: the fields that the confirmation page passes on.
    """

    run: Callable[[Form], Awaitable[str]]
    after: str
    ask: Callable[[Form], Question] | None = None
    fields: tuple[str, ...] = ("kind", "name")


def messages_text(number: int) -> str:
    """Return a number of messages in words."""
    return f"{number:,} message{'' if number == 1 else 's'}"


def was(number: int) -> str:
    """Return the verb for a number of messages."""
    return "was" if number == 1 else "were"


def _simple(operation: str, done: str) -> Callable[[Form], Awaitable[str]]:
    """Return an action that invokes an operation of the destination; `{}` is the name."""

    async def run(form: Form) -> str:
        await form.destination(operation)
        return done.format(form.require("name"))

    return run


async def _create(form: Form) -> str:
    name = form.require("name")
    await form.broker(f"add{form.kind.title()}", name)
    return f"The {form.kind} {name} was created."


async def _delete(form: Form) -> str:
    name = form.require("name")
    destination_view(form.management, form.kind, name)  # raises an error if there is none
    await form.broker(f"remove{form.kind.title()}", name)
    return f"The {form.kind} {name} was deleted."


def _ask_delete(form: Form) -> Question:
    name = form.require("name")
    messages, consumers = form.count("QueueSize"), form.count("ConsumerCount")
    facts = [f"{messages_text(messages)} will be deleted with it."] if form.kind == "queue" else []
    if consumers:
        facts.append(
            f"It has {consumers} consumer{'' if consumers == 1 else 's'},"
            " which will not get any more messages."
        )
    facts.append("It is created again when a client uses its name.")
    return Question(f"Delete the {form.kind} {name}?", tuple(facts), f"Delete {form.kind}")


async def _purge(form: Form) -> str:
    before = form.count("QueueSize")
    await form.destination("purge")
    left = form.count("QueueSize")
    rest = f" {messages_text(left)} in flight to consumers stayed." if left else ""
    count = before - left
    return f"{messages_text(count)} of {form.require('name')} {was(count)} deleted.{rest}"


def _ask_purge(form: Form) -> Question:
    messages, in_flight = form.count("QueueSize"), form.count("InFlightCount")
    facts = [f"{messages_text(messages - in_flight)} will be deleted. This cannot be undone."]
    if in_flight:
        facts.append(f"{messages_text(in_flight)} in flight to consumers will stay.")
    return Question(
        f"Purge the queue {form.require('name')}?",
        tuple(facts),
        f"Delete {messages_text(messages - in_flight)}",
        may_act=messages > in_flight,
    )


def _message_action(
    operation: str, done: str, why_not: str, *, has_target: bool = False
) -> Callable[[Form], Awaitable[str]]:
    """Return an action on the message `id`, which may have a `target`; `{}` is that target."""

    async def run(form: Form) -> str:
        message_id = form.require("id")
        target = form.require("target") if has_target else ""
        arguments = (message_id, target) if has_target else (message_id,)
        if not await form.destination(operation, *arguments):
            raise IllegalStateException(
                f"The message {message_id[:200]} was not {why_not}",
                hint="reload the page and try again",
            )
        return f"The message {message_id} {done.format(target)}."

    return run


def _ask_delete_message(form: Form) -> Question:
    facts = ("This cannot be undone.",)
    title = f"Delete the message {form.require('id')} of {form.require('name')}?"
    return Question(title, facts, "Delete message")


async def _retry_all(form: Form) -> str:
    moved = await form.destination("retryMessages")
    assert isinstance(moved, int)
    what = f"{messages_text(moved)} of {form.require('name')}"
    return f"{what} {was(moved)} sent to the original destinations."


def _ask_retry_all(form: Form) -> Question:
    messages = form.count("QueueSize")
    facts = (
        f"It has {messages_text(messages)}.",
        "Each is sent to its original destination.",
        "Messages that fail again come back to this queue.",
    )
    title = f"Retry all messages of {form.require('name')}?"
    return Question(title, facts, f"Retry {messages_text(messages)}", may_act=messages > 0)


async def _retry_group(form: Form) -> str:
    moved = await form.destination("retryGroup(java.lang.String)", form.require("reason"))
    assert isinstance(moved, int)
    what = f"{messages_text(moved)} of {form.require('name')}"
    return f"{what} {was(moved)} sent to the original destinations."


def _ask_retry_group(form: Form) -> Question:
    facts = (
        f"Those with the reason: {form.require('reason')}.",
        "Each is sent to its original destination.",
        "Messages that fail again come back to this queue.",
        "With a rate: pyjms broker retry --reason ... --rate ...",
    )
    title = f"Retry a group of messages of {form.require('name')}?"
    return Question(title, facts, "Retry the group", may_act=form.count("QueueSize") > 0)


async def _move_all(form: Form) -> str:
    target = form.require("target")
    moved = await form.destination("moveMatchingMessagesTo", form.get("selector"), target)
    assert isinstance(moved, int)
    return f"{messages_text(moved)} of {form.require('name')} {was(moved)} moved to {target}."


def _ask_move_all(form: Form) -> Question:
    messages, target = form.count("QueueSize"), form.require("target")
    selector = form.get("selector")
    facts = (
        f"The queue has {messages_text(messages)}."
        + (f" Those that match {selector} are moved." if selector else " All are moved."),
        "Messages in flight to consumers stay.",
    )
    title = f"Move messages of {form.require('name')} to {target}?"
    return Question(title, facts, "Move messages", may_act=messages > 0)


async def _create_subscriber(form: Form) -> str:
    client_id, name = form.require("client_id"), form.require("subscription")
    topic, selector = form.require("topic"), form.get("selector")
    await form.broker("createDurableSubscriber", client_id, name, topic, selector or None)
    return f"The subscription {name} of {client_id} to {topic} was created."


async def _delete_subscriber(form: Form) -> str:
    client_id, name = form.require("client_id"), form.require("subscription")
    await form.broker("destroyDurableSubscriber", client_id, name)
    return f"The subscription {name} of {client_id} was deleted."


def _ask_delete_subscriber(form: Form) -> Question:
    client_id, name = form.require("client_id"), form.require("subscription")
    subscription = durable_subscription(form.management, client_id, name)
    pending = int(str(subscription["PendingQueueSize"]))
    return Question(
        f"Delete the subscription {name} of {client_id}?",
        (f"{messages_text(pending)} kept for it will be lost. This cannot be undone.",),
        "Delete subscription",
    )


async def _close_connection(form: Form) -> str:
    view = connection_view(form.management, form.require("view"))
    name = view["ClientId"]
    await view.invoke("stop")
    return f"The connection {name} is being closed."


def _ask_close_connection(form: Form) -> Question:
    view = connection_view(form.management, form.require("view"))
    consumers = len(names_of(view, "Consumers"))
    producers = len(names_of(view, "Producers"))
    has = f"{consumers} consumer{'' if consumers == 1 else 's'}"
    has += f" and {producers} producer{'' if producers == 1 else 's'}"
    facts = (
        f"It has {has}. Messages that it has not acknowledged are delivered again.",
        "A client with failover connects again.",
    )
    return Question(f"Close the connection {view['ClientId']}?", facts, "Close connection")


async def _delete_job(form: Form) -> str:
    job_id = form.require("id")
    if not await remove_job(form.management.context, job_id):
        raise IllegalStateException(
            f"There is no scheduled message {job_id[:200]}", hint="reload the page and try again"
        )
    return f"The scheduled message {job_id} was deleted."


def _ask_delete_job(form: Form) -> Question:
    job_id = form.require("id")
    facts = ("It will not be sent. This cannot be undone.",)
    return Question(f"Delete the scheduled message {job_id}?", facts, "Delete scheduled message")


async def _start_network(form: Form) -> str:
    name = form.require("name")
    await network_connector_view(form.management, name).invoke("start")
    return f"The network connector {name} connects to its remote brokers."


async def _stop_network(form: Form) -> str:
    name = form.require("name")
    await network_connector_view(form.management, name).invoke("stop")
    return (
        f"The network connector {name} is stopped. "
        "Messages that it has not forwarded stay in this broker until it is started again."
    )


async def _reset_bridge(form: Form) -> str:
    view = bridge_view(form.management, form.require("view"))
    await view.invoke("resetStats")
    return f"The counters of the bridge to {view['RemoteBrokerName']} were reset."


ACTIONS: Final[dict[str, Action]] = {
    "create": Action(_create, "queues"),
    "delete": Action(_delete, "queues", _ask_delete),
    "purge": Action(_purge, "queues", _ask_purge),
    "pause": Action(
        _simple("pause", "{} is paused: it accepts messages, but does not dispatch them."), "queues"
    ),
    "resume": Action(_simple("resume", "{} is resumed and dispatches messages again."), "queues"),
    "reset": Action(_simple("resetStatistics", "The counters of {} were reset."), "queues"),
    "delete-message": Action(
        _message_action(
            "removeMessage",
            "was deleted",
            "deleted: it is in flight to a consumer, or no longer in the queue",
        ),
        "queues",
        _ask_delete_message,
        ("kind", "name", "id"),
    ),
    "copy-message": Action(
        _message_action(
            "copyMessageTo",
            "was copied to {}",
            "copied: it is no longer in the queue",
            has_target=True,
        ),
        "queues",
    ),
    "move-message": Action(
        _message_action(
            "moveMessageTo",
            "was moved to {}",
            "moved: a consumer has it, or it has left",
            has_target=True,
        ),
        "queues",
    ),
    "retry-message": Action(
        _message_action(
            "retryMessage",
            "is back in its original destination",
            "moved: it is in flight to a consumer",
        ),
        "dead-letters",
    ),
    "retry-all": Action(_retry_all, "dead-letters", _ask_retry_all),
    "retry-group": Action(
        _retry_group, "dead-letters", _ask_retry_group, ("kind", "name", "reason")
    ),
    "move-all": Action(_move_all, "queues", _ask_move_all, ("kind", "name", "target", "selector")),
    "create-subscriber": Action(_create_subscriber, "subscribers"),
    "delete-subscriber": Action(
        _delete_subscriber, "subscribers", _ask_delete_subscriber, ("client_id", "subscription")
    ),
    "close-connection": Action(_close_connection, "connections", _ask_close_connection, ("view",)),
    "delete-job": Action(_delete_job, "scheduled", _ask_delete_job, ("id",)),
    "start-network-connector": Action(_start_network, "connections"),
    "stop-network-connector": Action(_stop_network, "connections"),
    "reset-bridge": Action(_reset_bridge, "network"),
}
"""The actions by the last part of the path."""


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
    Field("delay", "Delay", "ms", AMQ_SCHEDULED_DELAY, 0),
    Field("period", "Period", "ms", AMQ_SCHEDULED_PERIOD, 0),
    Field("repeat", "Repeat", "times; -1: for ever", AMQ_SCHEDULED_REPEAT, -1, _INT - 1),
    Field("cron", "Cron entry", "30 6 * * 1-5", AMQ_SCHEDULED_CRON),
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

    Raises:
        MessageFormatException: a field, which the message names, is invalid.
        JMSException: the broker refused a message; those before it were sent.
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
