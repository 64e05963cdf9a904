"""The interceptors of an application: those given in code, and those that YAML names.

A name is the name of an entry point in the group `pyjms.interceptors`, or an import path:
`module:name` or `module.name`. A class is called without arguments, once for each place where it is
named.

    [project.entry-points."pyjms.interceptors"]
    audit = "acme_audit:AuditInterceptor"
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pyjms.app.brokers import ByBroker
from pyjms.errors import ConfigurationException, JMSException
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.observability.health import Health
from pyjms.observability.instrumentation import Instrumentation
from pyjms.observability.logs import message_context
from pyjms.runtime.distribution import entry_points
from pyjms.template.interceptors import (
    HandlerInterceptor,
    InterceptorChain,
    SendInterceptor,
    in_order,
)
from pyjms.template.template import JmsTemplate

if TYPE_CHECKING:
    from pyjms.app.objects import ApplicationObjects
    from pyjms.observability.http_endpoints import Exposition

GROUP: Final = "pyjms.interceptors"


class ApplicationInterceptors:
    """The interceptors of all handlers and all sends of one application.

    Args:
        objects: those of the application; its container's interceptors come first.
        handlers: the interceptors around handlers.
        sends: the interceptors around sends.

    Raises:
        ConfigurationException: one of them is not an interceptor.
    """

    def __init__(
        self,
        objects: ApplicationObjects,
        handlers: Iterable[HandlerInterceptor],
        sends: Iterable[SendInterceptor],
    ) -> None:
        self._objects = objects
        self._instrumentations: list[Instrumentation] = list(objects.instrumentations())
        logs = objects.settings().logging
        self.log_context: Any = logs.format == "json"
        """Whether the log records of handlers have the message's ids."""
        self.log_tracebacks: Any = logs.tracebacks
        """Whether the first failure of each message is logged with its traceback."""
        self._handlers = named_interceptors([*objects.interceptors(), *handlers])
        objects.put("send_interceptors", named_interceptors([*objects.send_interceptors(), *sends]))

    def chain_of(self, container: AbstractMessageListenerContainer) -> list[HandlerInterceptor]:
        """Return the complete chain of a listener, with the interceptors of its container."""
        instrumented = [each.handler(container) for each in self._instrumentations]
        if self.log_context:
            instrumented.append(message_context)
        return [*instrumented, *self._handlers, *container.interceptors]

    def complete(self, container: AbstractMessageListenerContainer) -> None:
        """Add the instrumentation of settlements to a container, and configure its failure log."""
        container.log_tracebacks = container.log_tracebacks or self.log_tracebacks
        added = [each.settlement(container) for each in self._instrumentations]
        if added:
            container.settlement_interceptors = [*added, *container.settlement_interceptors]

    def add_to_templates(self) -> None:
        """Add the interceptors to templates that replace the container's own templates."""
        surround = self._objects.template_interceptors()
        templates = self._objects.jms_templates()
        known = templates.created if isinstance(templates, ByBroker) else templates.values()
        for template in (self._objects.jms_template(), *known):
            surround.apply_to(template)

    @property
    def metrics(self) -> Exposition | None:
        """What returns the response of /metrics, or None."""
        found = (getattr(each, "exposition", None) for each in self._instrumentations)
        return next(filter(None, found), None)

    def attach(self, health: Callable[[], Health]) -> None:
        """Start to observe the application's health."""
        for each in self._instrumentations:
            each.attach(health)

    def detach(self) -> None:
        """Stop observing the application's health. Idempotent."""
        for each in self._instrumentations:
            each.detach()

    def chain_of_replies(self) -> InterceptorChain[SendInterceptor] | None:
        """Return the send chain of handlers' replies: that of the application's template."""
        template: JmsTemplate = self._objects.jms_template()
        return template.send_chain


class TemplateInterceptors:
    """The interceptors around the sends and receives of all templates of an application.

    Args:
        sends: send interceptors, which surround those of a template.
        instrumentations: observe the operations of a template itself; they are the innermost.
    """

    def __init__(
        self, sends: Iterable[SendInterceptor], instrumentations: Iterable[Instrumentation]
    ) -> None:
        self._sends = tuple(sends)
        self._instrumentations = tuple(instrumentations)
        self._applied: WeakSet[JmsTemplate] = WeakSet()

    def apply_to(self, template: JmsTemplate) -> JmsTemplate:
        """Add the interceptors to a template, once, and return it."""
        if template not in self._applied:
            self._applied.add(template)
            factory = template.connection_factory
            template.send_interceptors = [
                *self._sends,
                *template.send_interceptors,
                *(each.send(factory) for each in self._instrumentations),
            ]
            template.receive_interceptors = [
                *(each.receive(factory) for each in self._instrumentations),
                *template.receive_interceptors,
            ]
        return template


def named_interceptors(names: Iterable[Any]) -> list[Any]:
    """Return the interceptors in `names`; texts are replaced by the interceptors that they name."""
    found = [_load(each) if isinstance(each, str) else each for each in names]
    return list(in_order(found))


def _load(name: str) -> Any:
    """Return the interceptor of this name. Blocks while it is imported."""
    try:
        found = _import(name) if ":" in name or "." in name else _load_installed(name)
        return found() if isinstance(found, type) else found
    except JMSException:
        raise
    except Exception as error:
        raise ConfigurationException(
            f"The interceptor {name!r} cannot be loaded: {type(error).__name__}: {error}",
            hint="write module:name, and run where that module can be imported; a class must be "
            "callable without arguments",
        ) from error


def _import(name: str) -> Any:
    module, colon, attributes = name.partition(":")
    if not colon:
        module, _, attributes = name.rpartition(".")
    found: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


def _load_installed(name: str) -> Any:
    points = entry_points(group=GROUP)
    found = [point for point in points if point.name == name]
    if len(found) != 1:
        raise ConfigurationException(
            f"{len(found) or 'No'} installed packages have an interceptor {name!r}",
            hint=_hint(sorted({point.name for point in points})),
        )
    return found[0].load()


def _hint(names: Sequence[str]) -> str:
    return (
        f"installed: {', '.join(names)}; or write module:name"
        if names
        else f"write module:name, or install a package with an entry point in the group {GROUP!r}"
    )
