"""The parts of the site: functions that return routes, built in or installed.

A built-in part is imported only if it is configured. (docs/extending.md, "A part of the web site")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, TypeAlias

from starlette.routing import BaseRoute

from pyjms.errors import ConfigurationException
from pyjms.transport.uri import did_you_mean
from pyjms_broker import entry_points
from pyjms_broker.web.context import WebContext

__all__ = ["PartFactory", "routes_of"]

PartFactory: TypeAlias = Callable[[WebContext], Sequence[BaseRoute]]
"""`factory(context)` returns the routes of a part, at each start of the web server."""

_BUILT_IN: Final[dict[str, str]] = {
    "console": "pyjms_broker.console:console_routes",
    "events": "pyjms_broker.web.observation.events:routes",
    "health": "pyjms_broker.web.health:routes",
    "jolokia": "pyjms_broker.web.jolokia.routes:routes",
    "message": "pyjms_broker.web.rest.routes:routes",
    "metrics": "pyjms_broker.web.observation.metrics:routes",
}
"""The module and the function of each built-in part, by name."""


def routes_of(context: WebContext) -> list[BaseRoute]:
    """Return the routes of all configured parts.

    Raises:
        ConfigurationException: a part is not installed, cannot be loaded, or returns no routes.
    """
    names = context.configuration.parts
    routes: list[BaseRoute] = []
    for name in _BUILT_IN if names is None else names:
        made = _factory(name)(context)
        ok = isinstance(made, list | tuple) and all(isinstance(each, BaseRoute) for each in made)
        entry_points.check_loaded(
            entry_points.WEB_PARTS, name, ok, "a function that returns starlette's routes"
        )
        routes += made
    return routes


def _factory(name: str) -> PartFactory:
    built_in = _BUILT_IN.get(name)
    if built_in is not None:
        module, _, function = built_in.partition(":")
        factory: PartFactory = getattr(import_module(module), function)
        return factory
    group = entry_points.WEB_PARTS
    installed = entry_points.installed(group)
    if name not in installed:
        known = [*_BUILT_IN, *installed]
        raise ConfigurationException(
            f"web: part '{name}' is not installed (entry point group {group})",
            hint=did_you_mean(name, known) or f"there are: {', '.join(known)}",
        )
    loaded = entry_points.load(group, name)
    entry_points.check_loaded(
        group, name, callable(loaded), "a function that returns starlette's routes"
    )
    assert callable(loaded)
    return loaded
