"""Pages for browsing, one message, dead letters, and the form for sending."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pyjms.errors import JMSException
from pyjms_broker.console.console import Console
from pyjms_broker.console.model.destinations import dead_letter_queues
from pyjms_broker.console.model.destinations import row_of as destination_row
from pyjms_broker.console.model.messages import (
    MOST_EXAMINED,
    browse_page,
    queue_named,
    whole_message,
)
from pyjms_broker.console.model.paging import Page
from pyjms_broker.console.pages.query import number, required, text
from pyjms_broker.console.sending import DEFAULTS
from pyjms_broker.management.errors import InstanceNotFoundException

__all__ = ["browse", "dead_letters", "message", "send"]

_PAGE_SIZE = 25


async def _messages(
    console: Console, request: Request, template: str, name: str, **values: object
) -> Response:
    """Show a page of a queue's messages, with errors of the selector beside its field."""
    queue = queue_named(console.tree, name)
    selector = text(request, "selector").strip()
    error = None
    try:
        page = await browse_page(console.tree, queue, selector, number(request, "page"), _PAGE_SIZE)
    except JMSException as failure:
        error = failure
        page = Page([], 1, 1, has_next=False)
    return console.page(
        request,
        template,
        status=200 if error is None else 400,
        queue=destination_row(queue),
        page=page,
        selector=selector,
        error=error,
        most=MOST_EXAMINED,
        **values,
    )


async def browse(console: Console, request: Request) -> Response:
    """Show the messages of a queue, page by page."""
    name = required(request, "queue")
    return await _messages(console, request, "browse.html", name, title=f"Browse {name}")


async def dead_letters(console: Console, request: Request) -> Response:
    """Show dead-letter queues, and the messages of one of them with their reasons."""
    queues = dead_letter_queues(console.tree)
    name = text(request, "queue") or (queues[0].name if queues else "")
    if not name:
        return console.page(
            request, "dead_letters.html", title="Dead letters", queues=queues, queue=None
        )
    return await _messages(
        console, request, "dead_letters.html", name, title="Dead letters", queues=queues
    )


async def message(console: Console, request: Request) -> Response:
    """Show a message with its headers, properties and body."""
    name, message_id = required(request, "queue"), required(request, "id")
    queue = queue_named(console.tree, name)
    found = whole_message(queue, message_id)
    if found is None:
        raise InstanceNotFoundException(
            f"Queue {name} does not have the message {message_id[:200]}",
            hint="it was consumed, moved, deleted, or it has expired",
        )
    return console.page(
        request,
        "message.html",
        title=f"Message {message_id}",
        queue=destination_row(queue),
        message=found,
        targets=_other_queues(console, name),
    )


def _other_queues(console: Console, name: str) -> list[str]:
    names = (
        each.physical_name
        for each in console.tree.destinations()
        if not each.is_topic and not each.is_temporary and each.physical_name != name
    )
    return sorted(names)[:200]


async def send(console: Console, request: Request) -> Response:
    """Show the form for sending messages."""
    given = {name: text(request, name) for name in ("destination", "type") if text(request, name)}
    return console.page(request, "send.html", title="Send", form={**DEFAULTS, **given}, error=None)
