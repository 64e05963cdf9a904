"""Fixtures of this folder's tests."""

from tests.kit.postgresql import postgresql_fixture
