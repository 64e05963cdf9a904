"""Background work of an open store: checkpoints, cleanup, acknowledgement compaction."""
