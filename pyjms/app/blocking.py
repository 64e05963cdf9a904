"""Blocking templates of an application, for threads of its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyjms.errors import IllegalStateException
from pyjms.runtime.event_loop import LoopHandle
from pyjms.template.template import JmsTemplate as CoreTemplate

if TYPE_CHECKING:
    from pyjms.sync.template import JmsTemplate


class ApplicationLoop(LoopHandle):
    """The loop of an application, known while it runs; templates are made before that."""

    def __init__(self) -> None:
        """Leave everything to `bind`."""

    def bind(self) -> None:
        """Use the loop of the caller, because the application starts on it."""
        super().__init__()

    def release(self) -> None:
        """Forget the loop, because the application has stopped."""
        vars(self).clear()

    @property
    def in_this_process(self) -> bool:
        """Whether it is not the loop of a fork's parent, where another loop would take its place.

        One that is not known yet is never replaced.
        """
        return "_process" not in vars(self) or super().in_this_process

    def __getattr__(self, name: str) -> NoReturn:
        raise IllegalStateException(
            "The application of this template is not running",
            hint="call a blocking template between the application's start and its stop",
        )


def make_blocking_template(template: CoreTemplate, loop: ApplicationLoop) -> JmsTemplate:
    """Return the blocking template around the application's template."""
    # imported if an application has one: one of coroutines needs no blocking API
    from pyjms.sync.template import JmsTemplate  # noqa: PLC0415

    return JmsTemplate.of(template, loop)
