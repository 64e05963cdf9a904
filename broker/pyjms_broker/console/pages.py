"""The console's pages and their routes: each reads a template's data, or handles a form."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from pyjms.errors import InvalidDestinationException, JMSException, JMSSecurityException
from pyjms.jms.destination import Destination
from pyjms.runtime.build import build_name
from pyjms_broker.console import send_form
from pyjms_broker.console.actions import ACTIONS, Action, Form
from pyjms_broker.console.chart import TIMES, Chart, charts_of
from pyjms_broker.console.console import (
    BASE,
    PAGE_SIZE,
    Console,
    Notice,
    Table,
    asset,
    base,
    compile_templates,
    flag,
    link,
    number,
    page_of,
    require,
    text,
)
from pyjms_broker.console.feeds import feed_routes
from pyjms_broker.console.model import clients as client_model
from pyjms_broker.console.model import destinations as destination_model
from pyjms_broker.console.model import messages, settings
from pyjms_broker.console.model.overview import Found, kept_segments, search
from pyjms_broker.management.dead_letters import groups_of
from pyjms_broker.management.diagnosis import diagnose, diagnose_destination, diagnose_message
from pyjms_broker.management.errors import InstanceNotFoundException
from pyjms_broker.management.host import totals
from pyjms_broker.management.model import View
from pyjms_broker.management.view_attributes import QUEUE
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.user import Access


async def home(console: Console, request: Request) -> Response:
    """Show the broker: its id, version, uptime, limits and totals."""
    view = console.management.view(console.tree.names.broker())
    total = totals(console.tree.host)  # once, as each such attribute of the view sums up all
    return console.page(
        request,
        "home.html",
        title="Home",
        values=view,
        total=total,
        warnings=console.warnings[:5],
        **_history(console, request),
        fullest=await destination_model.fullest_queues(console.tree),
        build=build_name(),
    )


def _history(
    console: Console, request: Request, destination: Destination | None = None
) -> dict[str, Any]:
    """Return the charts of the broker or of a destination for a page's template."""
    name, history = text(request, "range"), console.tree.host.history
    name = name if name in TIMES else "hour"
    recorded = None if history is None else history.read(name, destination)
    charts: list[Chart] = [] if recorded is None else charts_of(recorded)
    return {"charts": charts, "range": name, "times": TIMES, "has_history": history is not None}


_FIRST = 5
"""The number of members of a group that the page of all warnings shows."""


async def warnings_page(console: Console, request: Request) -> Response:
    """Show the warnings in groups with reasons, or all members of one, page by page."""
    title, mutes = text(request, "kind"), console.mutes.all()
    found = [each for each in console.warnings if title in ("", each.kind.title)]
    size = PAGE_SIZE if title else _FIRST
    page = number(request, "page") if title else 1
    groups = [
        (
            group,
            destination_model.page_of(group.members, page, size),
            group.describe_page(page - 1, size),
        )
        for group in found
    ]
    return console.page(
        request,
        "warnings.html",
        title="Warnings",
        kind=title,
        groups=groups,
        mutes=mutes,
        segments=None if title else kept_segments(console.tree),
    )


async def search_page(console: Console, request: Request) -> Response:
    """Search names of destinations and clients, and messages."""
    words, selector = text(request, "q").strip(), text(request, "selector").strip()
    body = text(request, "body")
    found, error = Found(), None
    try:
        found = await search(console.tree, words, selector, body)
    except JMSException as failure:
        error = failure
    return console.page(
        request,
        "search.html",
        status=200 if error is None else 400,
        title="Search",
        q=words,
        selector=selector,
        body=body,
        found=found,
        error=error,
    )


async def destinations(console: Console, request: Request, *, kind: str) -> Response:
    """Show the queues or topics with their actions."""
    table = Table.of(request, "name")
    page = await destination_model.destination_page(
        console.tree,
        topics=kind == "topic",
        text=table.text,
        everything=table.everything,
        sort=table.sort,
        descending=table.descending,
        number=number(request, "page"),
        size=PAGE_SIZE,
    )
    columns = {
        key: each
        for key, each in destination_model.COLUMNS.items()
        if kind == "queue" or key not in ("pending", "oldest")
    }
    return console.page(
        request,
        "destinations.html",
        title=f"{kind.title()}s",
        kind=kind,
        columns={
            key: QUEUE[each].label if key == "name" else f"#{QUEUE[each].label}"
            for key, each in columns.items()
        },
        numbers=[each for key, each in columns.items() if key != "name"],
        page=page,
        table=table,
    )


