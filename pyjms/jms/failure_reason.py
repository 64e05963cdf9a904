"""The properties of a dead letter, and its reason in a line.

Clients write it as Java prints a Throwable, with the whole redelivery policy, into the property
`dlqDeliveryFailureCause`. (activemq-broker L10)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

FAILURE_CAUSE: Final = "dlqDeliveryFailureCause"
"""ActiveMQ's property of a dead letter with the reason, which includes the redelivery policy."""
FAILURE_TYPE: Final = "pyjms_failure_type"
"""This broker's property of a dead letter with the class of the reason, usable in selectors."""
FAILURE_TEXT: Final = "pyjms_failure_text"
"""This broker's property of a dead letter with only the text of the reason."""
ORIGINAL_DESTINATION: Final = "pyjms_original_destination"
"""A property of a dead letter that its listener has sent, with the destination of the message."""
ORIGINAL_EXPIRATION: Final = "originalExpiration"
"""ActiveMQ's property of a dead letter with the original expiration of the message."""

_LONGEST: Final = 80

_KINDS: Final = (
    (r"(?:java\.lang\.Throwable: )?Delivery\[(\d+)\] exceeds redelivery policy", "{} failed"),
    (
        r"(?:java\.lang\.Throwable: )?Dispatch\[(\d+)\] to \S+ exceeds redelivery policy",
        "{} failed, at several consumers",
    ),
    (r"(?:java\.lang\.Throwable: )?Message Expired", "expired"),
    (r"(?:java\.lang\.Throwable: )?TopicSubDiscard", "discarded, as its subscriber was slow"),
    (r"(?i)(?:\S+: )?.{0,80}duplicate", "delivered twice"),
    (r"\S+: NACK of a STOMP client", "refused by a STOMP client"),
)
"""Patterns of the causes that clients and brokers write, and what they are called."""
_POLICY: Final = re.compile(r"RedeliveryPolicy \{[^{}]{0,2000}\}, cause:(null|[\w.$]{1,200})")
_CLASS: Final = re.compile(r"([\w.$]{1,200})(?::|$)")


def reason_of(properties: Mapping[str, object], original: str | None) -> str:
    """Return why a message is a dead letter: `7 deliveries failed: ValueError in orders`.

    Args:
        properties: those of the dead letter.
        original: its original destination, as in `queue://orders`; None: unknown.
    """
    cause = str(properties.get(FAILURE_CAUSE) or "")
    where = (original or "").rpartition("://")[2]
    suffix = f" in {where}" if where else ""
    if not cause:
        return f"no reason given{suffix}"
    matches = ((re.match(pattern, cause), text) for pattern, text in _KINDS)
    found, text = next((each for each in matches if each[0] is not None), (None, ""))
    error = _error(properties, cause)
    if found is None:
        by_listener = ORIGINAL_DESTINATION in properties  # sent by it, for whatever reason
        return f"{'given up' if by_listener else 'refused at once'}: {error}{suffix}"
    if not found.groups():
        return f"{text}{suffix}"
    count = "1 delivery" if found[1] == "1" else f"{found[1]} deliveries"
    return f"{text.format(count)}{f': {error}' if error else ''}{suffix}"


def _error(properties: Mapping[str, object], cause: str) -> str:
    """Return the short name of the listener's exception; empty: unknown."""
    name = str(properties.get(FAILURE_TYPE) or "")
    if not name:
        in_policy = _POLICY.search(cause[:4000])
        found = in_policy or (None if "exceeds redelivery policy" in cause else _CLASS.match(cause))
        name = "" if found is None or found[1] == "null" else found[1]
    return name.rpartition(".")[2].rpartition("$")[2][:_LONGEST]
