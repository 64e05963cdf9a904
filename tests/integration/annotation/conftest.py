"""Fixtures of this folder's tests."""

from tests.kit.redelivery import pyjms_broker_url