async def destination(console: Console, request: Request, *, kind: str) -> Response:
    """Show a queue or topic with its counters, consumers and producers."""
    name = require(request, "name")
    view = destination_model.destination_view(console.management, kind, name)
    base = view.target.it
    assert isinstance(base, BaseDestination), "every destination of the region is one"
    return console.page(
        request,
        "destination.html",
        title=f"{kind.title()} {name}",
        row=view,
        policy=settings.policy_for(console.tree, view.destination),
        diagnosis=await diagnose_destination(console.tree, base),
        **_history(console, request, view.destination),
        consumers=client_model.consumers_of(console.tree, base),
        producers=client_model.producers_of(console.tree, base),
    )


async def why(console: Console, request: Request) -> Response:
    """Show why nothing is delivered of a queue or message, or to a consumer."""
    name = require(request, "name")
    return console.page(
        request,
        "why.html",
        title=f"Why {name}",
        name=name,
        diagnosis=await diagnose(console.tree, name),
    )


async def trace(console: Console, request: Request) -> Response:
    """Show what happened to a message, or to those with a correlation id."""
    trail = console.tree.region.trail
    message_id, correlation_id = text(request, "id").strip(), text(request, "correlation").strip()
    events: list[dict[str, str]] = []
    if trail is not None and (message_id or correlation_id):
        events = await trail.find(message_id, correlation_id)
    return console.page(
        request,
        "trace.html",
        title="Trail",
        id=message_id,
        correlation=correlation_id,
        events=events,
        has_trail=trail is not None,
        trace_url="" if trail is None else trail.trace_url,
    )


_MESSAGES_PAGE_SIZE = 25


async def _messages(
    console: Console, request: Request, template: str, name: str, **values: object
) -> Response:
    """Show a page of a queue's messages, with errors of the selector beside its field."""
    queue = messages.queue_named(console.tree, name)
    selector, body = text(request, "selector").strip(), text(request, "body")
    error = None
    try:
        scan = messages.Scan(console.tree, selector, body)
        page = await messages.browse_page(queue, scan, number(request, "page"), _MESSAGES_PAGE_SIZE)
    except JMSException as failure:
        error = failure
        page = destination_model.Page([], 1, 1, has_next=False)
    return console.page(
        request,
        template,
        status=200 if error is None else 400,
        queue=destination_model.view_of(console.tree, queue),
        page=page,
        selector=selector,
        body=body,
        error=error,
        most=messages.MOST_EXAMINED,
        **values,
    )


async def browse(console: Console, request: Request) -> Response:
    """Show the messages of a queue, page by page."""
    name = require(request, "queue")
    return await _messages(console, request, "browse.html", name, title=f"Browse {name}")


async def dead_letters(console: Console, request: Request) -> Response:
    """Show dead-letter queues, and the messages of one of them with their reasons."""
    queues = destination_model.dead_letter_queues(console.tree)
    name = text(request, "queue") or (queues[0].destination.physical_name if queues else "")
    if not name:
        return console.page(
            request,
            "dead_letters.html",
            title="Dead letters",
            queues=queues,
            queue=None,
            running=None,
        )
    return await _messages(
        console,
        request,
        "dead_letters.html",
        name,
        title="Dead letters",
        queues=queues,
        running=console.retries.of(name),
        groups=await groups_of(messages.queue_named(console.tree, name)),
    )


