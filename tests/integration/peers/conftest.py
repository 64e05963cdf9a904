"""Fixtures of this folder's tests."""

from tests.kit.brokers.comparison import connect, name, quick_factory
from tests.kit.servers.java_programs import maven_program
from tests.kit.servers.peers import activemq6_broker, artemis_broker, broker_url, peer
