"""Jolokia: management requests over HTTP, in the path (GET) or as JSON (POST, one or several).

(activemq-edges JX3)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.runtime import clock as _clock
from pyjms.runtime.distribution import DISTRIBUTION
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms_broker.connector.openwire.throwables import java_name
from pyjms_broker.management import errors
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import Operation, View, ViewKind
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.view_attributes import ROWS
from pyjms_broker.web.context import WebContext, client_address
from pyjms_broker.web.gate import check_origin, check_page_is_known
from pyjms_broker.web.user import Access

logger = get_logger(__name__)

_PARTS: Final = re.compile(r"((?:[^!/]|!.)*)(/|$)", re.DOTALL)
_ESCAPED: Final = re.compile(r"!(.)", re.DOTALL)
_LISTED: Final = 200
"""The maximum number of characters of a client's text in an error."""


@dataclass(slots=True)
class JolokiaRequest:
    """One request; fields that its type does not have are None or empty."""

    type: str
    name: ObjectName | None = None
    attributes: Sequence[str] = ()
    """Names of attributes; empty: all."""
    is_list: bool = False
    """Whether the attributes are a list, so that the value is a mapping even for one."""
    operation: str | None = None
    arguments: Sequence[object] = ()
    value: object = None
    path: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    def option(self, name: str, default: int) -> int:
        """Return a numeric option, such as `maxDepth`, or raise InvalidArgumentException."""
        given = self.options.get(name, default)
        try:
            if isinstance(given, int | str):
                return int(given)
        except ValueError:
            pass
        raise errors.InvalidArgumentException(f"{name} is not a number: {str(given)[:_LISTED]!r}")

    def flag(self, name: str) -> bool:
        """Return a boolean option, such as `ignoreErrors`."""
        return str(self.options.get(name, "")).lower() == "true"

    def echo(self) -> dict[str, object]:
        """Return the copy of the request that the response contains."""
        content: dict[str, object] = {"type": self.type}
        if self.name is not None:
            content["mbean"] = canonical(self.name)
        if self.attributes:
            one = len(self.attributes) == 1
            content["attribute"] = self.attributes[0] if one else list(self.attributes)
        if self.type == "exec":
            content["operation"] = self.operation
            if self.arguments:
                content["arguments"] = list(self.arguments)
        if self.type == "write":
            content["value"] = self.value
        if self.path:
            content["path"] = "/".join(_escape(part) for part in self.path)
        return content


def canonical(name: ObjectName) -> str:
    """Return a name with its keys in alphabetical order."""
    keys = [f"{key}={value}" for key, value in sorted(name.keys.items())]
    return f"{name.domain}:{','.join([*keys, '*'] if name.is_open else keys)}"


def split_path(path: str) -> list[str]:
    """Return the parts of a path between `/`; `!` escapes `/` and itself."""
    return [_ESCAPED.sub(r"\1", part) for part, _ in _PARTS.findall(path) if part]


def _escape(part: str) -> str:
    return part.replace("!", "!!").replace("/", "!/")


def from_path(path: str, options: Mapping[str, object]) -> JolokiaRequest:
    """Parse the request of a GET: `read/NAME/ATTRIBUTE`, `exec/NAME/OPERATION/ARGUMENT`."""
    kind, *parts = split_path(path) or ["version"]
    request = JolokiaRequest(_known_type(kind), options=options)
    if request.type in _NAMED:
        if not parts:
            raise errors.InvalidArgumentException("Objectname can not be null")
        request.name = _name(parts.pop(0))
    _FROM_PATH[request.type](request, parts)
    return request


def _read_parts(request: JolokiaRequest, parts: list[str]) -> None:
    if parts:
        request.attributes = tuple(name for name in parts.pop(0).split(",") if name)
        request.is_list = len(request.attributes) > 1
    request.path = parts


def _write_parts(request: JolokiaRequest, parts: list[str]) -> None:
    if len(parts) < 2:
        raise errors.InvalidArgumentException(
            "A write needs an attribute and a value", hint="write/NAME/ATTRIBUTE/VALUE"
        )
    request.attributes, request.value, request.path = parts[:1], _argument(parts[1]), parts[2:]


def _exec_parts(request: JolokiaRequest, parts: list[str]) -> None:
    request.operation = parts[0] if parts else None
    request.arguments = [_argument(part) for part in parts[1:]]


def _argument(text: str) -> object:
    return {"[null]": None, '""': ""}.get(text, text)


def _path_parts(request: JolokiaRequest, parts: list[str]) -> None:
    request.path = parts


