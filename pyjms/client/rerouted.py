"""Messages that the broker sent elsewhere: dead letters, copies of virtual topics."""

from __future__ import annotations

from typing import Final

from pyjms.client.messages import CommandSource

__all__ = ["ReroutedSource"]

_ORIGINAL_EXPIRATION: Final = "originalExpiration"


class ReroutedSource(CommandSource):
    """Leaves out what the broker notes for itself and no JMS client shows. (jms-api 10.6)"""

    __slots__ = ()

    def decode_properties(self) -> dict[str, object]:
        values = super().decode_properties()
        values.pop(_ORIGINAL_EXPIRATION, None)
        return values
