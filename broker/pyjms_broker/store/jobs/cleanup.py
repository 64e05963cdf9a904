"""Removal of the oldest segments of the job journal.

Segments are removed strictly from the oldest to the newest, so that the record that removes a job
always outlives the record that added it. A segment is removed when it contains no live job's add
record. When the journal is more than twice as large as its live records (plus two segments), the
jobs of the oldest segment are rewritten at the end of the journal; otherwise a single job that is
due next year would keep all later segments. ActiveMQ counts references per segment instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from anyio import lowlevel

from pyjms_broker.store.jobs.index import JobIndex
from pyjms_broker.store.journal.journal import Journal

__all__ = ["clean_up"]

_PAGE: Final = 200
_SPARE_SEGMENTS: Final = 2


async def clean_up(
    journal: Journal,
    index: JobIndex,
    rewrite: Callable[[str, str], bool],
    checkpoint: Callable[[], Awaitable[None]],
) -> None:
    """Remove the oldest segments that hold no jobs, or few enough to rewrite them.

    A job that cannot be rewritten (`rewrite` returns False) keeps its segment.

    Raises:
        JMSException: the journal has failed.
    """
    await checkpoint()
    while True:
        oldest = journal.segments()[:1]
        if not oldest or oldest[0] >= journal.written.file_id:
            return
        if index.in_segments_up_to(oldest[0], 1):
            if not _is_sparse(journal, index):
                return
            while page := index.in_segments_up_to(oldest[0], _PAGE):
                for entry in page:
                    if not rewrite(entry.scheduler, entry.job.job_id):
                        return  # later segments may hold records that remove jobs of this one
                await lowlevel.checkpoint()
            await checkpoint()
        await journal.delete(oldest[0])


def _is_sparse(journal: Journal, index: JobIndex) -> bool:
    spare = _SPARE_SEGMENTS * journal.settings.max_file_length
    return journal.size > 2 * index.live_size() + spare