def _no_parts(request: JolokiaRequest, parts: list[str]) -> None:
    """Ignore the remaining parts, as Jolokia does."""


_FROM_PATH: Final[dict[str, Callable[[JolokiaRequest, list[str]], None]]] = {
    "read": _read_parts,
    "write": _write_parts,
    "exec": _exec_parts,
    "search": _no_parts,
    "list": _path_parts,
    "version": _no_parts,
}
_NAMED: Final = frozenset({"read", "write", "exec", "search"})


def from_json(content: object, options: Mapping[str, object]) -> JolokiaRequest:
    """Parse one request of a POST."""
    if not isinstance(content, dict):
        raise errors.InvalidArgumentException(
            "Not a request within the list of requests. "
            f"Expected map, but found: {str(content)[:_LISTED]}"
        )
    kind = content.get("type")
    if kind is None:
        raise errors.InvalidArgumentException("No type given")
    more = content.get("config")
    request = JolokiaRequest(
        _known_type(str(kind).lower()),
        options={**options, **more} if isinstance(more, dict) else options,
        value=content.get("value"),
    )
    if request.type in _NAMED:
        name = content.get("mbean")
        if not isinstance(name, str):
            raise errors.InvalidArgumentException("Objectname can not be null")
        request.name = _name(name)
    _read_json_attributes(request, content.get("attribute"))
    operation, arguments = content.get("operation"), content.get("arguments")
    request.operation = operation if isinstance(operation, str) else None
    if arguments is not None:
        request.arguments = arguments if isinstance(arguments, list) else [arguments]
    request.path = _json_path(content.get("path"))
    return request


def _read_json_attributes(request: JolokiaRequest, given: Any) -> None:
    if isinstance(given, list):
        request.attributes = tuple(str(each) for each in given)
        request.is_list = bool(given)
    elif given is not None:
        request.attributes = (str(given),)


def _json_path(given: object) -> Sequence[str]:
    if isinstance(given, list):
        return [str(each) for each in given]
    return split_path(given) if isinstance(given, str) else ()


def _known_type(kind: str) -> str:
    if kind not in _FROM_PATH:
        raise errors.InvalidArgumentException(
            f"No type with name '{kind[:_LISTED]}' exists", hint=f"there is {', '.join(_FROM_PATH)}"
        )
    return kind


def _name(text: str) -> ObjectName:
    try:
        return ObjectName(text)
    except errors.MalformedObjectNameException as error:
        raise errors.InvalidArgumentException(
            f"Invalid object name. {error.reason}", hint=error.hint
        ) from error


_DEEPEST: Final = 15
"""The default of `maxDepth`, in levels of lists and mappings, as in Jolokia."""


def as_typed(value: object, java_type: str) -> object:
    """Convert a view's value by its Java type: object names, and tables by their key columns.

    Source: Jolokia ObjectNameSimplifier, TabularDataExtractor.
    """
    if java_type == ROWS and isinstance(value, list):
        return _as_table(value)
    if "javax.management.ObjectName" not in java_type:
        return value
    if isinstance(value, list | tuple):
        return [_as_object_name(each) for each in value]
    return _as_object_name(value)


_KEYS: Final = (
    ("JMSMessageID",),
    ("healthId", "level", "message", "resource"),
    ("jobId",),
    ("subscription",),
)
"""The key columns of ActiveMQ's tables: of messages, warnings, jobs and slow consumers."""
_BODIES: Final = frozenset({"Text", "BodyLength", "BodyPreview", "ContentMap"})
"""Columns that ActiveMQ's table of messages lacks, as they depend on the message type."""


def _as_table(rows: list[dict[str, object]]) -> dict[str, object]:
    """Return the rows by their keys, a level of mappings for each key column."""
    table: dict[str, Any] = {}
    for row in rows:
        *outer, last = next(keys for keys in _KEYS if keys[0] in row)
        level = table
        for key in outer:
            level = level.setdefault(str(row[key]), {})
        level[str(row[last])] = {name: row[name] for name in row if name not in _BODIES}
    return table


def _as_object_name(value: object) -> object:
    return ObjectName(value) if isinstance(value, str) else value


def as_json(value: object, depth: int = 0, longest: int = 0) -> object:
    """Convert a view's value to JSON; object names become `{"objectName": name}`."""
    return _json(value, depth or _DEEPEST, longest)


