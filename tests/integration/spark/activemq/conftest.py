"""Fixtures of this folder's tests."""

from tests.kit.servers.java_brokers import (
    activemq_command,
    killing_activemq,
    run_killed_by_activemq,
)
