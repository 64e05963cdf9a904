"""Actions on subscriptions, connections and scheduled messages."""

from __future__ import annotations

from typing import Final

from pyjms_broker.console.actions.form import Action, Form, Question, checked, messages_text
from pyjms_broker.console.model.clients import connection_view, durable_subscription, names_of
from pyjms_broker.console.model.jobs import remove_job

__all__ = ["CLIENT_ACTIONS"]


async def _create_subscriber(form: Form) -> str:
    client_id, name = form.required("client_id"), form.required("subscription")
    topic, selector = form.required("topic"), form.get("selector")
    await form.broker("createDurableSubscriber", client_id, name, topic, selector or None)
    return f"The subscription {name} of {client_id} to {topic} was created."


async def _delete_subscriber(form: Form) -> str:
    client_id, name = form.required("client_id"), form.required("subscription")
    await form.broker("destroyDurableSubscriber", client_id, name)
    return f"The subscription {name} of {client_id} was deleted."


def _ask_delete_subscriber(form: Form) -> Question:
    client_id, name = form.required("client_id"), form.required("subscription")
    subscription = durable_subscription(form.management, client_id, name)
    pending = int(str(subscription.get("PendingQueueSize")))
    return Question(
        f"Delete the subscription {name} of {client_id}?",
        (f"{messages_text(pending)} kept for it will be lost. This cannot be undone.",),
        "Delete subscription",
    )


async def _close_connection(form: Form) -> str:
    view = connection_view(form.management, form.required("view"))
    name = view.get("ClientId")
    await view.invoke("stop")
    return f"The connection {name} is being closed."


def _ask_close_connection(form: Form) -> Question:
    view = connection_view(form.management, form.required("view"))
    consumers = len(names_of(view, "Consumers"))
    producers = len(names_of(view, "Producers"))
    has = f"{consumers} consumer{'' if consumers == 1 else 's'}"
    has += f" and {producers} producer{'' if producers == 1 else 's'}"
    facts = (
        f"It has {has}. Messages that it has not acknowledged are delivered again.",
        "A client with failover connects again.",
    )
    return Question(f"Close the connection {view.get('ClientId')}?", facts, "Close connection")


async def _delete_job(form: Form) -> str:
    job_id = form.required("id")
    removed = await remove_job(form.management.context, job_id)
    return checked(
        removed,
        f"The scheduled message {job_id} was deleted.",
        f"There is no scheduled message {job_id[:200]}",
    )


def _ask_delete_job(form: Form) -> Question:
    job_id = form.required("id")
    facts = ("It will not be sent. This cannot be undone.",)
    return Question(f"Delete the scheduled message {job_id}?", facts, "Delete scheduled message")


CLIENT_ACTIONS: Final[dict[str, Action]] = {
    "create-subscriber": Action(_create_subscriber, "subscribers"),
    "delete-subscriber": Action(
        _delete_subscriber, "subscribers", _ask_delete_subscriber, ("client_id", "subscription")
    ),
    "close-connection": Action(_close_connection, "connections", _ask_close_connection, ("view",)),
    "delete-job": Action(_delete_job, "scheduled", _ask_delete_job, ("id",)),
}