def _json(value: object, depth: int, longest: int) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, ObjectName):
        return {"objectName": canonical(value)}
    if not isinstance(value, Mapping | Sequence | set | frozenset):
        return str(value)
    if depth <= 0:
        return f"[{type(value).__name__} of {len(value)}]"
    if isinstance(value, Mapping):
        return {str(key): _json(each, depth - 1, longest) for key, each in value.items()}
    members = list(value)[:longest] if longest > 0 else value
    return [_json(each, depth - 1, longest) for each in members]


def part_of(value: object, path: Sequence[str]) -> object:
    """Return the part of a JSON value at a path; None if there is none."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return None
    return value


async def describe_views(management: Management, path: Sequence[str], depth: int) -> object:
    """Return the descriptions below a path: domain, keys, op or attr, name. Cancellable."""
    views = await management.find_in_slices(_pattern(path))
    # below the domain and the names; the same few descriptions are in all views
    levels = depth + min(len(path), 2) - 2 if depth else _DEEPEST
    described: dict[int, object] = {}
    domains: dict[str, dict[str, object]] = {}
    slices = Slices()
    for view in views:
        key = id(view.kind)
        if key not in described:
            whole = _describe(view.kind)
            described[key] = whole if len(path) > 1 else _cut(whole, levels) if levels > 0 else "1"
        domain, _, name = canonical(view.name).partition(":")
        domains.setdefault(domain, {})[name] = described[key]
        await slices.after_item()
    if not path:
        return domains if levels >= 0 else dict.fromkeys(domains, "1")
    beans = domains.get(path[0], {})
    if len(path) > 1:
        found: object = part_of(next(iter(beans.values()), {}), path[2:])
        return _cut({} if found is None else found, depth)
    return beans


def _pattern(path: Sequence[str]) -> ObjectName:
    domain, name = path[0] if path else "*", path[1] if len(path) > 1 else "*"
    try:
        return ObjectName(f"{domain}:{name}")
    except errors.MalformedObjectNameException as error:
        raise errors.InvalidArgumentException(error.reason, hint=error.hint) from error


def _describe(kind: ViewKind[Any]) -> dict[str, object]:
    operations: dict[str, object] = {}
    for name, overloads in kind.operations.items():
        described = [_operation(each) for each in overloads]
        operations[name] = described[0] if len(described) == 1 else described
    return {
        "attr": {
            name: {"rw": name in kind.writers, "type": each.type, "desc": each.help}
            for name, each in kind.attributes.items()
        },
        "op": operations,
        "class": kind.java_class,
        "desc": kind.description,
    }


def _operation(operation: Operation[Any]) -> dict[str, object]:
    arguments = [{"name": p.name, "type": p.type, "desc": ""} for p in operation.parameters]
    return {"args": arguments, "ret": operation.type, "desc": operation.description}


def _cut(value: object, depth: int) -> object:
    """Replace values below a depth greater than 0 by Jolokia's placeholder 1."""
    if not depth or not isinstance(value, dict):
        return value
    if depth == 1:
        return {key: "1" if isinstance(each, dict) else each for key, each in value.items()}
    return {key: _cut(each, depth - 1) for key, each in value.items()}


CHANGES: Final = frozenset({"exec", "write"})
"""Request types that need administrator access."""
_PROTOCOL: Final = "7.2"
_MAXIMUM_VALUES: Final = 200_000
"""The maximum number of values in one response."""


