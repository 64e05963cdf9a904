"""Fixtures of this folder's tests."""

from tests.kit.processes.children import our_broker, process
from tests.kit.processes.user_programs import installed
from tests.kit.servers.java_brokers import real_broker
from tests.kit.servers.java_programs import java_program
