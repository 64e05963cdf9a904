"""The files of a journal, including its archive, and their division among tasks.

Nothing is locked or written, as the folder may be in use by a running broker. A file that the
broker deletes between planning and reading is reported as missing.
(spark-pipeline 5 C; activemq-persistence K19, K27)
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
    """A journal file: its path, its number and its size in bytes."""

    path: str
    file_id: int
    size: int


class Slice(NamedTuple):
    """The records of a segment that start in the range from `start` to before `end`."""

    path: str
    file_id: int
    start: int
    end: int


def segments(folders: Iterable[str]) -> list[Segment]:
    """Return the journal files of folders, of `kahadb` below them and of archives, by number.

    A file that is in a folder and also in its archive counts once.

    Raises:
        ConfigurationException: a folder does not exist, or contains no journal.
    """
    found: dict[tuple[str, int], Segment] = {}
    for name in folders:
        home = Path(name)
        if not home.is_dir():
            raise ConfigurationException(
                f"jms-journal: {home} is not a folder",
                hint="set option path to the folder with the files db-N.log",
            )
        if not any(_files(home)) and (home / "kahadb").is_dir():
            home = home / "kahadb"
        files = [*_files(home / _ARCHIVE), *_files(home)]
        if not files:
            raise ConfigurationException(
                f"jms-journal: {home} contains no db-N.log",
                hint="set option path to a KahaDB folder, or the data folder above it",
            )
        for segment in files:
            found[str(home), segment.file_id] = segment
    return [found[key] for key in sorted(found)]


def slices(found: Iterable[Segment], bytes_each: int) -> list[Slice]:
    """Divide the segments into slices of at most `bytes_each`, none across two segments."""
    return [
        Slice(segment.path, segment.file_id, start, min(start + bytes_each, segment.size))
        for segment in found
        for start in range(0, segment.size, bytes_each)
    ]


def read_slice(part: Slice, skipped: list[Skipped] | None = None) -> Iterator[JournalRecord]:
    """Yield the records of a slice; torn and damaged parts are skipped and added to `skipped`.

    Raises:
        FileNotFoundError: the file was deleted.
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
