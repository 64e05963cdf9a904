"""The interceptors of an application: those given in code, and those that YAML names.

A name is that of an entry point in the group `pyjms.interceptors`, or where an interceptor can be
imported: `module:name` or `module.name`. A class is called without arguments, once for each place
where it is named.

    [project.entry-points."pyjms.interceptors"]
    audit = "acme_audit:AuditInterceptor"
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
from typing import Any, Final

from dependency_injector import providers

from pyjms.container.by_broker import ByBroker
from pyjms.core.interceptors import InterceptorChain, SendInterceptor, in_order
from pyjms.errors import ConfigurationException, JMSException
from pyjms.listener.container.base import AbstractMessageListenerContainer
from pyjms.listener.handler.interceptors import HandlerInterceptor

__all__ = ["GROUP", "ApplicationInterceptors", "named_interceptor", "named_interceptors"]

GROUP: Final = "pyjms.interceptors"


class ApplicationInterceptors:
    """The interceptors of all handlers and all sends of one application.

    Args:
        container: the application's; its own interceptors come first.
        handlers: those around handlers.
        sends: those around sends.

    Raises:
        ConfigurationException: one of them is not an interceptor.
    """

    def __init__(
        self,
        container: Any,
        handlers: Iterable[HandlerInterceptor],
        sends: Iterable[SendInterceptor],
    ) -> None:
        self._handlers = named_interceptors([*container.interceptors(), *handlers])
        self._sends = named_interceptors([*container.send_interceptors(), *sends])
        container.send_interceptors.override(providers.Object(self._sends))

    def chain_of(self, container: AbstractMessageListenerContainer) -> list[HandlerInterceptor]:
        """Return the whole chain of a listener, whose container has its other ones."""
        return [*self._handlers, *container.interceptors]

    def add_to_templates(self, container: Any) -> None:
        """Put the send interceptors around those of templates that the container has replaced."""
        templates = container.jms_templates()
        known = templates.created if isinstance(templates, ByBroker) else templates.values()
        for template in (container.jms_template(), *known):
            own = tuple(template.send_interceptors)
            missing = [each for each in self._sends if each not in own]
            if missing:
                template.send_interceptors = [*missing, *own]

    def chain_of_replies(self, container: Any) -> InterceptorChain[SendInterceptor]:
        """Return the chain of the replies of handlers: that of the application's template."""
        chain: InterceptorChain[SendInterceptor] = container.jms_template().send_chain
        return chain


def named_interceptors(names: Iterable[Any]) -> list[Any]:
    """Return the interceptors; each text in `names` is the name of one.

    Raises:
        ConfigurationException: one cannot be loaded, or is not an interceptor.
    """
    found = [named_interceptor(each) if isinstance(each, str) else each for each in names]
    return list(in_order(found))


def named_interceptor(name: str) -> Any:
    """Return the interceptor of this name. Blocks while it is imported.

    Raises:
        ConfigurationException: there is none, or it cannot be loaded.
    """
    try:
        found = _imported(name) if ":" in name or "." in name else _installed(name)
        return found() if isinstance(found, type) else found
    except JMSException:
        raise
    except Exception as error:
        raise ConfigurationException(
            f"The interceptor {name!r} cannot be loaded: {type(error).__name__}: {error}",
            hint="write module:name, and run where that module can be imported; a class must need "
            "no arguments",
        ) from error


def _imported(name: str) -> Any:
    module, colon, attributes = name.partition(":")
    if not colon:
        module, _, attributes = name.rpartition(".")
    found: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


def _installed(name: str) -> Any:
    points = entry_points(group=GROUP)
    found = [point for point in points if point.name == name]
    if len(found) != 1:
        raise ConfigurationException(
            f"{len(found) or 'No'} installed packages have an interceptor {name!r}",
            hint=_known(sorted({point.name for point in points})),
        )
    return found[0].load()


def _known(names: Sequence[str]) -> str:
    return (
        f"there are {', '.join(names)}; or write module:name"
        if names
        else f"write module:name, or install a package with an entry point in the group {GROUP!r}"
    )
