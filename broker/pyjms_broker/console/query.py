"""The parameters of a page's URL."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from starlette.requests import Request

from pyjms_broker.management.errors import InvalidArgumentException

PAGE_SIZE: Final = 50
"""The number of rows of a page."""
_LONGEST: Final = 16_384


def text(request: Request, name: str) -> str:
    """Return a parameter; empty if it is missing, or raise InvalidArgumentException."""
    value = request.query_params.get(name, "")
    if len(value) > _LONGEST:
        raise InvalidArgumentException(
            f"The parameter {name} has {len(value):,} characters",
            hint=f"at most {_LONGEST:,} are allowed",
        )
    return value


def require(request: Request, name: str) -> str:
    """Return a parameter, or raise InvalidArgumentException."""
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


class Table(NamedTuple):
    """How a table is filtered and sorted."""

    text: str
    sort: str
    descending: bool
    everything: bool

    @classmethod
    def of(cls, request: Request, sort: str) -> Self:
        """Return what a request asks for; `sort` is the column by default."""
        return cls(
            text(request, "filter").strip(),
            text(request, "sort") or sort,
            flag(request, "descending"),
            flag(request, "everything"),
        )

    def query(self) -> dict[str, object]:
        """Return the parameters of the same table."""
        return {
            "filter": self.text,
            "everything": self.everything,
            "sort": self.sort,
            "descending": self.descending,
        }
