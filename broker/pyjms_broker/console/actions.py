"""What the console's forms do: actions with their confirmation questions.

Every action is a POST with the session's token by a user with administrator access. Actions that
cannot be undone, or that affect several objects, have a confirmation page with the numbers of
affected objects at that time. The objects are the values of one field, of which a table's check
boxes send several. (activemq-edges W4, W5)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyjms.errors import IllegalStateException, JMSException
from pyjms.selector import selector_or_none
from pyjms_broker.api.message import MessageReference
from pyjms_broker.console.console import Console
from pyjms_broker.console.model.clients import (
    bridge_view,
    connection_of,
    consumer_view,
    durable_subscription,
    network_connector_view,
)
from pyjms_broker.console.model.destinations import destination_view
from pyjms_broker.console.model.messages import Scan, queue_named, remove_job
from pyjms_broker.management.dead_letters import Retry, of_reason
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.management import Management
from pyjms_broker.management.messages import is_selected
from pyjms_broker.security.audit import audit_action


class Form:
    """The fields of a form of one console."""

    def __init__(self, console: Console, fields: Mapping[str, Sequence[str]]) -> None:
        self.console = console
        self._fields = fields

    @property
    def management(self) -> Management:
        """The management views of the broker."""
        return self.console.management

    def get(self, name: str) -> str:
        """Return a field; empty if it is missing."""
        return next(iter(self._fields.get(name, ())), "").strip()

    def require(self, name: str) -> str:
        """Return a field, or raise InvalidArgumentException."""
        value = self.get(name)
        if not value:
            raise InvalidArgumentException(
                f"The field {name.replace('_', ' ')} is empty", hint="fill it in, and send again"
            )
        return value

    def choices(self, name: str) -> list[str]:
        """Return the chosen objects, or raise InvalidArgumentException if there is none."""
        found = list(dict.fromkeys(each for each in self._fields.get(name, ()) if each.strip()))
        if not found:
            raise InvalidArgumentException(
                "Nothing is selected", hint="check the boxes of the rows, and try again"
            )
        return found

    @property
    def kind(self) -> str:
        """`topic` or `queue`."""
        return "topic" if self.get("kind") == "topic" else "queue"

    @property
    def rate(self) -> float:
        """The maximum number of messages a second; 0: no maximum."""
        written = self.get("rate")
        try:
            rate = float(written or 0)
        except ValueError:
            rate = -1.0
        if not 0 <= rate <= 1_000_000:
            raise InvalidArgumentException(
                f"The field rate is {written[:50]!r}",
                hint="write messages a second, such as 10 or 0.5, or nothing for no maximum",
            )
        return rate

    async def broker(self, operation: str, *arguments: object) -> object:
        """Invoke an operation of the broker's view."""
        return await self.management.invoke(
            self.management.context.names.broker(), operation, *arguments
        )

    async def destination(self, name: str, operation: str, *arguments: object) -> object:
        """Invoke an operation of the view of a destination."""
        view = destination_view(self.management, self.kind, name)
        return await view.invoke(operation, *arguments)

    async def count_of(self, name: str, operation: str, *arguments: object) -> int:
        """Invoke an operation that returns a number."""
        found = await self.destination(name, operation, *arguments)
        assert isinstance(found, int)
        return found

    def sum(self, names: Sequence[str], attribute: str) -> int:
        """Return the sum of a counter of destinations."""
        views = (destination_view(self.management, self.kind, name) for name in names)
        return sum(int(str(view[attribute])) for view in views)


class Question(NamedTuple):
    """The confirmation question of an action.

    Args:
        title: the action and its objects.
        facts: the affected numbers and the consequences.
        button: the label of the confirmation button.
        may_act: whether there is anything to do.
        has_rate: whether the page asks for a maximum rate.
    """

    title: str
    facts: tuple[str, ...]
    button: str
    may_act: bool = True
    has_rate: bool = False


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
    ask: Callable[[Form], Awaitable[Question]] | None = None
    fields: tuple[str, ...] = ("kind", "name")


