"""Fixtures of this folder's tests."""

from tests.kit.stores import factory, kept, opened, pytest_generate_tests, volatile
