"""`@jms_listener_configurer`: marks a function that adds and configures listeners in code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyjms.annotation.marks import marking

__all__ = ["configurer_order", "jms_listener_configurer"]

F = TypeVar("F", bound=Callable[..., object])

_ATTRIBUTE = "__jms_listener_configurer__"


def jms_listener_configurer(*, order: float = 0) -> Callable[[F], F]:
    """Mark a function that is called with the application's JmsListenerEndpointRegistrar.

    It is called when the application collects its listeners, at the start and during a check,
    before anything connects; it must not block. Further parameters may be `Provide[...]`. Spring:
    JmsListenerConfigurer.

    Args:
        order: lower ones are called first.

    Raises:
        TypeError: the decorated object is not a function.
    """
    if callable(order):
        raise TypeError("@jms_listener_configurer needs parentheses: @jms_listener_configurer()")
    return marking(_ATTRIBUTE, order)


def configurer_order(function: object) -> float | None:
    """Return the order of a configurer; None if the function is not a configurer."""
    order: float | None = getattr(function, _ATTRIBUTE, None)
    return order
