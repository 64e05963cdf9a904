"""Configuration documents written in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyjms.configuration.document import Document, Problems
from pyjms.configuration.yaml_reader import parse_yaml


def parsed(text: str, source: str) -> Document:
    """Return the document of a YAML text; raise its problems."""
    with raised() as problems:
        return parse_yaml(text, source, problems)


@contextmanager
def raised() -> Iterator[Problems]:
    """Raise the problems that the block collects."""
    problems = Problems()
    yield problems
    problems.raise_all()
