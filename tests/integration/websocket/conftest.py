"""Fixtures of this folder's tests."""

from tests.kit.tls import files, make_files, tls_broker
