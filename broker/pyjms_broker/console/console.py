"""The shared state of a console's pages: templates, headers, and the results of actions.

The pages contain untrusted data of clients (bodies, properties, client ids, names). Templates
escape everything, and the policy in the headers permits only the console's script files. The next
page shows the result of an action once; its URL contains a random id instead of the text, so that
no link can inject text.
"""

from __future__ import annotations

import math
import secrets
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import urlencode

from anyio import to_thread
from anyio.lowlevel import checkpoint
from jinja2 import DictLoader, Environment, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from pyjms.errors import IllegalStateException, JMSException
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms_broker.console.chart import bytes_text, rate_text
from pyjms_broker.console.model.clients import ConnectionRates
from pyjms_broker.console.model.messages import time_text
from pyjms_broker.console.model.warnings import Group, Mutes, find_warnings
from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.causes import time_text as age_text
from pyjms_broker.management.dead_letters import Retry
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.situation import is_slow
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.proxies import path_prefix
from pyjms_broker.web.user import NOBODY, Access

_MOST_NOTICES: Final = 200


@dataclass(frozen=True, slots=True)
class Notice:
    """The result of an action, or the reason for its failure.

    Args:
        text: what was done, or what is wrong and where.
        hint: what to do; may be empty.
        is_error: whether the action has failed.
    """

    text: str
    hint: str = ""
    is_error: bool = False

    @classmethod
    def of(cls, error: JMSException) -> Self:
        """Return the notice of a failure."""
        return cls(error.reason, error.hint or "", is_error=True)


class Notices:
    """The notices that have not been shown yet; beyond 200, the oldest are dropped."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[str, Notice]] = OrderedDict()

    def add(self, user: str, notice: Notice) -> str:
        """Store a notice for a user and return its id."""
        key = secrets.token_urlsafe(12)
        self._kept[key] = (user, notice)
        while len(self._kept) > _MOST_NOTICES:
            self._kept.popitem(last=False)
        return key

    def take(self, user: str, key: str | None) -> Notice | None:
        """Remove and return a user's notice; None if it is unknown or another user's."""
        owner, notice = self._kept.get(key or "", ("", None))
        if key is None or notice is None or owner != user:
            return None
        del self._kept[key]
        return notice


_HERE: Final = files("pyjms_broker.console")
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}

TEMPLATES: Final[dict[str, str]] = {
    each.name: each.read_text(encoding="utf-8")
    for each in (_HERE / "templates").iterdir()
    if each.name.endswith(".html")
}
_ASSETS: Final[dict[str, bytes]] = {
    each.name: each.read_bytes()
    for each in (_HERE / "static").iterdir()
    if each.name.rpartition(".")[2] in _TYPES
}
_VERSION: Final = sha256(b"".join(_ASSETS[name] for name in sorted(_ASSETS))).hexdigest()[:12]
"""The version in the files' URLs, which changes with the files, for browsers' caches."""


async def asset(request: Request) -> Response:
    """Return one of the files."""
    name = request.path_params["name"]
    content = _ASSETS.get(name)
    if content is None:
        raise WebError(404, f"The console has no file {name[:100]!r}", "reload the page")
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


PAGE_SIZE: Final = 50
"""The number of rows of a page."""
_LONGEST: Final = 16_384


def text(request: Request, name: str) -> str:
    """Return a parameter; empty if it is missing, or raise InvalidArgumentException."""
    value = request.query_params.get(name, "")
    if len(value) > _LONGEST:
        raise InvalidArgumentException(
            f"The parameter {name} has {len(value):,} characters",
            hint=f"at most {_LONGEST:,} are allowed",
        )
    return value


def require(request: Request, name: str) -> str:
    """Return a parameter, or raise InvalidArgumentException."""
    value = text(request, name)
    if not value:
        raise InvalidArgumentException(
            f"The page {request.url.path[:100]} needs the parameter {name}",
            hint="follow a link of the console instead of writing the URL",
        )
    return value


def number(request: Request, name: str) -> int:
    """Return a page number; 1 if it is missing or not a number."""
    value = request.query_params.get(name, "")
    return max(1, int(value)) if value.isascii() and value.isdigit() and len(value) < 8 else 1


def flag(request: Request, name: str) -> bool:
    """Return whether a check box is set."""
    return request.query_params.get(name, "") in ("1", "on", "true")


class Table(NamedTuple):
    """How a table is filtered and sorted."""

    text: str
    sort: str
    descending: bool
    everything: bool

    @classmethod
    def of(cls, request: Request, sort: str) -> Self:
        """Return what a request asks for; `sort` is the column by default."""
        return cls(
            text(request, "filter").strip(),
            text(request, "sort") or sort,
            flag(request, "descending"),
            flag(request, "everything"),
        )

    def query(self) -> dict[str, object]:
        """Return the parameters of the same table."""
        return {
            "filter": self.text,
            "everything": self.everything,
            "sort": self.sort,
            "descending": self.descending,
        }


BASE: Final = "/admin"
SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {"content-security-policy": SECURITY_POLICY, "cache-control": "no-store"}


class _Base:
    """The path of the console in the client's URLs, whenever it is written."""

    def __str__(self) -> str:
        return path_prefix.get() + BASE


