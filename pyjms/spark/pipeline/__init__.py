"""Pipelines: functions and SQL from messages to messages, and what runs them.

Layers, each using only those below it:

- `execution`: starts the query of a pipeline, restarts it, drains it;
- `definition` (what a pipeline is, and whether it can run) and `reporting` (events, log, status
  files, health), which do not know each other;
- `schema`: message bodies as typed rows.
"""
