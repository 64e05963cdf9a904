"""Parameters of a page's URL."""

from __future__ import annotations

from starlette.requests import Request

from pyjms_broker.management.errors import InvalidArgumentException

__all__ = ["flag", "number", "required", "text"]

_LONGEST = 16_384


def text(request: Request, name: str) -> str:
    """Return a parameter; empty if it is missing.

    Raises:
        InvalidArgumentException: it is too long.
    """
    value = request.query_params.get(name, "")
    if len(value) > _LONGEST:
        raise InvalidArgumentException(
            f"The parameter {name} has {len(value):,} characters",
            hint=f"at most {_LONGEST:,} are allowed",
        )
    return value


def required(request: Request, name: str) -> str:
    """Return a parameter.

    Raises:
        InvalidArgumentException: it is missing, or too long.
    """
    value = text(request, name)
    if not value:
        raise InvalidArgumentException(
            f"The page {request.url.path[:100]} needs the parameter {name}",
            hint="follow a link of the console instead of writing the URL",
        )
    return value


def number(request: Request, name: str) -> int:
    """Return a page number; 1 if it is missing or not a number."""
    value = request.query_params.get(name, "")
    return max(1, int(value)) if value.isascii() and value.isdigit() and len(value) < 8 else 1


def flag(request: Request, name: str) -> bool:
    """Return whether a check box is set."""
    return request.query_params.get(name, "") in ("1", "on", "true")
