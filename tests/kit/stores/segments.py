"""KahaDB journals for the tests of `pyjms.spark`, written with `pyjms.wire.kahadb`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaCommand
from pyjms.wire.kahadb.journal import segment_name
from tests.kit.stores.batches import encode_batch

WriteSegment = Callable[[int, Sequence[Sequence[KahaCommand]]], Path]


@pytest.fixture
def write_segment(tmp_path: Path) -> WriteSegment:
    """Return a function that writes `db-N.log` with these batches into a folder."""

    def write(number: int, batches: Sequence[Sequence[KahaCommand]]) -> Path:
        encoded = [encode_batch([encode_command(c) for c in batch]) for batch in batches]
        data = b"".join(batch.data[: batch.size] for batch in encoded)
        (tmp_path / segment_name(number)).write_bytes(data + encoded[-1].data[encoded[-1].size :])
        return tmp_path

    return write
