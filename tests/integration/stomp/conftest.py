"""Fixtures of this folder's tests."""

from tests.kit.servers.java_client import java_command, jvm
from tests.kit.servers.java_programs import maven_program
from tests.kit.stomp.client import stomp, stomp_broker
from tests.kit.tls import files, make_files
