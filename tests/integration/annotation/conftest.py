"""Fixtures of this folder's tests."""

from tests.kit.clients.redelivery import pyjms_broker_url
