"""The interface of embedded brokers for tests, and the discovery of the installed one."""

from __future__ import annotations

from pyjms.support.embedded_broker import EmbeddedBroker, embedded_broker

__all__ = ["EmbeddedBroker", "embedded_broker"]
