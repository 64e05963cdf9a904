"""Which files a journal has, its archive too, and how they are shared out to tasks.

Nothing is locked and nothing written: the folder may be a running broker's. A file that it deletes
between plan and read is missing data, and said to be. (spark-pipeline 5 C; persistence K19, K27)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

from pyjms.errors import ConfigurationException
from pyjms.wire.kahadb.journal import segment_name, segment_number
from pyjms.wire.kahadb.reader import JournalRecord, SegmentReader, Skipped

__all__ = ["Segment", "Slice", "read_slice", "segments", "slices"]

_ARCHIVE = "data-archive"


class Segment(NamedTuple):
    """One journal file: where it is, its number, its bytes."""

    path: str
    file_id: int
    size: int


class Slice(NamedTuple):
    """The records of a segment that begin at `start` or behind it, and before `end`."""

    path: str
    file_id: int
    start: int
    end: int


def segments(folders: Iterable[str]) -> list[Segment]:
    """Return the journal files of some folders, of their `kahadb` and archives, by number.

    A file that is in a folder and in its archive counts once.

    Raises:
        ConfigurationException: a folder is not there, or holds no journal.
    """
    found: dict[tuple[str, int], Segment] = {}
    for name in folders:
        home = Path(name)
        if not home.is_dir():
            raise ConfigurationException(
                f"jms-journal: {home} is no folder", hint="option path: the folder of db-N.log"
            )
        if not any(_files(home)) and (home / "kahadb").is_dir():
            home = home / "kahadb"
        here = [*_files(home / _ARCHIVE), *_files(home)]
        if not here:
            raise ConfigurationException(
                f"jms-journal: no db-N.log in {home}",
                hint="option path: a KahaDB folder, or the data folder above it",
            )
        for segment in here:
            found[str(home), segment.file_id] = segment
    return [found[key] for key in sorted(found)]


def slices(found: Iterable[Segment], bytes_each: int) -> list[Slice]:
    """Share the segments out, `bytes_each` to a slice, no slice over two segments."""
    return [
        Slice(segment.path, segment.file_id, start, min(start + bytes_each, segment.size))
        for segment in found
        for start in range(0, segment.size, bytes_each)
    ]


def read_slice(part: Slice, skipped: list[Skipped] | None = None) -> Iterator[JournalRecord]:
    """Yield the slice's records; what is torn or damaged is passed over, and noted in `skipped`.

    Raises:
        FileNotFoundError: the file is gone.
        OSError: it cannot be read.
    """
    with Path(part.path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        reader = SegmentReader(data, part.file_id, start=part.start)
        try:
            for record in reader.records():
                if record.location.offset >= part.end:
                    break
                yield record
        finally:
            reader.release()
        if skipped is not None:
            skipped += reader.skipped


def _files(folder: Path) -> Iterator[Segment]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        number = segment_number(path.name)
        if number is None or path.name != segment_name(number):
            continue
        size = path.stat().st_size
        if size:
            yield Segment(str(path), number, size)
