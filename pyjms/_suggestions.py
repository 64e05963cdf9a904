"""Suggestions for names that a user has misspelled."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["nearest_name"]


def nearest_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name in `known` that is most similar to `name`; None: none is similar.

    `cutoff` is the least similarity, 0 to 1 (equal).
    """
    import difflib  # noqa: PLC0415 - needed for error messages only; 4 ms of each start-up

    near = difflib.get_close_matches(name, tuple(known), n=1, cutoff=cutoff)
    return near[0] if near else None
