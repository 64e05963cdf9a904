"""Fixtures of this folder's tests."""

from tests.kit.servers.postgresql import postgresql_fixture
