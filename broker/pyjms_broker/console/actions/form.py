"""The common part of actions: form fields, questions and results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyjms.errors import IllegalStateException
from pyjms_broker.console.model.destinations import destination_view
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.management import Management

__all__ = ["Action", "Form", "Question", "checked", "messages_text", "was"]


class Form:
    """The fields of a form for one broker."""

    def __init__(self, management: Management, fields: Mapping[str, str]) -> None:
        self.management = management
        self._fields = fields

    def get(self, name: str) -> str:
        """Return a field; empty if it is missing."""
        return self._fields.get(name, "").strip()

    def required(self, name: str) -> str:
        """Return a field.

        Raises:
            InvalidArgumentException: it is missing or empty.
        """
        value = self.get(name)
        if not value:
            raise InvalidArgumentException(
                f"The field {name.replace('_', ' ')} is empty", hint="fill it in, and send again"
            )
        return value

    @property
    def kind(self) -> str:
        """`topic` or `queue`."""
        return "topic" if self.get("kind") == "topic" else "queue"

    async def broker(self, operation: str, *arguments: object) -> object:
        """Invoke an operation of the broker's view."""
        return await self.management.invoke(
            self.management.context.names.broker(), operation, *arguments
        )

    async def destination(self, operation: str, *arguments: object) -> object:
        """Invoke an operation of the view of the destination `name`."""
        view = destination_view(self.management, self.kind, self.required("name"))
        return await view.invoke(operation, *arguments)

    def count(self, attribute: str) -> int:
        """Return a counter of the destination `name`."""
        view = destination_view(self.management, self.kind, self.required("name"))
        value = view.get(attribute)
        assert isinstance(value, int)
        return value


class Question(NamedTuple):
    """The confirmation question of an action.

    Args:
        title: the action and its object.
        facts: the affected numbers and the consequences.
        button: the label of the confirmation button.
        may_act: whether there is anything to do.
    """

    title: str
    facts: tuple[str, ...]
    button: str
    may_act: bool = True


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a form.

    Args:
        run: executes the action; returns a description of the result.
        after: the page that is shown afterwards, unless the form names one.
        ask: returns the question; None for actions that can be undone.
        fields: the fields that the confirmation page passes on.
    """

    run: Callable[[Form], Awaitable[str]]
    after: str
    ask: Callable[[Form], Question] | None = None
    fields: tuple[str, ...] = ("kind", "name")


def messages_text(number: int) -> str:
    """Return a number of messages in words."""
    return f"{number:,} message{'' if number == 1 else 's'}"


def was(number: int) -> str:
    """Return the verb for a number of messages."""
    return "was" if number == 1 else "were"


def checked(result: object, what: str, otherwise: str) -> str:
    """Return the text for a successful operation.

    Raises:
        IllegalStateException: it had no effect; the message is `otherwise`.
    """
    if not result:
        raise IllegalStateException(otherwise, hint="reload the page and try again")
    return what
