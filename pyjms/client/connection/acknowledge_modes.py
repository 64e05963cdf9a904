"""Validation of the acknowledge modes of new sessions."""

from __future__ import annotations

from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException

__all__ = ["session_mode"]


def session_mode(transacted: bool, value: AcknowledgeMode | int) -> AcknowledgeMode:
    """Return the mode of a new session.

    Raises:
        JMSException: the session is not transacted, and `value` is not a mode for such sessions.
    """
    if transacted:
        return AcknowledgeMode.TRANSACTED
    if value == AcknowledgeMode.TRANSACTED:
        raise JMSException(
            "acknowledgeMode SESSION_TRANSACTED cannot be used for an non-transacted Session",
            hint="create_session(transacted=True)",
        )
    try:
        return AcknowledgeMode(value)
    except ValueError:
        raise JMSException(
            f"invalid acknowledgeMode: {value}. Valid values are AUTO (1), CLIENT (2),"
            " DUPS_OK (3) and INDIVIDUAL (4)"
        ) from None
