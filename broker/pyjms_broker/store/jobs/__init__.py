"""Job stores of the message scheduler: a journal compatible with ActiveMQ's, or memory."""
