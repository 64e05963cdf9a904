"""Fixtures of this folder's tests."""

from tests.kit.java import maven_program
from tests.kit.java_brokers import maven_broker
