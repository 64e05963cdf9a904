"""Seeing inside an application: traces, metrics, health and logs. Guide: docs/observability.md."""
