"""The stores of queues and topics, on the loop: reads, overlays, and transactional work."""