base: Final = _Base()


def link(page: str, /, **query: object) -> str:
    """Return the URL of a page, omitting empty values and False."""
    given = {name: value for name, value in query.items() if value not in ("", None, False)}
    given = {name: 1 if value is True else value for name, value in given.items()}
    return f"{base}/{page}" + (f"?{urlencode(given, errors='replace')}" if given else "")


def _cell_text(view: View[Any], name: str) -> str:
    """Return the text of a number in a table: a rate, an age, or a count."""
    value = view[name]
    if value is None:
        return "-"
    assert isinstance(value, int | float)
    if view.kind.attributes[name].unit == "ms":
        return age_text(value / 1000) if value else "-"
    return rate_text(value) if isinstance(value, float) else f"{value:,}"


def _number_titles(table: attributes.Table, names: Iterable[str], **own: str) -> list[str]:
    """Return the titles of columns of numbers; `own` has the page's instead of table labels."""
    return [f"#{own.get(name) or table[name].label}" for name in names]


def _environment() -> Environment:
    environment = Environment(
        loader=DictLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": "{:,}".format,
        "bytes": bytes_text,
        "rate": rate_text,
        "time": time_text,
        "age": age_text,
    }
    environment.globals |= {"link": link, "base": base, "asset_version": _VERSION}
    environment.globals |= {
        "cell": _cell_text,
        "number_titles": _number_titles,
        "attributes": attributes,
        "is_slow": is_slow,
    }
    environment.globals["ui"] = environment.get_template("macros.html").module
    return environment


_ENVIRONMENT: Final = _environment()
_are_compiled = False


async def compile_templates() -> None:
    """Compile all templates in a thread, once: it takes a third of a second."""
    global _are_compiled
    if not _are_compiled:
        await to_thread.run_sync(lambda: [_ENVIRONMENT.get_template(name) for name in TEMPLATES])
        _are_compiled = True


class _RenderedPage(HTMLResponse):
    """A page that is rendered in slices, because it may have thousands of rows."""

    def __init__(self, pieces: Iterator[str], status: int) -> None:
        super().__init__(status_code=status, headers=_HEADERS)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # a Java string may contain half of a surrogate pair
        self.body = (await _join(self._pieces)).encode("utf-8", "replace")
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


async def _join(pieces: Iterator[str]) -> str:
    slices = Slices(items=10_000)
    found: list[str] = []
    for piece in pieces:
        found.append(piece)
        await slices.after_item()
    return "".join(found)


# --- Updates of open pages: what has changed in their live parts.
#
# A live part is a list of lines, which the browser keeps. Of each page that is open, the hashes
# of its lines are kept here; an update consists of runs of lines that the browser has, and of new
# ones.

_MOST_PAGES: Final = 200
"""The maximum number of open pages; the least recently updated ones get the whole part again."""

