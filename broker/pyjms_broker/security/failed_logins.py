"""Failed logins are limited, and checks of passwords take turns, so that guessing stays slow.

Failures count for an address and a kind of port, and for a known user there. After the maximum,
names of no user are refused there, and users who have reached it themselves; others still log in,
although a program with a stale password shares their proxy. As every failure counts for the
address, and its text and time are the same for all names, neither tells whether a user exists.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

import anyio

from pyjms.errors import JMSSecurityException
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

logger = get_logger(__name__)

_MAXIMUM_ORIGINS: Final = 10_000
"""The maximum number of recorded origins; the oldest ones are dropped."""
_MAXIMUM_NAMES: Final = 100
"""The number of users whose failures count for themselves, for each origin."""
_MAXIMUM_WAITING: Final = 5000
"""The number of logins of one address that may wait for their turn."""
_IPV6_NETWORK: Final = 64
"""The prefix length of an IPv6 network that usually belongs to one customer."""


class Origin(NamedTuple):
    """Where a login comes from."""

    address: str
    """The IPv4 address or the IPv6 network; see `address_key`."""
    is_web: bool = False
    """Whether it came to the web server, not to a port for messages."""


class _Failures:
    __slots__ = ("began", "by_user", "count")

    def __init__(self, began: float) -> None:
        self.began = began
        self.count = 0
        self.by_user: dict[str, int] = {}


class FailedLogins:
    """Counts the failed logins of each origin within a period.

    Args:
        maximum: the number of failed logins after which further ones are refused; 0: no limit.
        period: seconds after the first failure until the failures of an origin expire.
    """

    def __init__(self, maximum: int, period: float) -> None:
        self._maximum = maximum
        self._period = period
        self._by_origin: OrderedDict[Origin, _Failures] = OrderedDict()

    def is_refused(self, origin: Origin | None, user: str | None) -> bool:
        """Return whether a login is refused whatever its password.

        Args:
            origin: where it comes from; None: the broker's process, which has no limit.
            user: the user's name; None: there is no such user.
        """
        failures = self._failures(origin)
        if failures is None or failures.count < self._maximum:
            return False
        own = 0 if user is None else failures.by_user.get(user, 0)
        is_full = user is not None and not own and len(failures.by_user) >= _MAXIMUM_NAMES
        return user is None or own >= self._maximum or is_full

    def check(self, origin: Origin | None) -> None:
        """Raise the error of a failed login if the origin has failed too often."""
        failures = self._failures(origin)
        if origin is not None and failures is not None and failures.count >= self._maximum:
            left = failures.began + self._period - _clock.now()
            raise JMSSecurityException(
                f"Too many failed logins from {origin.address}: further ones are refused for "
                f"{left:.0f} s"
            )

    def count(self, origin: Origin | None, user: str | None) -> None:
        """Count a failed login; the arguments are those of `is_refused`."""
        if origin is None or not self._maximum:
            return
        failures = self._failures(origin)
        if failures is None:
            failures = self._by_origin[origin] = _Failures(_clock.now())
        failures.count += 1
        if user is not None and (
            user in failures.by_user or len(failures.by_user) < _MAXIMUM_NAMES
        ):
            failures.by_user[user] = failures.by_user.get(user, 0) + 1
        if failures.count == self._maximum:
            logger.warning(
                "%d logins from %s have failed: further ones of the same users, and of unknown "
                "ones, are refused for %g s",
                self._maximum,
                origin.address,
                failures.began + self._period - _clock.now(),
            )
        while len(self._by_origin) > _MAXIMUM_ORIGINS:
            self._by_origin.popitem(last=False)

    def _failures(self, origin: Origin | None) -> _Failures | None:
        if origin is None or not self._maximum:
            return None
        failures = self._by_origin.get(origin)
        if failures is not None and failures.began + self._period <= _clock.now():
            del self._by_origin[origin]
            return None
        return failures


class LoginTurns:
    """Lets a number of logins be checked at once; addresses take turns.

    One address can use all places, but then the next one is for another address that waits.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[str | None, deque[anyio.Event]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, address: str | None) -> AsyncIterator[None]:
        """Wait for a place, and hold it within the block. Cancellable.

        Raises:
            JMSSecurityException: too many logins of the address are waiting.
        """
        await self._take(address)
        try:
            yield
        finally:
            self._give()

    async def _take(self, address: str | None) -> None:
        if self._free:
            self._free -= 1
            return
        queue = self._waiting.setdefault(address, deque())
        if len(queue) >= _MAXIMUM_WAITING:
            raise JMSSecurityException(
                f"{_MAXIMUM_WAITING} logins from {address} wait to be checked",
                hint="try again later",
            )
        turn = anyio.Event()
        queue.append(turn)
        try:
            await turn.wait()
        except BaseException:  # cancelled
            if turn.is_set():
                self._give()
            else:
                queue.remove(turn)
                if not queue:
                    del self._waiting[address]
            raise

    def _give(self) -> None:
        if not self._waiting:
            self._free += 1
            return
        address, queue = self._waiting.popitem(last=False)
        turn = queue.popleft()
        if queue:
            self._waiting[address] = queue  # behind the other addresses
        turn.set()


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
