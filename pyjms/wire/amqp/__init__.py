"""AMQP 1.0: types, performatives, sections of messages, frames, and the state of a connection."""
