"""Pipelines: functions and SQL from messages to messages, and their execution.

Layers, each using only those below it:

- `execution`: starts the query of a pipeline, restarts it, drains it;
- `definition` (the definition of pipelines, and its checks) and `reporting` (events, log, status
  files, health), which are independent of each other;
- `schema`: message bodies as typed rows.
"""
