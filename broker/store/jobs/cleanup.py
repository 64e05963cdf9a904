"""Lets go of the job journal's oldest segments.

They go in their order only: a record that removes a job stays longer than the record that made
it, whatever lies between. A segment goes when no job's record is in it. When the journal is more
than twice as large as what lives in it, the jobs of the oldest segment are written again at the
end, so that one job of next year does not keep everything since. Instead of ActiveMQ's counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from anyio import lowlevel

from broker.store.jobs.index import JobIndex
from broker.store.journal.journal import Journal

__all__ = ["clean_up"]

_PAGE: Final = 200
_SPARE_SEGMENTS: Final = 2


async def clean_up(
    journal: Journal,
    index: JobIndex,
    rewrite: Callable[[str, str], None],
    checkpoint: Callable[[], Awaitable[None]],
) -> None:
    """Remove the segments at the beginning that hold nothing, or too little to stay.

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
                    rewrite(entry.scheduler, entry.job.job_id)
                await lowlevel.checkpoint()
            await checkpoint()
        await journal.delete(oldest[0])


def _is_sparse(journal: Journal, index: JobIndex) -> bool:
    spare = _SPARE_SEGMENTS * journal.settings.max_file_length
    return journal.size > 2 * index.live_size() + spare
