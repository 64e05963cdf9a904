"""Actions on single messages, or all messages of a queue."""

from __future__ import annotations

from functools import partial
from typing import Final

from pyjms_broker.console.actions.form import Action, Form, Question, checked, messages_text, was

__all__ = ["MESSAGE_ACTIONS"]


async def _of_message(operation: str, done: str, why_not: str, form: Form) -> str:
    message_id = form.required("id")
    return checked(
        await form.destination(operation, message_id),
        f"The message {message_id} {done}.",
        f"The message {message_id[:200]} was not {why_not}",
    )


_delete_message = partial(
    _of_message,
    "removeMessage",
    "was deleted",
    "deleted: it is in flight to a consumer, or no longer in the queue",
)
_retry_message = partial(
    _of_message,
    "retryMessage",
    "is back in its original destination",
    "moved: it is in flight to a consumer",
)


def _ask_delete_message(form: Form) -> Question:
    facts = ("This cannot be undone.",)
    title = f"Delete the message {form.required('id')} of {form.required('name')}?"
    return Question(title, facts, "Delete message")


async def _to_target(operation: str, done: str, why_not: str, form: Form) -> str:
    message_id, target = form.required("id"), form.required("target")
    return checked(
        await form.destination(operation, message_id, target),
        f"The message {message_id} was {done} to {target}.",
        f"The message {message_id[:200]} was not {done}: {why_not}",
    )


_copy_message = partial(_to_target, "copyMessageTo", "copied", "it is no longer in the queue")
_move_message = partial(_to_target, "moveMessageTo", "moved", "a consumer has it, or it has left")


async def _retry_all(form: Form) -> str:
    moved = await form.destination("retryMessages")
    assert isinstance(moved, int)
    what = f"{messages_text(moved)} of {form.required('name')}"
    return f"{what} {was(moved)} sent to the original destinations."


def _ask_retry_all(form: Form) -> Question:
    messages = form.count("QueueSize")
    facts = (
        f"It has {messages_text(messages)}.",
        "Each is sent to its original destination.",
        "Messages that fail again come back to this queue.",
    )
    title = f"Retry all messages of {form.required('name')}?"
    return Question(title, facts, f"Retry {messages_text(messages)}", may_act=messages > 0)


async def _move_all(form: Form) -> str:
    target = form.required("target")
    moved = await form.destination("moveMatchingMessagesTo", form.get("selector"), target)
    assert isinstance(moved, int)
    return f"{messages_text(moved)} of {form.required('name')} {was(moved)} moved to {target}."


def _ask_move_all(form: Form) -> Question:
    messages, target = form.count("QueueSize"), form.required("target")
    selector = form.get("selector")
    facts = (
        f"The queue has {messages_text(messages)}."
        + (f" Those that match {selector} are moved." if selector else " All are moved."),
        "Messages in flight to consumers stay.",
    )
    title = f"Move messages of {form.required('name')} to {target}?"
    return Question(title, facts, "Move messages", may_act=messages > 0)


MESSAGE_ACTIONS: Final[dict[str, Action]] = {
    "delete-message": Action(
        _delete_message, "queues", _ask_delete_message, ("kind", "name", "id")
    ),
    "copy-message": Action(_copy_message, "queues"),
    "move-message": Action(_move_message, "queues"),
    "retry-message": Action(_retry_message, "dead-letters"),
    "retry-all": Action(_retry_all, "dead-letters", _ask_retry_all),
    "move-all": Action(_move_all, "queues", _ask_move_all, ("kind", "name", "target", "selector")),
}
