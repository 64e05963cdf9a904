"""Convert `<broker>`: its attributes and sections."""

from __future__ import annotations

from functools import partial
from pathlib import Path as FilePath
from typing import Final

from pyjms_broker.conversion.connectors import convert_connectors, convert_ssl
from pyjms_broker.conversion.draft import Draft, Handler, Path, destination_of
from pyjms_broker.conversion.networks import convert_networks
from pyjms_broker.conversion.persistence import convert_store
from pyjms_broker.conversion.plugins import convert_plugins
from pyjms_broker.conversion.policies import convert_interceptors, convert_policies
from pyjms_broker.conversion.sections import Lost, Spec
from pyjms_broker.conversion.tables.broker import (
    BROKER,
    BROKER_LOST,
    IO_EXCEPTION_HANDLER,
    SYSTEM_USAGE,
    USAGES,
)
from pyjms_broker.conversion.xml_reader import Element

__all__ = ["convert_broker"]

_ORDER: Final = {"plugins": -1, "sslContext": 1}
"""Elements converted first because others depend on them, or last because they change others."""
_SPRING_HOOK: Final = "SpringContextHook"


def convert_broker(draft: Draft, element: Element, conf: FilePath) -> None:
    """Convert `<broker>`; `conf` is the directory of its file."""
    draft.convert_attributes(element, BROKER, ())
    handlers: dict[str, Handler | Lost] = {
        **_CHILDREN,
        "plugins": partial(convert_plugins, conf),
        "transportConnectors": partial(convert_connectors, element.child("sslContext") is not None),
        "sslContext": partial(convert_ssl, conf),
    }
    element.children.sort(key=lambda each: _ORDER.get(each.name, 0))
    draft.convert_children(element, handlers, ())
    draft.name_unread(element)


def _system_usage(draft: Draft, element: Element, path: Path) -> None:
    usage = draft.only_child(element)
    if usage is not None:
        here = (*path, "system_usage")
        draft.put(here, {}, usage)
        draft.convert_attributes(usage, SYSTEM_USAGE, here)
        draft.convert_children(usage, _USAGES, here)


def _usage(key: str, spec: Spec, draft: Draft, element: Element, path: Path) -> None:
    usage = draft.only_child(element)
    if usage is None:
        return
    draft.convert_attributes(usage, spec, path)
    for attribute in spec.handled & usage.attributes.keys():
        text = usage.attributes[attribute]
        usage.read_attributes.add(attribute)
        draft.put((*path, key), f"{text}%", usage)
        if attribute == "percentOfJvmHeap":
            draft.findings.note(
                usage,
                f"{text} percent of the memory that the process may use, which is more than "
                "Java's heap",
                "write the size in bytes if both run on one machine",
                attribute=attribute,
            )


def _destinations(draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        name = destination_of(each)
        if each.name not in ("queue", "topic") or name is None:
            draft.findings.unsupported(each, "it names no queue or topic")
            continue
        draft.append((*path, "destinations"), name, each)
        for attribute in each.attributes.keys() - {"physicalName"}:
            draft.findings.unsupported(each, "only the name is read", attribute=attribute)


def _io_exception_handler(draft: Draft, element: Element, path: Path) -> None:
    handler = draft.only_child(element)
    if handler is None:
        return
    if handler.name not in ("defaultIOExceptionHandler", "leaseLockerIOExceptionHandler"):
        draft.findings.unsupported(handler, "it is a Java object")
        return
    here = (*path, "io_exception_handler")
    draft.put(here, {}, handler)
    draft.convert_attributes(handler, IO_EXCEPTION_HANDLER, here)


def _hooks(draft: Draft, element: Element, _path: Path) -> None:
    for each in element.read_children():
        name = each.attributes.get("class", each.name)
        if _SPRING_HOOK.lower() in name.lower():
            draft.findings.note(each, "it stops ActiveMQ's web server with the broker")
        else:
            draft.findings.unsupported(
                each, f"{name} is a Java class", "see docs/plugins.md: functions at start and stop"
            )


def _management_context(draft: Draft, element: Element, _path: Path) -> None:
    context = draft.only_child(element)
    if context is None:
        return
    for name, text in context.attributes.items():
        if name == "createConnector" and text.lower() == "true":
            draft.findings.unsupported(
                context, "there is no JMX connector", "see docs/management.md", attribute=name
            )
        else:
            draft.findings.note(context, "there is no JMX", attribute=name)
    for each in context.read_children():
        draft.findings.note(each, "there is no JMX")


_USAGES: Final[dict[str, Handler | Lost]] = {
    name: partial(_usage, key, spec) for name, (key, spec) in USAGES.items()
}
_CHILDREN: Final[dict[str, Handler | Lost]] = {
    **BROKER_LOST,
    "networkConnectors": convert_networks,
    "persistenceAdapter": convert_store,
    "persistenceFactory": convert_store,
    "destinationPolicy": convert_policies,
    "destinationInterceptors": convert_interceptors,
    "systemUsage": _system_usage,
    "destinations": _destinations,
    "ioExceptionHandler": _io_exception_handler,
    "shutdownHooks": _hooks,
    "preShutdownHooks": _hooks,
    "managementContext": _management_context,
}
