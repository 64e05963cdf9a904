"""STOMP clients: conversion of frames to commands, and of responses to frames."""

from __future__ import annotations

from pyjms_broker.connector.stomp.accepted import accepted_stomp
from pyjms_broker.connector.stomp.connector import StompConnector

__all__ = ["StompConnector", "accepted_stomp"]