async def answer(management: Management, request: JolokiaRequest) -> dict[str, object]:
    """Return the response to a request, even if it fails. Cancellable."""
    echo = request.echo()
    try:
        value = await _HANDLERS[request.type](management, request)
    except JMSException as error:
        return error_answer(error, echo)
    except Exception as error:  # other requests must still get responses
        logger.exception("Jolokia: a request has failed")
        return error_answer(error, echo)
    return {"request": echo, "value": value, "timestamp": _clock.time_ms() // 1000, "status": 200}


def error_answer(error: Exception, echo: dict[str, object] | None = None) -> dict[str, object]:
    """Return the response to a failed request."""
    kind, status = _kind_of(error)
    reason = error.reason if isinstance(error, JMSException) else "the broker's log has the reason"
    hint = error.hint if isinstance(error, JMSException) else None
    text = f"{kind} : {reason}" if hint is None else f"{kind} : {reason} ({hint})"
    content: dict[str, object] = {"error_type": kind, "error": text, "status": status}
    return content if echo is None else {"request": echo, **content}


def _kind_of(error: Exception) -> tuple[str, int]:
    if isinstance(error, errors.InstanceNotFoundException | errors.AttributeNotFoundException):
        return error.java_name, 404
    if isinstance(error, errors.ManagementException):
        return error.java_name, 400
    if isinstance(error, JMSException):
        return java_name(type(error)), 403 if isinstance(error, JMSSecurityException) else 500
    return "java.lang.Exception", 500


def _name_of(request: JolokiaRequest) -> ObjectName:
    assert request.name is not None, "the types of requests that have one are a table"
    return request.name


def _value(request: JolokiaRequest, value: object) -> object:
    depth, longest = request.option("maxDepth", 0), request.option("maxCollectionSize", 0)
    return part_of(as_json(value, depth, longest), request.path)


async def _read(management: Management, request: JolokiaRequest) -> object:
    wanted = _name_of(request)
    if wanted.is_pattern:
        return await _read_pattern(management, request, wanted)
    view = management.view(wanted)
    if len(request.attributes) == 1 and not request.is_list:
        name = request.attributes[0]
        return _value(request, as_typed(view.get(name), view.kind.attributes[name].type))
    names = request.attributes or list(view.kind.attributes)
    ignore = request.flag("ignoreErrors")
    slices = Slices()
    found: dict[str, object] = {}
    for each in names:
        found[each] = _attribute(view, each, ignore=ignore)
        await slices.after_item()
    return _value(request, found)


def _attribute(view: View[Any], name: str, *, ignore: bool) -> object:
    try:
        return as_typed(view.get(name), view.kind.attributes[name].type)
    except JMSException as error:
        if not ignore:
            raise
        return f"ERROR: {error.reason}"


async def _read_pattern(
    management: Management, request: JolokiaRequest, pattern: ObjectName
) -> object:
    views: dict[str, View[Any]] = {}
    slices = Slices()
    for view in await management.find_in_slices(pattern):
        views[canonical(view.name)] = view
        await slices.after_item()
    if not views:
        raise errors.InstanceNotFoundException(
            f"No MBean with pattern {canonical(pattern)} found for reading attributes"
        )
    depth, longest = request.option("maxDepth", 0), request.option("maxCollectionSize", 0)
    found: dict[str, object] = {}
    values = 0
    for name, view in sorted(views.items()):
        await slices.after_item()
        names = request.attributes or list(view.kind.attributes)
        known = [each for each in names if each in view.kind.attributes]
        if known:
            row = {each: _attribute(view, each, ignore=False) for each in known}
            found[name] = _json(row, (depth or _DEEPEST) - 1, longest)
        values += len(known)
        if values > _MAXIMUM_VALUES:
            raise errors.InvalidArgumentException(
                f"The answer would have more than {_MAXIMUM_VALUES} values",
                hint="name the attributes, or narrow the pattern",
            )
    if not found:
        raise errors.InvalidArgumentException(
            f"No matching attributes {list(request.attributes)} found on MBeans"
        )
    return part_of(found, request.path)


async def _write(management: Management, request: JolokiaRequest) -> object:
    if len(request.attributes) != 1:
        raise errors.InvalidArgumentException("A write needs one attribute")
    view = management.view(_name_of(request))
    return _value(request, view.set(request.attributes[0], request.value))


async def _execute(management: Management, request: JolokiaRequest) -> object:
    operation = request.operation
    if not operation:
        raise errors.InvalidArgumentException(
            f"No operation given for exec Request on MBean {canonical(_name_of(request))}"
        )
    view = management.view(_name_of(request))
    overloads = view.kind.operations.get(operation, ())
    if len(overloads) > 1:
        signatures = ",".join(each.signature.removeprefix(operation) for each in overloads)
        raise errors.OperationNotFoundException(
            f"Operation {operation} on MBean {canonical(view.name)} is overloaded. "
            f"Signatures found: {signatures}. Use a signature when specifying the operation."
        )
    result = await view.invoke(operation, *request.arguments)
    kinds = {each.type for each in view.kind.operations[operation.partition("(")[0]]}
    return _value(request, as_typed(result, kinds.pop()))


async def _search(management: Management, request: JolokiaRequest) -> object:
    return sorted(
        canonical(view.name) for view in await management.find_in_slices(_name_of(request))
    )


async def _list(management: Management, request: JolokiaRequest) -> object:
    return await describe_views(management, request.path, max(request.option("maxDepth", 0), 0))


async def _version(_management: Management, _request: JolokiaRequest) -> object:
    return {"agent": DISTRIBUTION, "protocol": _PROTOCOL, "config": {}, "info": {}}


_HANDLERS: Final[dict[str, Callable[[Management, JolokiaRequest], Awaitable[object]]]] = {
    "read": _read,
    "write": _write,
    "exec": _execute,
    "search": _search,
    "list": _list,
    "version": _version,
}


def _finite(text: str) -> float:
    """Read a number that a response can repeat: JSON has neither NaN nor Infinity."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:_LISTED]} is not a number of JSON")
    return number


_PATH: Final = "/api/jolokia"
_MAXIMUM_REQUESTS: Final = 1000
"""The maximum number of requests in one POST."""


def routes(context: WebContext) -> list[BaseRoute]:
    """Return Jolokia's routes."""
    context.allow(_PATH, Access.READER, Access.READER)

    async def get(request: Request) -> Response:
        """Handle the request in the path."""
        check_origin(request, context)  # unlike usual, a GET may make changes
        path = str(request.scope["path"])[len(_PATH) :].strip("/")
        options = dict(request.query_params)

        def read() -> JolokiaRequest:
            asked = from_path(path, options)
            if asked.type in CHANGES:
                check_page_is_known(request)
            return asked

        return _json_response(await _answer(context, request, read))

    async def post(request: Request) -> Response:
        """Handle the requests in the body."""
        body = await request.body()
        options = dict(request.query_params)
        try:
            content = json.loads(body, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError):
            return _json_response(
                error_answer(errors.InvalidArgumentException("Invalid JSON request"))
            )
        if not isinstance(content, list):
            return _json_response(
                await _answer(context, request, lambda: from_json(content, options))
            )
        if len(content) > _MAXIMUM_REQUESTS:
            text = (
                f"There are {len(content)} requests, and one POST has at most {_MAXIMUM_REQUESTS}"
            )
            return _json_response(error_answer(errors.InvalidArgumentException(text)))
        if any(not isinstance(each, dict) for each in content):
            try:
                from_json(next(e for e in content if not isinstance(e, dict)), options)
            except JMSException as error:
                return _json_response(error_answer(error))
        answers = [
            await _answer(context, request, lambda each=each: from_json(each, options))  # type: ignore[misc]
            for each in content
        ]
        return _json_response(answers)

    return [
        Route(_PATH, get, methods=["GET"]),
        Route(_PATH, post, methods=["POST"]),
        # the path of a POST means nothing: Telegraf writes /read
        Route(f"{_PATH}/{{path:path}}", post, methods=["POST"]),
        Route(f"{_PATH}/{{path:path}}", get, methods=["GET"]),
    ]


async def _answer(
    context: WebContext, request: Request, read: Callable[[], JolokiaRequest]
) -> dict[str, object]:
    try:
        asked = read()
        if asked.type in CHANGES:
            context.require(request, Access.ADMINISTRATOR)
            _log(context, request, asked)
    except JMSException as error:
        return error_answer(error)
    return await answer(context.management, asked)


def _log(context: WebContext, request: Request, asked: JolokiaRequest) -> None:
    """Log a change without arguments and values, which may be messages or passwords."""
    logger.info(
        "Jolokia: user %r at %s: %s %s of %s",
        context.user(request).name,
        client_address(request),
        asked.type,
        asked.operation or ",".join(asked.attributes),
        "nothing" if asked.name is None else canonical(asked.name),
    )


def _json_response(content: object) -> Response:
    return StreamingResponse(_chunks(content), media_type="application/json")


async def _chunks(content: object) -> AsyncIterator[str]:
    """Encode a response part by part: that of `list` may have 100 MB.

    Not by starlette's JSONResponse, because messages may contain lone surrogates.
    """
    slices = Slices()
    waiting: list[str] = []
    size = 0
    for part in _parts(content, _PARTED):
        waiting.append(part)
        size += len(part)
        if size > _CHUNK:
            yield "".join(waiting)
            waiting.clear()
            size = 0
        await slices.after_item()
    yield "".join(waiting)


_PARTED: Final = 4
"""The levels of a response whose members are encoded one by one: several answers, one of them, its
value, and the domain of a list."""
_CHUNK: Final = 64 * 1024


def _parts(content: object, levels: int) -> Iterator[str]:
    if levels and isinstance(content, dict):
        separator = "{"
        for key, value in content.items():
            yield f"{separator}{json.dumps(key)}: "
            yield from _parts(value, levels - 1)
            separator = ", "
        yield "}" if content else "{}"
    elif levels and isinstance(content, list):
        separator = "["
        for value in content:
            yield separator
            yield from _parts(value, levels - 1)
            separator = ", "
        yield "]" if content else "[]"
    else:
        yield json.dumps(content, allow_nan=False)
