"""Actions on queues and topics."""

from __future__ import annotations

from typing import Final

from pyjms_broker.console.actions.form import Action, Form, Question, messages_text, was
from pyjms_broker.console.model.destinations import destination_view

__all__ = ["DESTINATION_ACTIONS"]


async def _create(form: Form) -> str:
    name = form.required("name")
    await form.broker("addTopic" if form.kind == "topic" else "addQueue", name)
    return f"The {form.kind} {name} was created."


async def _delete(form: Form) -> str:
    destination_view(form.management, form.kind, form.required("name"))
    name = form.required("name")
    await form.broker("removeTopic" if form.kind == "topic" else "removeQueue", name)
    return f"The {form.kind} {name} was deleted."


def _ask_delete(form: Form) -> Question:
    name = form.required("name")
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
    return f"{messages_text(count)} of {form.required('name')} {was(count)} deleted.{rest}"


def _ask_purge(form: Form) -> Question:
    messages, in_flight = form.count("QueueSize"), form.count("InFlightCount")
    facts = [f"{messages_text(messages - in_flight)} will be deleted. This cannot be undone."]
    if in_flight:
        facts.append(f"{messages_text(in_flight)} in flight to consumers will stay.")
    return Question(
        f"Purge the queue {form.required('name')}?",
        tuple(facts),
        f"Delete {messages_text(messages - in_flight)}",
        may_act=messages > in_flight,
    )


async def _pause(form: Form) -> str:
    await form.destination("pause")
    return f"{form.required('name')} is paused: it accepts messages, but does not dispatch them."


async def _resume(form: Form) -> str:
    await form.destination("resume")
    return f"{form.required('name')} is resumed and dispatches messages again."


async def _reset(form: Form) -> str:
    await form.destination("resetStatistics")
    return f"The counters of {form.required('name')} were reset."


DESTINATION_ACTIONS: Final[dict[str, Action]] = {
    "create": Action(_create, "queues"),
    "delete": Action(_delete, "queues", _ask_delete),
    "purge": Action(_purge, "queues", _ask_purge),
    "pause": Action(_pause, "queues"),
    "resume": Action(_resume, "queues"),
    "reset": Action(_reset, "queues"),
}
