"""Observability: traces, metrics, health and logs. Guide: docs/observability.md."""
