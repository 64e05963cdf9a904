"""Forms: confirmation questions, actions, and sending."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from pyjms.errors import JMSException
from pyjms_broker.console.actions import ACTIONS, Action, Form
from pyjms_broker.console.console import Console
from pyjms_broker.console.notices import Notice
from pyjms_broker.console.pages.query import required
from pyjms_broker.console.rendering import link
from pyjms_broker.console.sending import DEFAULTS, send_messages
from pyjms_broker.web.errors import WebError

__all__ = ["act", "confirm", "send"]

_BACK: Final = re.compile(r"[a-z-]{0,30}(\?[!-~]{0,4000})?", re.ASCII)
_MOST_FIELDS: Final = 100


async def _fields(console: Console, request: Request) -> dict[str, str]:
    """Return the fields of a form, after checking its token.

    Raises:
        WebError: the token is wrong (status 403).
    """
    async with request.form(max_files=0, max_fields=_MOST_FIELDS) as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
    console.web.check_form(request, fields.pop("token", None))
    return fields


def _action(name: str) -> Action:
    found = ACTIONS.get(name)
    if found is None:
        raise WebError(404, f"There is no action {name[:100]!r}", "use the forms of the console")
    return found


def _back(fields: dict[str, str], action: Action) -> str:
    back = fields.get("back", "")
    return back if back and _BACK.fullmatch(back) else action.after


async def confirm(console: Console, request: Request) -> Response:
    """Ask for confirmation of an action that cannot be undone."""
    name = required(request, "action")
    action = _action(name)
    if action.ask is None:
        raise WebError(
            404, f"The action {name!r} needs no confirmation", "use the forms of the console"
        )
    query = dict(request.query_params)
    return console.page(
        request,
        "confirm.html",
        title="Confirm",
        question=action.ask(Form(console.management, query)),
        action=name,
        fields={field: query[field] for field in action.fields if query.get(field)},
        back=_back(query, action),
    )


async def act(console: Console, request: Request) -> Response:
    """Execute the action of a form; the next page shows the result or the error."""
    action = _action(request.path_params["action"])
    fields = await _fields(console, request)
    back = _back(fields, action)
    try:
        notice = Notice(await action.run(Form(console.management, fields)))
    except JMSException as error:
        notice = Notice(error.reason, error.hint or "", is_error=True)
    return console.redirect(request, back, notice)


async def send(console: Console, request: Request) -> Response:
    """Send messages; after an error, show the form again with its values."""
    fields = await _fields(console, request)
    form = {**dict.fromkeys(DEFAULTS, ""), **fields}
    try:
        count, message_id = await send_messages(console.management, form)
    except JMSException as error:
        return console.page(request, "send.html", status=422, title="Send", form=form, error=error)
    kind, name = form["type"], form["destination"].strip()
    sent = f"{count:,} messages were sent" if count > 1 else f"The message {message_id} was sent"
    page = link("send", destination=name, type=kind).removeprefix(link(""))
    return console.redirect(request, page, Notice(f"{sent} to {kind} {name}."))
