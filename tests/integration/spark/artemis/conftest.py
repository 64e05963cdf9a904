"""Fixtures of this folder's tests."""

from tests.kit.servers.java_brokers import maven_broker
from tests.kit.servers.java_programs import maven_program
