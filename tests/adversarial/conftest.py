"""Fixtures of this folder's tests."""

from tests.kit.brokers.openwire_attacker import gone, peer, serves, service
from tests.kit.mqtt.client import mqtt, mqtt_broker
from tests.kit.stomp.client import stomp, stomp_broker
from tests.kit.tls import files, make_files, tls_broker
