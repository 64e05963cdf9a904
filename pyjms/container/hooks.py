"""Calls of hooks and configurers, with their injected services."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any

from pyjms._yaml import Problems
from pyjms.annotation.configurer import configurer_order
from pyjms.container.handler_problems import HandlerProblems
from pyjms.container.injection import Injection
from pyjms.container.instances import bound_to_instance
from pyjms.container.targets import functions
from pyjms.core.workers import Worker, current_worker
from pyjms.errors import ConfigurationException, JMSException
from pyjms.listener.handler.parameters import InjectionMarker, injection_marker
from pyjms.listener.registrar import JmsListenerEndpointRegistrar

__all__ = ["configured_registrar", "hook_call"]


def hook_call(
    function: Callable[..., Any], injector: Callable[[InjectionMarker], Callable[[], object]]
) -> Callable[[], Any]:
    """Return a function without arguments that calls a hook.

    Raises:
        ConfigurationException: parameters cannot be supplied; a line for each.
    """
    suppliers = _suppliers_of(function, inspect.signature(function).parameters.values(), injector)

    def call() -> Any:
        return bound_to_instance(function)(**{name: supply() for name, supply in suppliers.items()})

    return call if inspect.iscoroutinefunction(function) else lambda: _in_a_thread(call)


def _suppliers_of(
    function: Callable[..., Any],
    parameters: Iterable[inspect.Parameter],
    injector: Callable[[InjectionMarker], Callable[[], object]],
) -> dict[str, Callable[[], object]]:
    """Return the suppliers of these parameters, which are `Provide[...]` or have defaults.

    Raises:
        ConfigurationException: parameters cannot be supplied; a line for each.
    """
    suppliers: dict[str, Callable[[], object]] = {}
    problems = Problems()
    for parameter in parameters:
        marker = _marker(function, parameter)
        if marker is not None:
            try:
                suppliers[parameter.name] = injector(marker)
            except JMSException as error:
                problems.add(_not_injected(function, parameter, error))
        elif parameter.default is parameter.empty:
            problems.add(_not_supplied(function, parameter))
    problems.raise_all()
    return suppliers


async def _in_a_thread(call: Callable[[], Any]) -> None:
    """Call a `def` hook in a thread, where it may block, like a `def` handler."""
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


def configured_registrar(
    targets: Iterable[object], injection: Injection, problems: Problems
) -> JmsListenerEndpointRegistrar:
    """Return a registrar after all configurers among the targets were called with it."""
    registrar = JmsListenerEndpointRegistrar()
    found = [(configurer_order(function), function) for function in functions(targets)]
    for _, function in sorted(
        ((order, each) for order, each in found if order is not None), key=lambda pair: pair[0]
    ):
        with HandlerProblems(function, problems, is_partial=injection.is_partial).caught():
            _call(function, registrar, injection)
    return registrar


def _call(
    function: Callable[..., Any], registrar: JmsListenerEndpointRegistrar, injection: Injection
) -> None:
    if inspect.iscoroutinefunction(function):
        raise ConfigurationException(
            f"Configurer {function.__qualname__} is a coroutine function",
            hint="write def: a configurer is called before anything runs",
        )
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise ConfigurationException(
            f"Configurer {function.__qualname__} takes no registrar",
            hint="write def name(registrar: JmsListenerEndpointRegistrar) -> None",
        )
    services = _suppliers_of(function, parameters[1:], injection.injector(function))
    bound_to_instance(function)(registrar, **{name: get() for name, get in services.items()})
