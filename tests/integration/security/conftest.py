"""Fixtures of this folder's tests."""

from tests.kit.amqp.client import amqp_broker
from tests.kit.brokers.networks import network
from tests.kit.brokers.security import secured
from tests.kit.mqtt.client import mqtt_broker
from tests.kit.stomp.client import stomp_broker
from tests.kit.tls import files, make_files
