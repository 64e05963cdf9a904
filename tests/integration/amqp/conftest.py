"""Fixtures of this folder's tests."""

from tests.kit.amqp.client import amqp, amqp_broker
from tests.kit.servers.java_client import java_command
from tests.kit.servers.java_programs import java_program, maven_program
from tests.kit.tls import files, make_files
