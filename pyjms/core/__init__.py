"""JmsTemplate, and the session bound to the current task."""