async def message(console: Console, request: Request) -> Response:
    """Show a message with its headers, properties and body."""
    name, message_id = require(request, "queue"), require(request, "id")
    queue = messages.queue_named(console.tree, name)
    found = messages.find_message(queue, message_id)
    if found is None:
        raise InstanceNotFoundException(
            f"Queue {name} does not have the message {message_id[:200]}",
            hint="it was consumed, moved, deleted, or it has expired",
        )
    return console.page(
        request,
        "message.html",
        title=f"Message {message_id}",
        queue=destination_model.view_of(console.tree, queue),
        message=found,
        json=None if flag(request, "raw") else messages.json_of(found.reference),
        diagnosis=await diagnose_message(console.tree, queue, found.reference),
        has_trail=console.tree.region.trail is not None,
    )


async def names(console: Console, request: Request) -> Response:
    """Return names of queues or topics, to complete what is typed."""
    is_topic = text(request, "kind") == "topic"
    found = await destination_model.names_with(console.tree, text(request, "q"), topics=is_topic)
    return JSONResponse(found, headers={"cache-control": "no-store"})


def _send_page(
    console: Console,
    request: Request,
    form: Mapping[str, str],
    error: JMSException | None = None,
) -> Response:
    return console.page(
        request,
        "send.html",
        status=200 if error is None else 422,
        title="Send",
        form=form,
        header_fields=send_form.HEADER_FIELDS,
        number_fields=send_form.NUMBER_FIELDS,
        error=error,
    )


async def send_page(console: Console, request: Request) -> Response:
    """Show the form for sending messages."""
    given = {name: text(request, name) for name in ("destination", "type") if text(request, name)}
    return _send_page(console, request, {**send_form.EMPTY_FORM, **given})


_JOBS = 50


async def subscribers_page(console: Console, request: Request) -> Response:
    """Show durable subscriptions, active and offline, and the other consumers of topics."""
    everything = flag(request, "everything")
    found = client_model.subscribers(console.management, everything=everything)
    return console.page(
        request, "subscribers.html", title="Subscribers", found=found, everything=everything
    )


async def connections(console: Console, request: Request) -> Response:
    """Show the connectors, the connections, and the network connectors."""
    table = Table.of(request, "client")
    page = await client_model.connection_page(
        console.tree,
        console.connection_rates,
        text=table.text,
        sort=table.sort,
        descending=table.descending,
        number=number(request, "page"),
        size=PAGE_SIZE,
    )
    return console.page(
        request,
        "connections.html",
        title="Connections",
        table=table,
        columns=client_model.CONNECTION_COLUMNS,
        page=page,
        connectors=client_model.connectors(console.tree),
        network_connectors=client_model.network_connectors(console.management),
    )


network = page_of(
    "network.html",
    "Network",
    bridges=lambda console: client_model.bridges(console.management),
    has_connectors=lambda console: bool(console.tree.host.networks.connectors),
)
"""The bridges to other brokers."""


async def connection(console: Console, request: Request) -> Response:
    """Show a connection with its sessions, and their consumers and producers."""
    view = client_model.connection_of(console.management, require(request, "id"))
    names = (*client_model.names_of(view, "Consumers"), *client_model.names_of(view, "Producers"))
    clients = client_model.views_named(console.management, names)
    clients.sort(key=_session_id)
    sessions = [
        (
            number,
            [each for each in members if "SubscriptionId" in each.kind.attributes],
            [each for each in members if "ProducerId" in each.kind.attributes],
        )
        for number, found in groupby(clients, key=_session_id)
        for members in [list(found)]
    ]
    return console.page(
        request,
        "connection.html",
        title=f"Connection {view['ClientId'] or view['RemoteAddress']}",
        id=require(request, "id"),
        values=view,
        sessions=sessions,
    )


def _session_id(view: View[Any]) -> int:
    found = view["SessionId"]
    assert isinstance(found, int)
    return found


async def scheduled_jobs(console: Console, request: Request) -> Response:
    """Show the scheduled messages."""
    return console.page(
        request,
        "scheduled.html",
        title="Scheduled",
        page=messages.job_page(console.tree, number(request, "page"), _JOBS),
    )


_BACK: Final = re.compile(r"[a-z-]{0,30}(\?[!-~]{0,4000})?", re.ASCII)
_MOST_FIELDS: Final = 200
"""The maximum number of fields: a table has at most 100 check boxes."""


