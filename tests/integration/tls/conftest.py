"""Fixtures of this folder's tests."""

from tests.kit.servers.java_programs import java_program
from tests.kit.tls import files, make_files, self_signed, tls_broker