Piece: TypeAlias = str | list[int]
"""A new line, or index and number of lines that the browser has."""


class LiveParts:
    """The live parts that browsers have."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], array[int]] = OrderedDict()

    def update(self, user: str, key: str, text: str) -> tuple[str, list[Piece]] | None:
        """Return the key of a user's page from now on, and its update; None if nothing changed."""
        lines = text.splitlines(keepends=True)
        hashes = array("q", map(hash, lines))
        known = self._known.get((user, key))
        if known == hashes:
            self._known.move_to_end((user, key))
            return None
        if known is None:
            key, known = secrets.token_urlsafe(12), array("q")
        self._known[user, key] = hashes
        self._known.move_to_end((user, key))
        while len(self._known) > _MOST_PAGES:
            self._known.popitem(last=False)
        return key, _pieces(lines, hashes, known)


def _pieces(lines: list[str], hashes: array[int], known: array[int]) -> list[Piece]:
    at = {each: index for index, each in enumerate(known)}
    pieces: list[Piece] = []
    run: list[int] | None = None
    for line, each in zip(lines, hashes, strict=True):
        following = -1 if run is None else run[0] + run[1]
        if run is not None and following < len(known) and known[following] == each:
            run[1] += 1
        elif (index := at.get(each)) is not None:
            run = [index, 1]
            pieces.append(run)
        else:
            run = None
            pieces.append(line)
    return pieces


LIVE_KEY: Final = "x-live"
"""The header of a request for an update: the key of the last one."""


class _Update(Response):
    """What has changed in the live part of a page: status 204 if nothing has."""

    def __init__(self, parts: LiveParts, user: str, key: str, pieces: Iterator[str]) -> None:
        super().__init__(headers=_HEADERS)
        self._parts = parts
        self._user, self._key = user, key
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = (await _join(self._pieces)).encode("utf-8", "replace").decode()
        found = self._parts.update(self._user, self._key, text)
        if found is None:
            response = Response(status_code=204, headers=_HEADERS)
        else:
            response = JSONResponse({"key": found[0], "pieces": found[1]}, headers=_HEADERS)
        await response(scope, receive, send)


