"""A limit of failed logins per address, to slow down guessing of passwords."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import JMSSecurityException

__all__ = ["FailedLogins", "address_key"]

logger = get_logger(__name__)

_MAXIMUM_ADDRESSES: Final = 10_000
"""The maximum number of recorded addresses; the oldest ones are dropped."""
_IPV6_NETWORK: Final = 64
"""The prefix length of an IPv6 network that usually belongs to one customer."""


class FailedLogins:
    """Counts the failed logins of each address within a period.

    Args:
        maximum: the number of failed logins after which an address is refused; 0: no limit.
        period: seconds after the first failure until the failures of an address expire.
    """

    def __init__(self, maximum: int, period: float) -> None:
        self._maximum = maximum
        self._period = period
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By address: the beginning of the period, and the number of failures since."""

    def check(self, address: str | None) -> None:
        """Check that an address has not failed too often; None is always accepted.

        Raises:
            JMSSecurityException: the address has failed too often.
        """
        began, count = self._current(address)
        if self._maximum and count >= self._maximum:
            left = began + self._period - _clock.now()
            raise JMSSecurityException(
                f"Too many failed logins from {address}: further ones are refused for {left:.0f} s"
            )

    def failed(self, address: str | None) -> None:
        """Count a failed login."""
        if address is None or not self._maximum:
            return
        began, count = self._current(address)
        self._failures[address] = began, count + 1
        if count + 1 == self._maximum:
            logger.warning(
                "%d logins from %s have failed: further ones are refused for %g s",
                self._maximum,
                address,
                began + self._period - _clock.now(),
            )
        while len(self._failures) > _MAXIMUM_ADDRESSES:
            self._failures.popitem(last=False)

    def _current(self, address: str | None) -> tuple[float, int]:
        now = _clock.now()
        known = None if address is None else self._failures.get(address)
        if known is not None and known[0] + self._period <= now:
            del self._failures[address or ""]
            known = None
        return (now, 0) if known is None else known


def address_key(remote_address: str | None) -> str | None:
    """Return the key for a client's failed logins; None for clients in the process.

    It is the IPv4 address, or the IPv6 network.
    """
    if remote_address is None or remote_address.startswith("vm:"):
        return None
    host = remote_address.rpartition("://")[2].rpartition(":")[0].strip("[]")
    try:
        address: IPv4Address | IPv6Address = ip_address(host.partition("%")[0])
    except ValueError:
        return remote_address.rpartition(":")[0]
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Network((address, _IPV6_NETWORK), strict=False))
    return str(address)
