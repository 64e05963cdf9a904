"""The handlers of the request types, and their responses. (activemq-edges JX3)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from pyjms import _clock
from pyjms._distribution import DISTRIBUTION
from pyjms._logger import get_logger
from pyjms.errors import JMSException, JMSSecurityException
from pyjms_broker.connector.openwire.throwables import java_name
from pyjms_broker.management.errors import (
    AttributeNotFoundException,
    InstanceNotFoundException,
    InvalidArgumentException,
    ManagementException,
    OperationNotFoundException,
)
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.web.jolokia.listing import listed
from pyjms_broker.web.jolokia.requests import JolokiaRequest, canonical
from pyjms_broker.web.jolokia.values import as_json, part_of, typed

__all__ = ["CHANGES", "answer", "error_answer"]

logger = get_logger(__name__)

CHANGES: Final = frozenset({"exec", "write"})
"""Request types that need administrator access."""
_PROTOCOL: Final = "7.2"
_TURN: Final = 100
"""The number of views that are read before other tasks run."""
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
    if isinstance(error, InstanceNotFoundException | AttributeNotFoundException):
        return error.java_name, 404
    if isinstance(error, ManagementException):
        return error.java_name, 400
    if isinstance(error, JMSException):
        return java_name(type(error)), 403 if isinstance(error, JMSSecurityException) else 500
    return "java.lang.Exception", 500


def _named(request: JolokiaRequest) -> ObjectName:
    assert request.name is not None, "the types of requests that have one are a table"
    return request.name


def _value(request: JolokiaRequest, value: object) -> object:
    depth, longest = request.option("maxDepth", 0), request.option("maxCollectionSize", 0)
    return part_of(as_json(value, depth, longest), request.path)


async def _read(management: Management, request: JolokiaRequest) -> object:
    wanted = _named(request)
    if wanted.is_pattern:
        return await _read_pattern(management, request, wanted)
    view = management.view(wanted)
    if len(request.attributes) == 1 and not request.is_list:
        name = request.attributes[0]
        return _value(request, typed(view.get(name), view.kind.attributes[name][0].type))
    names = request.attributes or list(view.kind.attributes)
    ignore = request.flag("ignoreErrors")
    return _value(request, {each: _attribute(view, each, ignore=ignore) for each in names})


def _attribute(view: View[Any], name: str, *, ignore: bool) -> object:
    try:
        return typed(view.get(name), view.kind.attributes[name][0].type)
    except JMSException as error:
        if not ignore:
            raise
        return f"ERROR: {error.reason}"


async def _read_pattern(
    management: Management, request: JolokiaRequest, pattern: ObjectName
) -> object:
    views = management.find(pattern)
    if not views:
        raise InstanceNotFoundException(
            f"No MBean with pattern {canonical(pattern)} found for reading attributes"
        )
    found: dict[str, object] = {}
    values = 0
    for number, view in enumerate(sorted(views, key=lambda each: canonical(each.name)), 1):
        names = request.attributes or list(view.kind.attributes)
        known = [each for each in names if each in view.kind.attributes]
        if known:
            found[canonical(view.name)] = {
                each: _attribute(view, each, ignore=False) for each in known
            }
        values += len(known)
        if values > _MAXIMUM_VALUES:
            raise InvalidArgumentException(
                f"The answer would have more than {_MAXIMUM_VALUES} values",
                hint="name the attributes, or narrow the pattern",
            )
        if number % _TURN == 0:
            await anyio.lowlevel.checkpoint()
    if not found:
        raise InvalidArgumentException(
            f"No matching attributes {list(request.attributes)} found on MBeans"
        )
    return _value(request, found)


async def _write(management: Management, request: JolokiaRequest) -> object:
    if len(request.attributes) != 1:
        raise InvalidArgumentException("A write needs one attribute")
    view = management.view(_named(request))
    return _value(request, view.set(request.attributes[0], request.value))


async def _execute(management: Management, request: JolokiaRequest) -> object:
    operation = request.operation
    if not operation:
        raise InvalidArgumentException(
            f"No operation given for exec Request on MBean {canonical(_named(request))}"
        )
    view = management.view(_named(request))
    overloads = view.kind.operations.get(operation, ())
    if len(overloads) > 1:
        signatures = ",".join(each.signature.removeprefix(operation) for each in overloads)
        raise OperationNotFoundException(
            f"Operation {operation} on MBean {canonical(view.name)} is overloaded. "
            f"Signatures found: {signatures}. Use a signature when specifying the operation."
        )
    result = await view.invoke(operation, *request.arguments)
    kinds = {each.type for each in view.kind.operations[operation.partition("(")[0]]}
    return _value(request, typed(result, kinds.pop()))


async def _search(management: Management, request: JolokiaRequest) -> object:
    return sorted(canonical(view.name) for view in management.find(_named(request)))


async def _list(management: Management, request: JolokiaRequest) -> object:
    return listed(management, request.path, max(request.option("maxDepth", 0), 0))


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
