"""Fixtures of this folder's tests."""

from tests.kit.amqp.client import amqp, amqp_broker
from tests.kit.servers.java_programs import maven_program
from tests.kit.tls import files, make_files
