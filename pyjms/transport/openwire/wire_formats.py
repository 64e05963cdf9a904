"""Wire formats for OpenWire's commands from installed packages: the URL option `wireFormat=name`.

An entry point in the group `pyjms.wire_formats` maps the name to a callable, which is passed the
options `wireFormat.*` of the URL, without that prefix, and returns the codec of one connection.
There is no negotiation and no inactivity monitor: these are features of OpenWire's own format.
(activemq-edges N21)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final, cast

from pyjms._distribution import entry_points
from pyjms.transport.uri import could_not_create
from pyjms.wire.format import WireFormat
from pyjms.wire.openwire.commands import Command

__all__ = ["GROUP", "OPENWIRE", "CreateFormat", "WireFormatFactory", "installed_format"]

GROUP: Final = "pyjms.wire_formats"
OPENWIRE: Final = frozenset({"default", "openwire"})
"""The names of OpenWire's own format."""

WireFormatFactory = Callable[[Mapping[str, str]], WireFormat[Command]]
"""The object of an entry point; raises ConfigurationException if an option is wrong."""
CreateFormat = Callable[[], WireFormat[Command]]


def installed_format(name: str, options: Mapping[str, str]) -> CreateFormat:
    """Return a function that creates the codec `name` of one connection.

    Raises:
        ConfigurationException: no installed package has the format, or an option is wrong.
    """
    create = partial(_installed_factory(name), options)
    create()  # for errors in the options
    return create


@cache
def _installed_factory(name: str) -> WireFormatFactory:
    """Return the factory of this name; the result is cached only if there is one."""
    installed = entry_points(group=GROUP)
    for point in installed.select(name=name):
        return cast("WireFormatFactory", point.load())
    names = sorted({"default", *installed.names})
    raise could_not_create(
        f"Could not create wire format factory for: {name}",
        hint=f"known formats: {', '.join(names)}; packages may add others ({GROUP})",
    )
