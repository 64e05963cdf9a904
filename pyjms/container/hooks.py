"""Calls of start-up and shutdown hooks, with their services."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from pyjms._yaml import Problems
from pyjms.container.instances import bound_to_instance
from pyjms.core.workers import Worker, current_worker
from pyjms.errors import ConfigurationException, JMSException
from pyjms.listener.handler.parameters import InjectionMarker, injection_marker

__all__ = ["hook_call"]


def hook_call(
    function: Callable[..., Any],
    injector: Callable[[InjectionMarker], Callable[[], object]],
) -> Callable[[], Any]:
    """Return a hook's call without arguments.

    Raises:
        ConfigurationException: parameters that cannot be supplied; a line for each.
    """
    suppliers: dict[str, Callable[[], object]] = {}
    problems = Problems()
    for parameter in inspect.signature(function).parameters.values():
        marker = _marker(function, parameter)
        if marker is not None:
            try:
                suppliers[parameter.name] = injector(marker)
            except JMSException as error:
                problems.add(_not_injected(function, parameter, error))
        elif parameter.default is parameter.empty:
            problems.add(_not_supplied(function, parameter))
    problems.raise_all()

    def call() -> Any:
        return bound_to_instance(function)(**{name: supply() for name, supply in suppliers.items()})

    return call if inspect.iscoroutinefunction(function) else lambda: _in_a_thread(call)


async def _in_a_thread(call: Callable[[], Any]) -> None:
    """Call a `def` hook as a `def` handler is called: in a thread, where it may block."""
    worker = Worker("pyjms hook")
    token = current_worker.set(worker)
    try:
        result = await worker.run(call)
        if inspect.isawaitable(result):
            await result
    finally:
        current_worker.reset(token)
        worker.close()


def _marker(function: Callable[..., Any], parameter: inspect.Parameter) -> InjectionMarker | None:
    hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    return injection_marker(parameter, hints.get(parameter.name))


def _not_injected(
    hook: Callable[..., Any], parameter: inspect.Parameter, error: JMSException
) -> ConfigurationException:
    named = f"Hook {hook.__qualname__}: parameter {parameter.name!r}"
    return ConfigurationException(f"{named} cannot be injected: {error.reason}", hint=error.hint)


def _not_supplied(hook: Callable[..., Any], parameter: inspect.Parameter) -> ConfigurationException:
    return ConfigurationException(
        f"Hook {hook.__qualname__}: parameter {parameter.name!r} cannot be supplied",
        hint="parameters of hooks must be Provide[...] or have a default",
    )
