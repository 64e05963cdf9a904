"""JmsTemplate, its operations, and the session bound to the current task."""
