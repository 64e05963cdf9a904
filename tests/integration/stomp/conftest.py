"""Fixtures of this folder's tests."""

from tests.kit.java import maven_program
from tests.kit.java_client import java_command, jvm
from tests.kit.stomp import stomp, stomp_broker
from tests.kit.tls import files, make_files
