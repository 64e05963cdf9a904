"""Classes whose handlers are methods of an instance that the application's container provides.

Spring creates the beans that have listener methods; here the container has a provider of the class.
The instance is requested when the application starts, not by a check.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from dependency_injector import providers

from pyjms.container.targets import ProvidedInstance, marked_classes
from pyjms.errors import ConfigurationException

__all__ = ["bound_to_instance", "with_provided_instances"]


def with_provided_instances(targets: Iterable[object], container: Any) -> list[object]:
    """Return the targets, with each class that has a provider replaced by a ProvidedInstance.

    Classes with handlers in modules among the targets are treated in the same way, unless an
    instance is also among the targets.

    Raises:
        ConfigurationException: several providers supply one of the classes.
    """
    targets = list(targets)
    found: list[object] = []
    for target in targets:
        if isinstance(target, type):
            found.append(_provided(target, container) or target)
            continue
        found.append(target)
        if isinstance(target, ModuleType):
            kinds = (kind for kind in marked_classes(target) if not _is_among(kind, targets))
            found.extend(filter(None, (_provided(kind, container) for kind in kinds)))
    return found


def bound_to_instance(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler or hook as a method of its provided instance; others unchanged.

    Raises:
        ConfigurationException: the provider supplies another type, or is asynchronous.
    """
    owner = getattr(function, "__self__", None)
    if not isinstance(owner, ProvidedInstance):
        return function
    bound: Callable[..., Any] = getattr(owner.instance(), function.__name__)
    return bound


def _is_among(kind: type, targets: Iterable[object]) -> bool:
    return any(target is kind or isinstance(target, kind) for target in targets)


def _provided(kind: type, container: Any) -> ProvidedInstance | None:
    found = dict(_providers_of(kind, container))
    if len(found) > 1:
        raise ConfigurationException(
            f"The container has several providers of {kind.__qualname__}: {', '.join(found)}",
            hint="give the application the instance whose handlers are to be called",
        )
    for name, provider in found.items():
        return ProvidedInstance(_class_of(provider) or kind, name, provider)
    return None


def _providers_of(kind: type, container: Any) -> Iterator[tuple[str, Any]]:
    for name, provider in container.providers.items():
        supplied = _class_of(provider)
        if supplied is not None and issubclass(supplied, kind):
            yield name, provider


def _class_of(provider: Any) -> type | None:
    if isinstance(provider, providers.Object):
        return type(provider())
    supplied = getattr(provider, "cls", None)
    return supplied if inspect.isclass(supplied) else None
