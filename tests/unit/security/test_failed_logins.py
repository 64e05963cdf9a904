"""The limit of failed logins: which addresses count as one, and how many are kept."""

from __future__ import annotations

import tracemalloc

import pytest

from pyjms.errors import JMSSecurityException
from pyjms_broker.security.authentication import FailedLogins, address_key


@pytest.mark.parametrize(
    ("remote", "key"),
    [
        ("tcp://10.0.0.1:5000", "10.0.0.1"),
        ("ssl://10.0.0.1:5001", "10.0.0.1"),
        ("tcp://[::ffff:10.0.0.1]:5000", "10.0.0.1"),
        ("tcp://[2001:db8:1:2:3:4:5:6]:5000", "2001:db8:1:2::/64"),
        ("tcp://2001:db8:1:2:3:4:5:7:5000", "2001:db8:1:2::/64"),
        ("tcp://[fe80::1%eth0]:5000", "fe80::/64"),
        ("vm://broker#3", None),
        (None, None),
        ("tcp://unknown", "tcp"),
    ],
)
def test_what_an_address_counts_for(remote: str | None, key: str | None) -> None:
    assert address_key(remote) == key


def test_memory_is_bounded() -> None:
    limit = FailedLogins(2, 60)
    for number in range(10_000):
        limit.count(f"a{number}")
    tracemalloc.start()
    try:
        for number in range(40_000):
            limit.count(f"b{number}")
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()
    limit.count("b39999")
    with pytest.raises(JMSSecurityException, match="Too many failed logins from b39999"):
        limit.check("b39999")
    limit.check("b0")


def test_without_a_limit_nothing_is_refused() -> None:
    limit = FailedLogins(0, 60)
    for _ in range(100):
        limit.count("a")
        limit.check("a")