async def _fields(console: Console, request: Request) -> dict[str, list[str]]:
    """Return the fields of a form, after checking its token, or raise WebError."""
    fields: dict[str, list[str]] = {}
    async with request.form(max_files=0, max_fields=_MOST_FIELDS) as form:
        for name, value in form.multi_items():
            if isinstance(value, str):
                fields.setdefault(name, []).append(value)
    console.web.check_form(request, next(iter(fields.pop("token", ())), None))
    return fields


def _action(name: str) -> Action:
    found = ACTIONS.get(name)
    if found is None:
        raise WebError(404, f"There is no action {name[:100]!r}", "use the forms of the console")
    return found


def _back(form: Form, action: Action) -> str:
    back = form.get("back")
    return back if back and _BACK.fullmatch(back) else action.after


async def settings_page(console: Console, request: Request) -> Response:
    """Show the policies in force, the users with their groups, and the rights of groups."""
    wanted = text(request, "filter").strip()
    web = console.web.configuration
    return console.page(
        request,
        "settings.html",
        title="Settings",
        filter=wanted,
        policies=settings.policies(console.tree),
        users=await settings.user_page(console.tree, wanted, number(request, "page"), PAGE_SIZE),
        rights=settings.rights(console.tree, settings.MOST),
        most=settings.MOST,
        admin_groups=web.admin_groups,
        reader_groups=web.reader_groups,
        user_yaml=settings.user_yaml,
        rights_yaml=settings.rights_yaml,
    )


async def policy_page(console: Console, request: Request) -> Response:
    """Show the policy of a destination, and the YAML of an entry for it, with a change."""
    kind, name = require(request, "kind"), require(request, "name")
    destination = destination_model.destination_view(console.management, kind, name).destination
    policy = settings.policy_for(console.tree, destination)
    attribute, value = text(request, "attribute"), text(request, "value").strip()
    return console.page(
        request,
        "policy.html",
        title=f"Policy of {name}",
        kind=kind,
        name=name,
        policy=policy,
        attributes=settings.ATTRIBUTES,
        attribute=attribute,
        value=value,
        yaml=settings.policy_yaml(
            destination, settings.with_change(policy.settings, attribute, value)
        ),
    )


async def confirm(console: Console, request: Request) -> Response:
    """Ask for confirmation of an action; POST is for many objects, which no URL can name."""
    is_post = request.method == "POST"
    query = request.query_params
    fields = (
        await _fields(console, request)
        if is_post
        else {name: query.getlist(name) for name in query}
    )
    form = Form(console, fields)
    name = form.get("action")
    action = _action(name)
    if action.ask is None:
        raise WebError(
            404, f"The action {name!r} needs no confirmation", "use the forms of the console"
        )
    back = _back(form, action)
    try:
        question = await action.ask(form)
    except JMSException as error:
        if not is_post:
            raise
        return console.redirect(request, back, Notice.of(error))
    return console.page(
        request,
        "confirm.html",
        title="Confirm",
        question=question,
        action=name,
        fields={field: fields[field] for field in action.fields if field in fields},
        back=back,
    )


async def act(console: Console, request: Request) -> Response:
    """Execute the action of a form; the next page shows the result or the error."""
    action = _action(request.path_params["action"])
    form = Form(console, await _fields(console, request))
    try:
        notice = Notice(await action.run(form))
    except JMSException as error:
        notice = Notice.of(error)
    return console.redirect(request, _back(form, action), notice)


async def send(console: Console, request: Request) -> Response:
    """Send messages; after an error, show the form again with its values."""
    fields = await _fields(console, request)
    form = {
        **dict.fromkeys(send_form.EMPTY_FORM, ""),
        **{name: each[0] for name, each in fields.items()},
    }
    try:
        count, message_id = await send_form.send_messages(console.management, form)
    except JMSException as error:
        return _send_page(console, request, form, error)
    kind, name = form["type"], form["destination"].strip()
    sent = f"{count:,} messages were sent" if count > 1 else f"The message {message_id} was sent"
    page = link("send", destination=name, type=kind).removeprefix(link(""))
    return console.redirect(request, page, Notice(f"{sent} to {kind} {name}."))


