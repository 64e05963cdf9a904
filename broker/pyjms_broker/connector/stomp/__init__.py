"""STOMP clients: conversion of frames to commands, and of responses to frames."""

from __future__ import annotations

from pyjms_broker.connector.stomp.connector import StompConnector, accepted_stomp

__all__ = ["StompConnector", "accepted_stomp"]
