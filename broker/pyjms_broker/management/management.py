"""The tree of a broker's views: search by name or pattern, and access to a view.

Views are created on demand and contain no copies. A pattern with keys visits only the parts of the
tree whose names have these keys. Use it on the broker's event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol, runtime_checkable

from pyjms.runtime.slices import Slices
from pyjms_broker.api.broker import Broker
from pyjms_broker.management.errors import InstanceNotFoundException
from pyjms_broker.management.host import Managed, ManagedBroker, ManagementContext
from pyjms_broker.management.model import ROOT, Part, View
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.views import (
    broker,
    clients,
    destinations,
    process,
    stores,
    subscriptions,
)

_PARTS: Final = (
    *broker.PARTS,
    *destinations.PARTS,
    *subscriptions.PARTS,
    *clients.PARTS,
    *stores.PARTS,
    *process.PARTS,
)


class Management:
    """The views of one broker."""

    def __init__(self, host: ManagedBroker) -> None:
        self.context = ManagementContext(host)
        """The state shared by its views."""
        self._parts = list(_PARTS)

    def add_part(self, part: Part) -> None:
        """Add views, such as those of a plug-in (`pyjms_broker.management.model.part`)."""
        self._parts.append(part)

    def find(self, pattern: str | ObjectName) -> list[View[Any]]:
        """Return the views that a name or a pattern matches, in no particular order.

        Raises:
            MalformedObjectNameException: the pattern is invalid.
        """
        return [view for view in self._candidates(pattern) if view is not None]

    async def find_in_slices(self, pattern: str | ObjectName) -> list[View[Any]]:
        """Return the same as `find`, letting other tasks run in between. Cancellable.

        What is removed meanwhile may be among the views.
        """
        slices = Slices()
        found: list[View[Any]] = []
        for view in self._candidates(pattern):
            if view is not None:
                found.append(view)
            await slices.after_item()
        return found

    def _candidates(self, pattern: str | ObjectName) -> Iterator[View[Any] | None]:
        """Iterate over the views that may match; None instead of one that does not."""
        wanted = ObjectName(pattern) if isinstance(pattern, str) else pattern
        context = self.context
        for keys, entries in self._parts:
            if _may_match(wanted, keys) and (context.host.started or keys == ROOT):
                for name, kind, target in entries(context):
                    is_wanted = wanted.matches(name)
                    yield View(name, kind, Managed(context, target)) if is_wanted else None

    def view(self, name: str | ObjectName) -> View[Any]:
        """Return the view with that name.

        Raises:
            MalformedObjectNameException: the name is invalid.
            InstanceNotFoundException: there is none.
        """
        wanted = ObjectName(name) if isinstance(name, str) else name
        found = [] if wanted.is_pattern else self.find(wanted)
        if not found:
            raise InstanceNotFoundException(
                f"No view is named {wanted.text[:300]}",
                hint="search with a pattern, such as org.apache.activemq:type=Broker,*",
            )
        return found[0]

    def get(self, name: str | ObjectName, attribute: str) -> object:
        """Return an attribute of a view; see `View.get`."""
        return self.view(name).get(attribute)

    def set(self, name: str | ObjectName, attribute: str, value: object) -> object:
        """Set an attribute of a view; see `View.set`."""
        return self.view(name).set(attribute, value)

    async def invoke(self, name: str | ObjectName, operation: str, *arguments: object) -> object:
        """Invoke an operation of a view; see `View.invoke`."""
        return await self.view(name).invoke(operation, *arguments)


def _may_match(wanted: ObjectName, keys: frozenset[str]) -> bool:
    if wanted.is_open:
        return wanted.keys.keys() <= keys
    return wanted.keys.keys() == keys


@runtime_checkable
class ManagedPlugin(Protocol):
    """A broker plug-in whose filter uses the management views."""

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the new outermost filter; called instead of `install_plugin`."""
