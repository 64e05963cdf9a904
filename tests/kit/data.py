"""Recorded data under `tests/data`: golden OpenWire frames, and what the real Spring did.

The data belongs to the repository, so a missing file is an error, never a skip.
"""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "DATA",
    "SPECIFICATION",
    "json_lines",
    "openwire_lines",
    "openwire_types",
    "oracle",
    "spring_oracle",
]

DATA = Path(__file__).resolve().parents[1] / "data"
SPECIFICATION = Path(__file__).resolve().parents[2] / "docs" / "specification"


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file with one JSON object a line, gzipped if its name ends in `.gz`."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return [json.loads(line) for line in data.splitlines()]


@functools.cache
def openwire_lines(name: str) -> list[dict[str, Any]]:
    """Return the frames or connections of `vectors`, `vectors_older` or `captures`."""
    return json_lines(DATA / "openwire" / f"{name}.jsonl.gz")


@functools.cache
def openwire_types() -> dict[str, Any]:
    """Return the data structures of OpenWire by name, with code and fields."""
    types: dict[str, Any] = json.loads((DATA / "openwire" / "commands.json").read_text())["types"]
    return types


@functools.cache
def spring_oracle() -> dict[str, Any]:
    """Return what Spring 4.3.30 with ActiveMQ 5.17.2 did, by scenario (tests/data/README.md)."""
    return {line["scenario"]: line["result"] for line in json_lines(DATA / "spring-oracle.jsonl")}


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    """What the real Spring did, by scenario: `oracle["cache-levels"]`."""
    return spring_oracle()