def render(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Render a page."""
    return _RenderedPage(_ENVIRONMENT.get_template(template).generate(values), status)


# --- Retries of dead letters with a rate, which go on after the request that started them.

logger = get_logger(__name__)

_MOST_RETRIES: Final = 20


class Running(NamedTuple):
    """A retry, what it retries, and its task."""

    what: str
    retry: Retry
    task: BackgroundTask

    @property
    def per_second(self) -> str:
        """Its rate in words."""
        rate = self.retry.rate
        return f"{rate:g} a second" if rate >= 1 else f"one in {math.ceil(1 / rate):,} s"


class Retries:
    """The retries that go on, at most one of each queue. They end with the web server."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}

    def of(self, queue: str) -> Running | None:
        """Return the retry of a queue that goes on; None if there is none."""
        return self._running.get(queue)

    def start(self, queue: str, what: str, retry: Retry) -> None:
        """Run a retry in the background."""
        if queue in self._running:
            raise IllegalStateException(
                f"Messages of {queue} are retried already",
                hint="wait until it has ended, or stop it on the page Dead letters",
            )
        if len(self._running) >= _MOST_RETRIES:
            raise IllegalStateException(
                f"There are {_MOST_RETRIES} retries already",
                hint="wait until one of them has ended",
            )

        async def run() -> None:
            try:
                await retry.run()
                logger.info("The retry of %s has sent %d messages", queue, retry.count)
            except JMSException as error:
                logger.warning(
                    "The retry of %s has ended after %d messages: %s", queue, retry.count, error
                )
            finally:
                self._running.pop(queue, None)

        self._running[queue] = Running(what, retry, spawn(run, name=f"retry of {queue}"))

    async def stop(self, queue: str) -> int:
        """Stop the retry of a queue and return how many messages it has sent. Cancellable."""
        found = self._running.get(queue)
        if found is None:
            raise IllegalStateException(
                f"No retry of {queue} goes on", hint="it has ended; reload the page"
            )
        await end_tasks(found.task)
        return found.retry.count

    async def close(self) -> None:
        """Stop all. Called when the web server stops."""
        await end_tasks(*(each.task for each in self._running.values()))


class Console:
    """The shared state of one console's pages. Use it on the broker's event loop."""

    def __init__(self, web: WebContext) -> None:
        self.web = web
        self.connection_rates = ConnectionRates()
        self.retries = Retries()
        web.on_stop(self.retries.close)
        self.warnings: list[Group] = []
        """What was found for the last page, without what is muted."""
        self.muted_count = 0
        """How many warnings are muted."""
        self.mutes = Mutes()
        self._notices = Notices()
        self._live = LiveParts()

    @property
    def management(self) -> Management:
        """The management views of the broker."""
        return self.web.management

    @property
    def tree(self) -> ManagementContext:
        """The context of the views: region broker and names."""
        return self.web.management.context

    def may_change(self, request: Request) -> bool:
        """Return whether the user may make changes."""
        return self.web.user(request).may(Access.ADMINISTRATOR)

    def page(
        self, request: Request, template: str, /, *, status: int = 200, **values: Any
    ) -> Response:
        """Render a page's template with values, or what has changed in its live part."""
        values = {**self._common(request), **values}
        key = request.headers.get(LIVE_KEY)
        if key is None:
            return render(template, values, status)
        found = _ENVIRONMENT.get_template(template)
        pieces = iter(found.blocks["live"](found.new_context(values)))
        return _Update(self._live, self.web.user(request).name, key, pieces)

    def error_page(self, request: Request, text: str, hint: str | None, status: int) -> Response:
        """Return a page that describes an error: what is wrong, where, what to do."""
        notice = Notice(text, hint or "", is_error=True)
        values = {**self._common(request), "title": "Error", "notice": notice}
        return render("error.html", values, status)

    def redirect(self, request: Request, page: str, notice: Notice) -> Response:
        """Redirect the browser to a page that shows a notice."""
        key = self._notices.add(self.web.user(request).name, notice)
        separator = "&" if "?" in page else "?"
        return RedirectResponse(f"{base}/{page}{separator}{urlencode({'notice': key})}", 303)

    async def find_warnings(self, request: Request) -> None:
        """Find the warnings before a page is made, in a turn of the loop of their own."""
        known = self.web.user(request) is not NOBODY
        found = await find_warnings(self.tree) if known else []
        self.warnings, self.muted_count = self.mutes.divide(found)
        await checkpoint()

    def _common(self, request: Request) -> dict[str, Any]:
        user = self.web.user(request)
        known = user is not NOBODY
        found = self.warnings if known else []
        return {
            "broker_name": self.tree.host.broker_name if known else "",
            "user": user.name,
            "known": known,
            "logged_in": bool(user.name),
            "may_change": self.may_change(request),
            "token": self.web.form_token(request) if known else "",
            "notice": self._notices.take(user.name, request.query_params.get("notice")),
            "path": request.url.path.removeprefix(BASE).strip("/"),
            "here": _without_notice(request),
            "warning_count": len(found),
            "is_serious": any(each.is_serious for each in found),
            "muted_count": self.muted_count,
        }


def _without_notice(request: Request) -> str:
    """Return the page and its query, to which forms return after an action."""
    query = [
        (name, value) for name, value in request.query_params.multi_items() if name != "notice"
    ]
    page = request.url.path.removeprefix(BASE).strip("/")
    return f"{page}?{urlencode(query, errors='replace')}" if query else page


def page_of(
    template: str, title: str, **values: Callable[[Console], object]
) -> Callable[[Console, Request], Awaitable[Response]]:
    """Return a page without parameters, whose values the functions read from the broker."""

    async def show(console: Console, request: Request) -> Response:
        read: dict[str, Any] = {name: value(console) for name, value in values.items()}
        return console.page(request, template, title=title, **read)

    return show
