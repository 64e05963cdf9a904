"""Scheduled delivery: messages with AMQ_SCHEDULED_* properties, delayed and repeated."""
