"""`pyjms broker producer` and `consumer`: many test messages, and how long they took."""
