"""The rules of the options of batches."""

from __future__ import annotations

from pyjms._clock import check_seconds
from pyjms.client.options import MAX_PREFETCH_SIZE
from pyjms.enums import AcknowledgeMode

__all__ = ["batches_can_be_acknowledged", "check_batches"]


def batches_can_be_acknowledged(*, transacted: bool, mode: AcknowledgeMode | int | str) -> bool:
    """Return whether the messages of a batch are acknowledged together, once it is handled."""
    return transacted or mode in (AcknowledgeMode.CLIENT, "CLIENT_ACKNOWLEDGE")


def check_batches(size: int | None, timeout: float | None, prefetch: object) -> None:
    """Check the options of batches.

    Raises:
        TypeError: one is not a number.
        ValueError: the size is not from 1 to 32767, there is a time-out without a size, or fewer
            messages than a batch are fetched ahead.
    """
    if timeout is not None:
        check_seconds("batch_timeout", timeout)
    if size is None:
        if timeout:
            raise ValueError("'batch_timeout' has no effect without 'batch_size': set both")
        return
    if not 1 <= size <= MAX_PREFETCH_SIZE:
        raise ValueError(f"'batch_size' value must be from 1 to {MAX_PREFETCH_SIZE}: {size}")
    if isinstance(prefetch, int) and prefetch < size:
        raise ValueError(
            f"prefetch {prefetch} is less than batch_size {size}, so batches would wait for "
            "the broker: omit prefetch for this listener, or set at least the size"
        )
