"""Updates of open pages: what has changed in their live parts, instead of the whole parts.

A live part is a list of lines, which the browser keeps. Of each page that is open, the hashes of
its lines are kept here; an update consists of runs of lines that the browser has, and of new ones.
"""

from __future__ import annotations

import secrets
from array import array
from collections import OrderedDict
from typing import Final, TypeAlias

_MOST: Final = 200
"""The maximum number of open pages; the least recently updated ones get the whole part again."""

Piece: TypeAlias = str | list[int]
"""A new line, or index and number of lines that the browser has."""


class LiveParts:
    """The live parts that browsers have."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], array[int]] = OrderedDict()

    def update(self, user: str, key: str, text: str) -> tuple[str, list[Piece]] | None:
        """Return the key of a user's page from now on, and its update; None if nothing changed.

        Args:
            user: the user.
            key: the key of the last update; another one, if there was none.
            text: the live part as it is now.
        """
        lines = text.splitlines(keepends=True)
        hashes = array("q", map(hash, lines))
        known = self._known.get((user, key))
        if known == hashes:
            self._known.move_to_end((user, key))
            return None
        if known is None:
            key, known = secrets.token_urlsafe(12), array("q")
        self._known[user, key] = hashes
        self._known.move_to_end((user, key))
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return key, _pieces(lines, hashes, known)


def _pieces(lines: list[str], hashes: array[int], known: array[int]) -> list[Piece]:
    at = {each: index for index, each in enumerate(known)}
    pieces: list[Piece] = []
    run: list[int] | None = None
    for line, each in zip(lines, hashes, strict=True):
        following = -1 if run is None else run[0] + run[1]
        if run is not None and following < len(known) and known[following] == each:
            run[1] += 1
        elif (index := at.get(each)) is not None:
            run = [index, 1]
            pieces.append(run)
        else:
            run = None
            pieces.append(line)
    return pieces
