"""Pipelines: functions and SQL from messages to messages, and their execution.

- `definition` and `checks`: pipelines as data, collected from functions and settings;
- `run`: runs pipelines, restarts them after `failures`, drains them; `query` starts the query of
  one, at its `location`;
- `events`, which `reports` turns into the log, status files and health;
- `schema`, `models` and `parsing`: message bodies as typed rows.
"""
