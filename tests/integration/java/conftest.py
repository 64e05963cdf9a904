"""Fixtures of this folder's tests."""

from tests.kit.servers.java_client import java, java_command, jvm, name
