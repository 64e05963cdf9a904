"""Objects of the application's container for parameters of handlers, hooks and listeners."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from dependency_injector import wiring as injection

from pyjms.container.by_broker import ByBroker, unknown_broker
from pyjms.container.core import named_like
from pyjms.core.jms_client import JmsClient
from pyjms.core.messaging_template import JmsMessagingTemplate
from pyjms.core.template import JmsTemplate
from pyjms.errors import ConfigurationException, nearest_name
from pyjms.listener.handler.parameters import InjectionMarker
from pyjms.settings import PyjmsSettings

if TYPE_CHECKING:
    from pyjms.sync.facade import Facade

__all__ = ["Injection"]

_TEMPLATE_OF = "jms_templates."
"""The prefix of a broker's name in `Provide["jms_templates.audit"]`."""

_PROVIDER_MARKER: type = vars(injection)["Provider"]


class Injection:
    """Finds the providers of one container that markers and settings name.

    `is_partial`: the settings are not valid, so that unknown brokers are not reported.
    """

    def __init__(self, container: Any, settings: PyjmsSettings) -> None:
        self._container = container
        self._settings = settings
        self.is_partial = False

    def injector(
        self, handler: Callable[..., Any]
    ) -> Callable[[InjectionMarker], Callable[[], object]]:
        """Return a function that supplies the objects of markers to `function`."""
        blocking = not inspect.iscoroutinefunction(handler)
        return lambda marker: self._supply(marker, blocking=blocking)

    def named(self, name: str, modifier: Any = None) -> Any:
        """Return the provider of this name.

        Raises:
            ConfigurationException: there is no such provider.
        """
        return self._resolved(name, modifier)

    def _supply(self, marker: InjectionMarker, *, blocking: bool) -> Callable[[], object]:
        provider = self._provider(marker)
        if isinstance(marker, _PROVIDER_MARKER):
            return lambda: provider
        # a `def` handler cannot await: it gets the blocking version of the same template
        return (lambda: _blocking(provider())) if blocking else provider

    def _provider(self, marker: InjectionMarker) -> Any:
        # a provider of the container class stands for the instance's provider
        wanted = named_like(self._container, marker.provider)
        if isinstance(wanted, str) and wanted.startswith(_TEMPLATE_OF):
            return self._template_of(wanted.removeprefix(_TEMPLATE_OF))
        return self._resolved(wanted, marker.modifier)

    def _resolved(self, wanted: Any, modifier: Any) -> Any:
        found = injection.ProvidersMap(self._container).resolve_provider(wanted, modifier)
        if found is None:
            known = sorted(name for name in self._container.providers if name != "__self__")
            near = nearest_name(str(wanted), known)
            raise ConfigurationException(
                f"the container has no provider {wanted!r}",
                hint=f"did you mean {near!r}?"
                if near
                else f"it has {', '.join(known)}; pass a subclass of ApplicationContainer with "
                "additional providers to JmsApplication(..., container=...)",
            )
        return found

    def _template_of(self, broker: str) -> Any:
        """Return the provider of the template of an additional broker."""
        if self.is_partial:
            return self._container.jms_template
        if broker not in self._container.jms_templates():
            raise ConfigurationException(unknown_broker(broker, self._settings.brokers))
        return self._container.jms_templates.provided[broker]


def _blocking(value: object) -> object:
    if isinstance(value, ByBroker):
        return ByBroker(value, lambda name: _blocking(value[name]))
    for kind, blocking in _blocking_kinds().items():
        if isinstance(value, kind):
            return blocking.of(value)
    return value


@cache
def _blocking_kinds() -> dict[type, type[Facade[Any]]]:
    # imported for the first `def` handler: an application of coroutines needs no blocking API
    from pyjms.sync import messaging, template  # noqa: PLC0415

    return {
        JmsTemplate: template.JmsTemplate,
        JmsMessagingTemplate: messaging.JmsMessagingTemplate,
        JmsClient: messaging.JmsClient,
    }
