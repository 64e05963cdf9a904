"""Validation of the batch options."""

from __future__ import annotations

from pyjms._clock import check_seconds
from pyjms.client.options import MAX_PREFETCH_SIZE
from pyjms.enums import AcknowledgeMode, SessionMode

__all__ = ["batches_can_be_acknowledged", "check_batches"]


def batches_can_be_acknowledged(*, transacted: bool, mode: SessionMode | str) -> bool:
    """Return whether the messages of a batch are acknowledged together, after its handling."""
    return transacted or mode in (AcknowledgeMode.CLIENT, "CLIENT_ACKNOWLEDGE")


def check_batches(size: int | None, timeout: float | None, prefetch: object) -> None:
    """Check the options of batches.

    Raises:
        TypeError: an option is not a number.
        ValueError: the size is not from 1 to 32767, there is a timeout without a size, or the
            prefetch is smaller than a batch.
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
            "further dispatches: omit prefetch for this listener, or set it to batch_size or more"
        )
