"""The stores of queues and topics, on the loop: what readers see, and the work of transactions."""
