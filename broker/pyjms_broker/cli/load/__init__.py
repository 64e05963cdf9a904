"""`pyjms broker producer` and `consumer`: send or receive test messages, and measure the time."""
