"""Fixtures of this folder's tests."""

from tests.kit.mqtt.client import mqtt, mqtt_broker
from tests.kit.servers.java_programs import maven_program
from tests.kit.tls import files, make_files
