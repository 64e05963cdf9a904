"""Virtual destinations: virtual topics, composite queues and topics, mirrored queues."""
