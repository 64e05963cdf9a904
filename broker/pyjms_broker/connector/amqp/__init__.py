"""AMQP 1.0 clients."""
