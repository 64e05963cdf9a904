"""Topics, their subscriptions, and the backlog of durable subscriptions."""
