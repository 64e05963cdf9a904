"""Parameter markers: `Annotated[str, Header("jms_replyTo")]`, `Annotated[dict, Headers()]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MISSING", "Header", "Headers", "Payload"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Header:
    """One header or property of the message, converted to the parameter's type.

    Names are Spring's: `jms_correlationId`, `jms_replyTo`, `jms_type`, `jms_messageId`,
    `jms_redelivered` ..., or the name of a property; None is the parameter's name. A missing header
    is an error unless `default` is given, the parameter has a default or its type allows None.
    The default also replaces an empty string. Spring: @Header.
    """

    name: str | None = None
    required: bool = True
    default: object = MISSING


@dataclass(frozen=True, slots=True)
class Headers:
    """All headers and properties as a dict. Spring: @Headers."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The converted body; with `required=False`, None for an empty body. Spring: @Payload."""

    required: bool = True
