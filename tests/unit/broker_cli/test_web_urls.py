"""URLs of a broker's web server, at a path of a proxy too."""

from __future__ import annotations

import pytest

from pyjms_broker.cli.management.client import JolokiaClient


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://b:8161", "http://b:8161/api/jolokia"),
        ("http://b:8161/", "http://b:8161/api/jolokia"),
        ("http://b:8161/api/jolokia/", "http://b:8161/api/jolokia"),
        ("http://b:8161/admin/", "http://b:8161/api/jolokia"),
        ("http://b.com/broker", "http://b.com/broker/api/jolokia"),
        ("http://b.com/broker/admin", "http://b.com/broker/api/jolokia"),
        ("http://b.com/broker/api/jolokia", "http://b.com/broker/api/jolokia"),
        ("http://b.com/console/jolokia", "http://b.com/console/jolokia"),
    ],
)
def test_a_url_may_have_a_path(given: str, used: str) -> None:
    assert JolokiaClient(given).url == used
