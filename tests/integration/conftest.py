"""Fixtures of this folder's tests."""

from tests.kit.java import java_program
from tests.kit.java_brokers import real_broker
from tests.kit.processes import our_broker, process
from tests.kit.user_programs import installed