_NEXT: Final = re.compile(re.escape(BASE) + r"/[a-z-]{0,30}", re.ASCII)
"""The pages to which a login may redirect: only the console's."""


async def login_form(console: Console, request: Request) -> Response:
    """Show the form for user name and password."""
    following = request.query_params.get("next", "")
    return console.page(request, "login.html", title="Log in", next=following, name="", error=None)


async def log_in(console: Console, request: Request) -> Response:
    """Check user name and password, and begin a session."""
    async with request.form(max_files=0, max_fields=10) as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
    following = fields.get("next", "")
    name = fields.get("name", "")
    try:
        await console.web.log_in(request, name, fields.get("password", ""))
    except JMSException as error:
        return console.page(
            request,
            "login.html",
            status=401,
            title="Log in",
            next=following,
            name=name,
            error=error,
        )
    page = following.removeprefix(BASE) if _NEXT.fullmatch(following) else "/"
    return RedirectResponse(f"{base}{page}", 303)


async def log_out(console: Console, request: Request) -> Response:
    """End the session."""
    async with request.form(max_files=0, max_fields=10) as form:
        console.web.check_form(request, form.get("token"))
    console.web.log_out(request)
    return RedirectResponse(f"{base}/login", 303)


_Page: TypeAlias = Callable[[Console, Request], Awaitable[Response]]

_PAGES: Final[dict[tuple[str, str], _Page]] = {
    ("GET", "/"): home,
    ("GET", "/warnings"): warnings_page,
    ("GET", "/search"): search_page,
    ("GET", "/why"): why,
    ("GET", "/trace"): trace,
    ("GET", "/queues"): partial(destinations, kind="queue"),
    ("GET", "/queue"): partial(destination, kind="queue"),
    ("GET", "/topics"): partial(destinations, kind="topic"),
    ("GET", "/topic"): partial(destination, kind="topic"),
    ("GET", "/subscribers"): subscribers_page,
    ("GET", "/connections"): connections,
    ("GET", "/connection"): connection,
    ("GET", "/network"): network,
    ("GET", "/scheduled"): scheduled_jobs,
    ("GET", "/browse"): browse,
    ("GET", "/message"): message,
    ("GET", "/dead-letters"): dead_letters,
    ("GET", "/send"): send_page,
    ("POST", "/send"): send,
    ("GET", "/confirm"): confirm,
    ("POST", "/confirm"): confirm,
    ("GET", "/names"): names,
    ("GET", "/settings"): settings_page,
    ("GET", "/policy"): policy_page,
    ("POST", "/actions/{action}"): act,
    ("GET", "/login"): login_form,
    ("POST", "/login"): log_in,
    ("POST", "/logout"): log_out,
}
"""The pages by method and path below /admin."""

_STATUS: Final = (
    (JMSSecurityException, 403),
    ((InstanceNotFoundException, InvalidDestinationException), 404),
    (JMSException, 400),
)


def console_routes(context: WebContext) -> list[BaseRoute]:
    """Return the routes of the console, and set its login page for browsers.

    (docs/extending-broker.md, "A part of the web site")
    """
    console = Console(context)
    context.login_page = f"{BASE}/login"
    context.allow(BASE, Access.READER, Access.ADMINISTRATOR)
    for path in ("/login", "/static"):
        context.allow(BASE + path, Access.ANYBODY)
    context.allow(f"{BASE}/logout", Access.USER)
    below: list[BaseRoute] = [Route("/static/{name}", asset), *feed_routes(console)]
    below += [
        Route(path, _endpoint(console, page), methods=[method])
        for (method, path), page in _PAGES.items()
    ]
    return [Route("/", _to_console), Route(BASE, _to_console), Mount(BASE, routes=below)]


async def _to_console(_: Request) -> Response:
    return RedirectResponse(f"{base}/", 307)


def _endpoint(console: Console, page: _Page) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            await compile_templates()
            await console.find_warnings(request)
            return await page(console, request)
        except WebError as error:
            return console.error_page(request, error.message, error.hint, error.status)
        except JMSException as error:
            status = next(status for kind, status in _STATUS if isinstance(error, kind))
            return console.error_page(request, error.reason, error.hint, status)

    return serve