def many(number: int, word: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def messages_text(number: int) -> str:
    """Return a number of messages in words."""
    return many(number, "message")


def was(number: int) -> str:
    """Return the verb for a number of things."""
    return "was" if number == 1 else "were"


def _names_text(objects: Sequence[str], word: str) -> str:
    """Return the name of the only object, or how many there are."""
    return objects[0] if len(objects) == 1 else many(len(objects), word)


def _list_names(objects: Sequence[str]) -> tuple[str, ...]:
    """Return a fact with the names of several objects."""
    return () if len(objects) == 1 else (", ".join(objects) + ".",)


async def _each(objects: Sequence[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Act on all objects, or raise an error that says how many failed, and why the first did."""
    failed: list[tuple[str, JMSException]] = []
    for each in objects:
        try:
            await act(each)
        except JMSException as error:
            failed.append((each, error))
    if failed and len(objects) == 1:
        raise failed[0][1]
    if failed:
        name, first = failed[0]
        raise IllegalStateException(
            f"{len(failed)} of {len(objects)} failed; {name[:200]}: {first.reason}",
            hint=first.hint or "reload the page and try again",
        )


# Destinations


async def _create(form: Form) -> str:
    name = form.require("name")
    await form.broker(f"add{form.kind.title()}", name)
    return f"The {form.kind} {name} was created."


async def _delete(form: Form) -> str:
    names = form.choices("name")

    async def delete(name: str) -> None:
        destination_view(form.management, form.kind, name)  # raises an error if there is none
        await form.broker(f"remove{form.kind.title()}", name)

    await _each(names, delete)
    one = f"The {form.kind} {names[0]}"
    what = one if len(names) == 1 else many(len(names), form.kind)
    return f"{what} {was(len(names))} deleted."


async def _ask_delete(form: Form) -> Question:
    names = form.choices("name")
    messages, consumers = form.sum(names, "QueueSize"), form.sum(names, "ConsumerCount")
    with_it = "with it" if len(names) == 1 else "with them"
    facts = [*_list_names(names)]
    if form.kind == "queue":
        facts.append(f"{messages_text(messages)} will be deleted {with_it}.")
    if consumers:
        facts.append(f"{many(consumers, 'consumer')} will not get any more messages.")
    facts.append("A destination is created again when a client uses its name.")
    one = f"the {form.kind} {names[0]}" if len(names) == 1 else many(len(names), form.kind)
    button = f"Delete {form.kind if len(names) == 1 else many(len(names), form.kind)}"
    return Question(f"Delete {one}?", tuple(facts), button)


async def _purge(form: Form) -> str:
    names = form.choices("name")
    before = form.sum(names, "QueueSize")
    await _each(names, lambda name: form.destination(name, "purge"))
    left = form.sum(names, "QueueSize")
    rest = f" {messages_text(left)} in flight to consumers stayed." if left else ""
    count = before - left
    return f"{messages_text(count)} of {_names_text(names, 'queue')} {was(count)} deleted.{rest}"


async def _ask_purge(form: Form) -> Question:
    names = form.choices("name")
    messages, in_flight = form.sum(names, "QueueSize"), form.sum(names, "InFlightCount")
    facts = [
        *_list_names(names),
        f"{messages_text(messages - in_flight)} will be deleted. This cannot be undone.",
    ]
    if in_flight:
        facts.append(f"{messages_text(in_flight)} in flight to consumers will stay.")
    one = f"the queue {names[0]}" if len(names) == 1 else many(len(names), "queue")
    return Question(
        f"Purge {one}?",
        tuple(facts),
        f"Delete {messages_text(messages - in_flight)}",
        may_act=messages > in_flight,
    )


def _on_each(operation: str, one: str, several: str) -> Callable[[Form], Awaitable[str]]:
    """Return an action that invokes an operation of destinations; `{}` is the name or number."""

    async def run(form: Form) -> str:
        names = form.choices("name")
        await _each(names, lambda name: form.destination(name, operation))
        return (one if len(names) == 1 else several).format(_names_text(names, form.kind))

    return run


# Messages of a queue


def _ids(ids: Sequence[str]) -> str:
    """Return the selector of the messages with these ids."""
    return "JMSMessageID IN ({})".format(", ".join("'" + i.replace("'", "''") + "'" for i in ids))


def _on_messages(
    operation: str, done: str, why_not: str, *, has_target: bool = False
) -> Callable[[Form], Awaitable[str]]:
    """Return an action on the messages `id`, which may have a `target`; `{}` is that target."""

    async def run(form: Form) -> str:
        ids, name = form.choices("id"), form.require("name")
        target = form.require("target") if has_target else ""
        arguments = (_ids(ids), target) if has_target else (_ids(ids),)
        count = await form.count_of(name, operation, *arguments)
        if count == len(ids) == 1:
            return f"The message {ids[0]} was {done.format(target)}."
        if count < len(ids):
            verb = done.partition(" ")[0]
            what = f"message {ids[0][:200]} was not {verb}"
            if len(ids) > 1:
                what = f"{len(ids) - count} of {len(ids)} messages were not {verb}"
            raise IllegalStateException(
                f"The {what}: {why_not}", hint="reload the page and try again"
            )
        return f"{messages_text(count)} of {name} {was(count)} {done.format(target)}."

    return run


_LEFT: Final = "in flight to a consumer, or no longer in the queue"
_delete_messages = _on_messages("removeMatchingMessages", "deleted", _LEFT)
_copy_messages = _on_messages(
    "copyMatchingMessagesTo", "copied to {}", "no longer in the queue", has_target=True
)
_move_messages = _on_messages("moveMatchingMessagesTo", "moved to {}", _LEFT, has_target=True)
_retry_messages = _on_messages(
    "retryMatchingMessages",
    "moved back to the original destination",
    f"{_LEFT}, or its original destination is unknown",
)


def _ask_messages(verb: str, fact: str) -> Callable[[Form], Awaitable[Question]]:
    async def ask(form: Form) -> Question:
        ids, name = form.choices("id"), form.require("name")
        target = f" to {form.require('target')}" if verb in ("Move", "Copy") else ""
        one = f"the message {ids[0]}" if len(ids) == 1 else messages_text(len(ids))
        what = "message" if len(ids) == 1 else messages_text(len(ids))
        return Question(f"{verb} {one} of {name}{target}?", (fact,), f"{verb} {what}")

    return ask


_STAY: Final = "Messages in flight to consumers stay."


async def _move_all(form: Form) -> str:
    name, target = form.require("name"), form.require("target")
    moved = await form.count_of(name, "moveMatchingMessagesTo", form.get("selector"), target)
    return f"{messages_text(moved)} of {name} {was(moved)} moved to {target}."


async def _ask_move_all(form: Form) -> Question:
    name, target, selector = form.require("name"), form.require("target"), form.get("selector")
    messages = form.sum([name], "QueueSize")
    facts = [f"The queue has {messages_text(messages)}.", _STAY]
    count = messages_text(messages)
    if selector:
        scan = Scan(form.management.context, selector)
        messages = 0
        async for _ in scan.of(queue_named(form.management.context, name)):
            messages += 1
        count = messages_text(messages) if scan.complete else f"at least {messages_text(messages)}"
        facts.insert(1, f"Those that match {selector} are moved: {count}.")
    title = f"Move messages of {name} to {target}?"
    return Question(title, tuple(facts), f"Move {count}", may_act=messages > 0)


# Dead letters


async def _retry_all(form: Form) -> str:
    name = form.require("name")
    if form.rate:
        return _retry_slowly(form, name, "all", lambda _: True)
    return _sent_back(name, await form.count_of(name, "retryMessages"))


async def _retry_group(form: Form) -> str:
    name, reason = form.require("name"), form.require("reason")
    if form.rate:
        return _retry_slowly(form, name, reason, of_reason(reason))
    operation = "retryGroup(java.lang.String)"
    return _sent_back(name, await form.count_of(name, operation, reason))


async def _retry_some(form: Form) -> str:
    if not form.rate:
        return await _retry_messages(form)
    ids, name = form.choices("id"), form.require("name")
    selector = selector_or_none(_ids(ids), form.management.context.region.selector_limits)
    assert selector is not None
    return _retry_slowly(
        form, name, messages_text(len(ids)), lambda each: is_selected(selector, each)
    )


def _sent_back(name: str, count: int) -> str:
    return f"{messages_text(count)} of {name} {was(count)} sent to the original destinations."


def _retry_slowly(
    form: Form, name: str, what: str, is_wanted: Callable[[MessageReference], bool]
) -> str:
    """Retry in the background, with the form's rate."""
    context = form.management.context
    with audit_action(f"retry {what} of {name} with a rate"):
        retry = Retry(context, queue_named(context, name), is_wanted, form.rate)
        form.console.retries.start(name, what, retry)
    return (
        f"Messages of {name} are sent to the original destinations, {form.rate:g} a second:"
        " the page Dead letters shows how many, and stops it."
    )


async def _stop_retry(form: Form) -> str:
    name = form.require("name")
    count = await form.console.retries.stop(name)
    return f"The retry of {name} was stopped: {messages_text(count)} {was(count)} sent."


_RETRY_FACTS: Final = (
    "Each is sent to its original destination.",
    "Messages that fail again come back to this queue.",
)


async def _ask_retry_all(form: Form) -> Question:
    name = form.require("name")
    messages = form.sum([name], "QueueSize")
    facts = (f"It has {messages_text(messages)}.", *_RETRY_FACTS)
    button = f"Retry {messages_text(messages)}"
    return Question(f"Retry all messages of {name}?", facts, button, messages > 0, has_rate=True)


async def _ask_retry_group(form: Form) -> Question:
    name, reason = form.require("name"), form.require("reason")
    context = form.management.context
    is_wanted, scan, count = of_reason(reason), Scan(context, None), 0
    async for each in scan.of(queue_named(context, name)):
        count += is_wanted(each)
    number = messages_text(count) if scan.complete else f"at least {messages_text(count)}"
    facts = (f"{number} have the reason: {reason}.", *_RETRY_FACTS)
    title = f"Retry a group of messages of {name}?"
    return Question(title, facts, f"Retry {number}", count > 0, has_rate=True)


async def _ask_retry_some(form: Form) -> Question:
    ids, name = form.choices("id"), form.require("name")
    number = messages_text(len(ids))
    return Question(
        f"Retry {number} of {name}?", _RETRY_FACTS, f"Retry {number}", has_rate=len(ids) > 1
    )


# Clients, subscriptions and jobs


async def _create_subscriber(form: Form) -> str:
    client_id, name = form.require("client_id"), form.require("subscription")
    topic, selector = form.require("topic"), form.get("selector")
    await form.broker("createDurableSubscriber", client_id, name, topic, selector or None)
    return f"The subscription {name} of {client_id} to {topic} was created."


async def _delete_subscriber(form: Form) -> str:
    client_id, name = form.require("client_id"), form.require("subscription")
    await form.broker("destroyDurableSubscriber", client_id, name)
    return f"The subscription {name} of {client_id} was deleted."


async def _ask_delete_subscriber(form: Form) -> Question:
    client_id, name = form.require("client_id"), form.require("subscription")
    subscription = durable_subscription(form.management, client_id, name)
    pending = int(str(subscription["PendingQueueSize"]))
    return Question(
        f"Delete the subscription {name} of {client_id}?",
        (f"{messages_text(pending)} kept for it will be lost. This cannot be undone.",),
        "Delete subscription",
    )


async def _close_connections(form: Form) -> str:
    ids = form.choices("id")
    clients = [str(connection_of(form.management, each)["ClientId"]) for each in ids]
    await _each(ids, lambda each: connection_of(form.management, each).invoke("stop"))
    is_one = len(ids) == 1
    what = f"The connection {clients[0]} is" if is_one else f"{len(ids)} connections are"
    return f"{what} being closed."


async def _ask_close_connections(form: Form) -> Question:
    ids = form.choices("id")
    views = [connection_of(form.management, each) for each in ids]
    clients = [str(view["ClientId"]) for view in views]
    consumers = sum(view.target.it.state.consumers[False] for view in views)
    producers = sum(view.target.it.state.producers[False] for view in views)
    subject = "It has" if len(ids) == 1 else "They have"
    facts = (
        *_list_names(clients),
        f"{subject} {many(consumers, 'consumer')} and {many(producers, 'producer')}.",
        "Messages that are not acknowledged are delivered again.",
        "A client with failover connects again.",
    )
    what = f"the connection {clients[0]}" if len(ids) == 1 else many(len(ids), "connection")
    button = f"Close {'connection' if len(ids) == 1 else many(len(ids), 'connection')}"
    return Question(f"Close {what}?", facts, button)


async def _close_consumer(form: Form) -> str:
    view = consumer_view(form.management, form.require("view"))
    await view.invoke("close")
    return (
        f"The consumer of {view['ClientId']} on {view['DestinationName']} is being closed:"
        " its client has a second to do it."
    )


async def _ask_close_consumer(form: Form) -> Question:
    view = consumer_view(form.management, form.require("view"))
    in_flight = int(str(view["DispatchedQueueSize"]))
    facts = (
        f"{messages_text(in_flight)} that it has not acknowledged will be delivered again.",
        "Its connection stays; the application may make a new consumer.",
    )
    title = f"Close the consumer of {view['ClientId']} on {view['DestinationName']}?"
    return Question(title, facts, "Close consumer")


_LONGEST_MUTE: Final = 31 * 24


async def _mute(form: Form) -> str:
    title, where, hours = form.require("title"), form.get("where"), form.require("hours")
    if not hours.isascii() or not hours.isdigit() or not 0 < int(hours[:9]) <= _LONGEST_MUTE:
        raise InvalidArgumentException(
            f"The field hours is {hours[:50]!r}", hint=f"write 1 to {_LONGEST_MUTE}"
        )
    form.console.mutes.add(title, where, int(hours) * 3600)
    what = f"{title}: {where}" if where else f"All warnings of the kind {title}"
    return f"{what} {'is' if where else 'are'} muted for {many(int(hours), 'hour')}."


async def _unmute(form: Form) -> str:
    title, where = form.require("title"), form.get("where")
    form.console.mutes.remove(title, where)
    return f"{title}{f': {where}' if where else ''} is shown again."


async def _delete_job(form: Form) -> str:
    ids = form.choices("id")

    async def delete(job_id: str) -> None:
        if not await remove_job(form.management.context, job_id):
            raise IllegalStateException(
                f"There is no scheduled message {job_id[:200]}",
                hint="reload the page and try again",
            )

    await _each(ids, delete)
    what = f"The scheduled message {ids[0]}" if len(ids) == 1 else f"{len(ids)} scheduled messages"
    return f"{what} {was(len(ids))} deleted."


async def _ask_delete_job(form: Form) -> Question:
    ids = form.choices("id")
    what = f"the scheduled message {ids[0]}" if len(ids) == 1 else f"{len(ids)} scheduled messages"
    facts = ("It will not be sent. This cannot be undone.",)
    if len(ids) > 1:
        facts = ("They will not be sent. This cannot be undone.",)
    return Question(f"Delete {what}?", facts, f"Delete {many(len(ids), 'scheduled message')}")


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


_MESSAGES: Final = ("kind", "name", "id")
_MOVED: Final = (*_MESSAGES, "target")

ACTIONS: Final[dict[str, Action]] = {
    "create": Action(_create, "queues"),
    "delete": Action(_delete, "queues", _ask_delete),
    "purge": Action(_purge, "queues", _ask_purge),
    "pause": Action(
        _on_each(
            "pause",
            "{} is paused: it accepts messages, but does not dispatch them.",
            "{} are paused: they accept messages, but do not dispatch them.",
        ),
        "queues",
    ),
    "resume": Action(
        _on_each(
            "resume",
            "{} is resumed and dispatches messages again.",
            "{} are resumed and dispatch messages again.",
        ),
        "queues",
    ),
    "reset": Action(
        _on_each(
            "resetStatistics", "The counters of {} were reset.", "The counters of {} were reset."
        ),
        "queues",
    ),
    "delete-message": Action(
        _delete_messages,
        "queues",
        _ask_messages("Delete", f"{_STAY} This cannot be undone."),
        _MESSAGES,
    ),
    "copy-message": Action(
        _copy_messages, "queues", _ask_messages("Copy", "The messages stay here, too."), _MOVED
    ),
    "move-message": Action(_move_messages, "queues", _ask_messages("Move", _STAY), _MOVED),
    "retry-message": Action(_retry_some, "dead-letters", _ask_retry_some, _MESSAGES),
    "retry-all": Action(_retry_all, "dead-letters", _ask_retry_all),
    "retry-group": Action(
        _retry_group, "dead-letters", _ask_retry_group, ("kind", "name", "reason")
    ),
    "mute": Action(_mute, "warnings"),
    "unmute": Action(_unmute, "warnings"),
    "stop-retry": Action(_stop_retry, "dead-letters"),
    "move-all": Action(_move_all, "queues", _ask_move_all, ("kind", "name", "target", "selector")),
    "create-subscriber": Action(_create_subscriber, "subscribers"),
    "delete-subscriber": Action(
        _delete_subscriber, "subscribers", _ask_delete_subscriber, ("client_id", "subscription")
    ),
    "close-connection": Action(_close_connections, "connections", _ask_close_connections, ("id",)),
    "close-consumer": Action(_close_consumer, "connections", _ask_close_consumer, ("view",)),
    "delete-job": Action(_delete_job, "scheduled", _ask_delete_job, ("id",)),
    "start-network-connector": Action(_start_network, "connections"),
    "stop-network-connector": Action(_stop_network, "connections"),
    "reset-bridge": Action(_reset_bridge, "network"),
}
"""The actions by the last part of the path."""
