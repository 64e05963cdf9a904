"""Fixtures of this folder's tests."""

from tests.kit.mqtt.client import mqtt, mqtt_broker
