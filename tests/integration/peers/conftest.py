"""Fixtures of this folder's tests."""

from tests.kit.broker_comparison import connect, name, quick_factory
from tests.kit.java import maven_program
from tests.kit.peers import activemq6_broker, artemis_broker, broker_url, peer
