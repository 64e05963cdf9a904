"""The concurrency of a listener: how many consumers a container has at least and at most.

"3-5" is a range, "5" its upper end.
"""

from __future__ import annotations

import re


def one_or_more(name: str, value: int) -> int:
    """Return `value` if it is 1 or more."""
    if value < 1:
        raise ValueError(f"'{name}' value must be at least 1 (one): {value}")
    return value


def parse_concurrency(text: str) -> tuple[int | None, int]:
    """Return `(lower, upper)` of "3-5", `(None, 5)` of "5"."""
    match = re.fullmatch(r"\s*(?:(\d+)\s*-\s*)?(\d+)\s*", text)
    if match is None:
        raise invalid_concurrency(text)
    lower, upper = match.groups()
    return (None if lower is None else int(lower)), int(upper)


def check_range(lower: int, upper: int | None, *, durable: bool) -> int:
    """Return the largest number of consumers, `lower` if `upper` is None."""
    most = lower if upper is None else upper
    if not 1 <= lower <= most:
        raise ValueError(f"Consumers: {lower} to {most} is not a range; write 1 <= lower <= upper")
    if durable and most > 1:
        raise ValueError(
            f"A durable subscription has one consumer, not {most}; the queue of a "
            "virtual topic (Consumer.NAME.VirtualTopic.X) can have any number"
        )
    return most


def invalid_concurrency(text: str) -> ValueError:
    """Return the error for a text that is not a number of consumers."""
    return ValueError(
        f'Invalid concurrency {text!r}: write the maximum ("5") or the range ("3-5") of '
        "consumers, 1 or more"
    )
